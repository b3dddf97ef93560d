//! cosign, which signs what a release is made of and checks it: built once, from its Go module, into
//! the cache. It is no part of the stack.

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
        folder: "cosign",
        module: "github.com/sigstore/cosign/v2",
        version: versions::COSIGN,
        program: "cosign",
        parent: "cmd",
        links_c: false,
        usual_seconds: 180,
    };
    module.build(paths, progress)
}
