//! Prometheus' own checker of rules, for trying the chart's alerts: the one on the PATH, or one
//! built once, from its Go module, into the cache.
//!
//! It is no part of the stack. Building needs Go and the module proxy, some five minutes of two
//! processors and 2 GB of build cache.

use std::env;
use std::path::PathBuf;

use crate::error::Result;
use crate::module::Module;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::versions;

/// The program's path: `promtool test rules FILE`.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn find_or_build(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let on_path = env::var_os("PATH").and_then(|folders| {
        env::split_paths(&folders).map(|it| it.join("promtool")).find(|it| it.is_file())
    });
    if let Some(found) = on_path {
        return Ok(found);
    }
    let module = Module {
        folder: "prometheus",
        module: "github.com/prometheus/prometheus",
        version: versions::PROMETHEUS,
        program: "promtool",
        parent: "cmd",
        links_c: false,
        usual_seconds: 200,
    };
    module.build(paths, progress)
}
