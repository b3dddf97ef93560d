//! What Flux says of an object: the rules by which its kustomize-controller waits, and its
//! evaluator of expressions in their place, built from their Go modules into the cache. Its
//! controllers are in [`crate::flux`].

use std::path::{Path, PathBuf};

use crate::binaries::newer_go;
use crate::error::Result;
use crate::module::cached;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{run, write_file};
use crate::versions;

/// What it requires: the rules, the evaluator of expressions, and the type that they are written in.
const MODULES: [(&str, &str); 3] = [
    ("github.com/fluxcd/cli-utils", versions::KSTATUS),
    ("github.com/fluxcd/pkg/runtime", versions::FLUX_RUNTIME),
    ("github.com/fluxcd/pkg/apis/kustomize", versions::FLUX_KUSTOMIZE),
];
const SOURCE: &str = include_str!("../kstatus/main.go");
const PROGRAM: &str = "kstatus";

/// Builds it unless the cache has it, and gives the program's path. `kstatus KUSTOMIZATION FILE...`
/// prints a line for each file, which has one object: the status by the rules (`Current`,
/// `InProgress`, `Failed`), a tab, that by the Kustomization's expressions (or `Unknown`).
///
/// # Errors
/// When a module can't be fetched or the build fails, with the end of what Go said.
pub fn build(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let version = versions::KSTATUS;
    let name = format!("{PROGRAM}-{version}-{}", versions::KSTATUS_PROGRAM);
    let told = format!("building Flux' status rules {version} (about 60 s)");
    cached((paths, progress), (&name, PROGRAM), &told, |folder: &Path, target: &Path| {
        write_file(&folder.join("main.go"), SOURCE)?;
        let go = versions::NEWER_GO.trim_start_matches("go");
        let required = MODULES.map(|(module, version)| format!("require {module} {version}\n"));
        let text =
            format!("module millrace.dev/cache/{PROGRAM}\n\ngo {go}\n\n{}", required.concat());
        write_file(&folder.join("go.mod"), &text)?;
        let mut command = newer_go();
        command.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(target).arg(".");
        run(&format!("build {PROGRAM}"), command.current_dir(folder))
    })
}
