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
/// The same of one that scrapes targets.
const SCRAPER: &str = include_str!("../otelcol/scrape.yaml");
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

/// Builds one with the Prometheus receiver unless the cache has it, and gives the program's path.
/// Its receiver has the clients of every cloud: 17 minutes at the lowest priority on two busy cores.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build_scraper(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let version = versions::OTELCOL;
    let name = format!("otelcol-scrape-{version}-{}", versions::OTELCOL_SCRAPER_PARTS);
    let target = paths.cache().join("bin").join(&name).join("otelcol");
    if target.exists() {
        return Ok(target);
    }
    let _lock = locked(paths, progress)?;
    if target.exists() {
        return Ok(target);
    }
    progress.tell(&format!(
        "building the OpenTelemetry Collector {version} that scrapes (about 10 minutes)"
    ));
    let folder = paths.cache().join("go").join(&name);
    create_dir(&folder)?;
    write_file(&folder.join("manifest.yaml"), SCRAPER)?;
    let mut generate = go();
    generate
        .args(["run", &format!("{BUILDER}@{version}"), "--config", "manifest.yaml"])
        .args(["--skip-strict-versioning", "--skip-get-modules", "--skip-compilation"])
        .current_dir(&folder);
    run("write the sources of the OpenTelemetry Collector", &mut generate)?;
    // The builder would want the modules of its parts' tests too, one of which isn't published.
    let sources = folder.join("build");
    write_file(&sources.join("go.mod"), &module_file(SCRAPER))?;
    if let Some(parent) = target.parent() {
        create_dir(parent)?;
    }
    let partial = target.with_extension("partial");
    let mut compile = go();
    compile.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(&partial).arg(".");
    run("build the OpenTelemetry Collector", compile.current_dir(&sources))?;
    fs::rename(&partial, &target)
        .map_err(io_error(format!("rename {} into place", partial.display())))?;
    Ok(target)
}

/// A module that requires the parts of a manifest, and the program around them.
fn module_file(manifest: &str) -> String {
    let (major, minor) = versions::OLDEST_GO;
    let parts = manifest.lines().filter_map(|line| line.trim().strip_prefix("- gomod: "));
    let around = format!("go.opentelemetry.io/collector/otelcol {}", versions::OTELCOL);
    let required: Vec<String> =
        parts.chain([around.as_str()]).map(|part| format!("require {part}\n")).collect();
    format!("module millrace.dev/cache/otelcol\n\ngo {major}.{minor}\n\n{}", required.concat())
}

#[cfg(test)]
mod tests {
    use super::{SCRAPER, module_file};

    /// Scenario: the manifest of the one that scrapes. Guarantee: each of its parts is required,
    /// and the program around them.
    #[test]
    fn each_part_is_required() {
        let text = module_file(SCRAPER);
        let parts = SCRAPER.matches("gomod").count();
        assert_eq!(text.matches("\nrequire ").count(), parts + 1, "{text}");
        assert!(text.contains("/prometheusreceiver v") && text.contains("/otelcol v"), "{text}");
    }
}
