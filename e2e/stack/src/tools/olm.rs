//! The checks of Operator Lifecycle Manager and OperatorHub for a bundle, built from their Go modules
//! into the cache: the libraries that `operator-sdk bundle validate` calls. No part of the stack;
//! the manager itself isn't built.

use std::path::PathBuf;

use crate::error::Result;
use crate::fetch::module::{build_source, cached};
use crate::paths::Paths;
use crate::progress::Progress;
use crate::versions;

/// It requires the rest: the module of the types in the version that belongs to it.
const MODULE: &str = "github.com/operator-framework/operator-registry";
const SOURCE: &str = include_str!("../../olm/main.go");
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
    cached((paths, progress), (&name, PROGRAM), &told, |folder, target| {
        build_source((PROGRAM, SOURCE), &[(MODULE, version)], folder, target)
    })
}
