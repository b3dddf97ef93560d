//! What Flux says of an object: the rules by which its kustomize-controller waits, and its
//! evaluator of expressions in their place, built from their Go modules into the cache. Its
//! controllers are in [`crate::flux`].

use std::path::PathBuf;

use crate::error::Result;
use crate::fetch::module::{build_source, cached};
use crate::paths::Paths;
use crate::progress::Progress;
use crate::versions;

/// What it requires: the rules, the evaluator of expressions, and the type that they are written in.
const MODULES: [(&str, &str); 3] = [
    ("github.com/fluxcd/cli-utils", versions::KSTATUS),
    ("github.com/fluxcd/pkg/runtime", versions::FLUX_RUNTIME),
    ("github.com/fluxcd/pkg/apis/kustomize", versions::FLUX_KUSTOMIZE),
];
const SOURCE: &str = include_str!("../../kstatus/main.go");
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
    cached((paths, progress), (&name, PROGRAM), &told, |folder, target| {
        build_source((PROGRAM, SOURCE), &MODULES, folder, target)
    })
}
