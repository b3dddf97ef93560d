//! The OpenTelemetry Collector, for comparing with: built once, from its Go modules, by its own
//! builder, into the cache.
//!
//! It is no part of the stack. Needs Go and the module proxy, some 150 s and 1 GB of build cache
//! the first time.

use std::fs;
use std::path::PathBuf;

use crate::binaries::{go, locked};
use crate::error::Result;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{create_dir, io_error, run, write_file};
use crate::versions;

/// The parts it is built of.
const MANIFEST: &str = include_str!("../otelcol/manifest.yaml");
const BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder";

/// Builds it unless the cache has it, and gives the program's path: `otelcol --config FILE`.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let version = versions::OTELCOL;
    let name = format!("otelcol-{version}-{}", versions::OTELCOL_PARTS);
    let target = paths.cache().join("bin").join(&name).join("otelcol");
    if target.exists() {
        return Ok(target);
    }
    let _lock = locked(paths, progress)?;
    if target.exists() {
        return Ok(target);
    }
    progress.tell(&format!("building the OpenTelemetry Collector {version} (about 150 s)"));
    let folder = paths.cache().join("go").join(&name);
    create_dir(&folder)?;
    write_file(&folder.join("manifest.yaml"), MANIFEST)?;
    let mut command = go();
    command
        .args(["run", &format!("{BUILDER}@{version}"), "--config", "manifest.yaml"])
        // The exporter is of another version than the rest.
        .arg("--skip-strict-versioning")
        .current_dir(&folder);
    run("build the OpenTelemetry Collector", &mut command)?;
    if let Some(parent) = target.parent() {
        create_dir(parent)?;
    }
    let built = folder.join("build/otelcol");
    fs::rename(&built, &target)
        .map_err(io_error(format!("move {} into place", built.display())))?;
    Ok(target)
}
