//! vlagent, the log collector of VictoriaLogs, for comparing with: built once, from its Go module,
//! into the cache.
//!
//! It is no part of the stack. Building needs Go, a C compiler (its own builds link C's zstd, which
//! is faster than Go's) and the module proxy, some 30 s.

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
        folder: "vlagent",
        module: "github.com/VictoriaMetrics/VictoriaLogs",
        version: versions::VLAGENT,
        program: "vlagent",
        parent: "app",
        links_c: true,
        usual_seconds: 30,
    };
    module.build(paths, progress)
}
