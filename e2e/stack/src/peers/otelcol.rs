//! The OpenTelemetry Collector, for comparing with: built once, from its Go modules, by its own
//! builder, into the cache.
//!
//! It is no part of the stack. Needs Go and the module proxy, some 150 s and 1 GB of build cache
//! the first time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::go;
use crate::error::Result;
use crate::fetch::module::cached;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{ServiceError, run, write_file};
use crate::versions;

/// The parts it is built of.
const MANIFEST: &str = include_str!("../../otelcol/manifest.yaml");
/// The same of one with the processors that rules replace.
const RULES: &str = include_str!("../../otelcol/rules.yaml");
/// The same of one that scrapes targets.
const SCRAPER: &str = include_str!("../../otelcol/scrape.yaml");
/// The program in the cache.
const PROGRAM: &str = "otelcol";
const BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder";

/// Builds it unless the cache has it, and gives the program's path: `otelcol --config FILE`.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let name = format!("otelcol-{}-{}", versions::OTELCOL, versions::OTELCOL_PARTS);
    build_manifest(paths, progress, &name, MANIFEST)
}

/// Builds one with the processors that rules replace, likewise.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build_with_processors(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let name = format!("otelcol-rules-{}-{}", versions::OTELCOL, versions::OTELCOL_RULES_PARTS);
    build_manifest(paths, progress, &name, RULES)
}

/// Builds one with the Prometheus receiver unless the cache has it, and gives the program's path.
/// Its receiver has the clients of every cloud: 17 minutes at the lowest priority on two busy cores.
///
/// # Errors
/// When a module cannot be fetched or the build fails, with the end of what Go said.
pub fn build_scraper(paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let version = versions::OTELCOL;
    let name = format!("otelcol-scrape-{version}-{}", versions::OTELCOL_SCRAPER_PARTS);
    build_manifest(paths, progress, &name, SCRAPER)
}

/// Lets the Collector's own builder write the sources of a manifest, and compiles them.
fn build_manifest(
    paths: &Paths,
    progress: &dyn Progress,
    name: &str,
    manifest: &str,
) -> Result<PathBuf> {
    let message = format!("building the OpenTelemetry Collector {} (minutes)", versions::OTELCOL);
    cached((paths, progress), (name, PROGRAM), &message, |folder, target| {
        let mut generate = generator(folder, manifest)?;
        run("write the sources of the OpenTelemetry Collector", &mut generate)?;
        // The builder would also fetch the modules of its parts' tests, one of which isn't
        // published. The program needs none of them.
        let sources = folder.join("build");
        write_file(&sources.join("go.mod"), &module_file(manifest))?;
        let mut compile = go();
        compile.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(target).arg(".");
        run("build the OpenTelemetry Collector", compile.current_dir(&sources))
    })
}

/// The builder, which writes the sources of a manifest and doesn't compile them.
fn generator(folder: &Path, manifest: &str) -> Result<Command, ServiceError> {
    write_file(&folder.join("manifest.yaml"), manifest)?;
    let mut command = go();
    command
        .args(["run", &format!("{BUILDER}@{}", versions::OTELCOL), "--config", "manifest.yaml"])
        // The exporter is of another version than the rest.
        .args(["--skip-strict-versioning", "--skip-get-modules", "--skip-compilation"])
        .current_dir(folder);
    Ok(command)
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
    use super::{MANIFEST, RULES, SCRAPER, module_file};

    /// Scenario: the manifest of each Collector. Guarantee: each of its parts is required, and the
    /// program around them.
    #[test]
    fn each_part_is_required() {
        for manifest in [MANIFEST, RULES, SCRAPER] {
            let text = module_file(manifest);
            let parts = manifest.matches("gomod").count();
            assert_eq!(text.matches("\nrequire ").count(), parts + 1, "{text}");
            assert!(text.contains("/kafkaexporter v") && text.contains("/otelcol v"), "{text}");
        }
    }
}
