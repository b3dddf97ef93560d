//! Krew, which installs kubectl's plugins: built once, from its Go module, into the cache, for trying a
//! release. It is no part of the stack.

use std::path::PathBuf;

use crate::error::Result;
use crate::fetch::module::Module;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::versions;

/// Builds it unless the cache has it, and gives the program's path.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let module = Module {
        folder: "krew",
        module: "sigs.k8s.io/krew",
        version: versions::KREW,
        program: "krew",
        parent: "cmd",
        links_c: false,
        usual_seconds: 30,
    };
    module.build(paths, progress)
}
