//! Prometheus' own checker of rules, for trying the chart's alerts: the one on the PATH, or one
//! built once, from its Go module, into the cache.
//!
//! It is no part of the stack. Building needs Go and the module proxy, some five minutes of two
//! processors and 2 GB of build cache.

use std::env;
use std::fs;
use std::path::PathBuf;

use crate::binaries::{go, locked};
use crate::error::Result;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{create_dir, io_error, run, write_file};
use crate::versions;

const MODULE: &str = "github.com/prometheus/prometheus";

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
    let version = versions::PROMETHEUS;
    let target = paths.cache().join("bin").join(format!("prometheus-{version}")).join("promtool");
    if target.exists() {
        return Ok(target);
    }
    let _lock = locked(paths, progress)?;
    if target.exists() {
        return Ok(target);
    }
    progress.tell(&format!("building promtool {version} (about 200 s)"));
    let folder = paths.cache().join("go").join(format!("prometheus-{version}"));
    create_dir(&folder)?;
    let (major, minor) = versions::OLDEST_GO;
    let module = format!(
        "module millrace.dev/cache/prometheus\n\ngo {major}.{minor}\n\nrequire {MODULE} {version}\n"
    );
    write_file(&folder.join("go.mod"), &module)?;
    if let Some(parent) = target.parent() {
        create_dir(parent)?;
    }
    let partial = target.with_extension("partial");
    let mut command = go();
    command
        .args(["build", "-mod=mod", "-trimpath", "-o"])
        .arg(&partial)
        .arg(format!("{MODULE}/cmd/promtool"))
        .current_dir(&folder);
    run("build promtool", &mut command)?;
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(target)
}
