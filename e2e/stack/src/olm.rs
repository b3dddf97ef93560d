//! The checks of Operator Lifecycle Manager and OperatorHub for a bundle, built from their Go modules
//! into the cache: the libraries that `operator-sdk bundle validate` calls. No part of the stack;
//! the manager itself isn't built.

use std::path::{Path, PathBuf};

use crate::binaries::newer_go;
use crate::error::Result;
use crate::module::cached;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{run, write_file};
use crate::versions;

const SOURCE: &str = include_str!("../olm/main.go");
const PROGRAM: &str = "olm-check";

/// Builds it unless the cache has it, and gives the program's path. `olm-check FOLDER KUBERNETES`
/// prints a line for each error and each warning, and fails if there is one.
///
/// # Errors
/// When a module can't be fetched or the build fails, with the end of what Go said.
pub fn check(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let version = versions::OPERATOR_REGISTRY;
    let name = format!("{PROGRAM}-{version}-{}", versions::OLM_CHECK);
    let told = format!("building the checks of OLM's bundles {version} (about 60 s)");
    cached((paths, progress), (&name, PROGRAM), &told, |folder: &Path, target: &Path| {
        write_file(&folder.join("main.go"), SOURCE)?;
        let go = versions::NEWER_GO.trim_start_matches("go");
        // It requires the rest: the module of the types in the version that belongs to it.
        let text = format!(
            "module millrace.dev/cache/{PROGRAM}\n\ngo {go}\n\n\
             require github.com/operator-framework/operator-registry {version}\n"
        );
        write_file(&folder.join("go.mod"), &text)?;
        let mut command = newer_go();
        command.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(target).arg(".");
        run(&format!("build {PROGRAM}"), command.current_dir(folder))
    })
}
