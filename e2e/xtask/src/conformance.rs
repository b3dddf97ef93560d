//! `xtask conformance`: ours and the OpenTelemetry Collector's on the same topics and tables,
//! compared; tables for readers beside the exporter's; Rotel's topics read. Apart from `xtask test`,
//! since the Collector is built from its Go modules. Rotel is left out, and it is said why, where
//! its package has no build that runs.

use anyhow::Result;
use millrace_stack::paths::Paths;
use millrace_stack::{otelcol, rotel};

use crate::{build, relabel, say, shell};

/// Builds all sides and compares.
pub(crate) fn run() -> Result<()> {
    relabel::run(&relabel::Options::default())?;
    build::binaries(build::Collectors::Default)?;
    otelcol::build(&Paths::from_env()?, &say::progress())?;
    suite("conformance_readers")?;
    suite("conformance_otelcol")?;
    match rotel::agent() {
        Ok(_) => suite("conformance_rotel"),
        Err(reason) => {
            say::line(&format!("conformance_rotel: skipped: {reason}"));
            Ok(())
        }
    }
}

fn suite(name: &str) -> Result<()> {
    let args = ["test", "--locked", "--package", "millrace-e2e", "--test", name, "--"];
    shell::run("cargo", &[&args[..], &["--test-threads=1"]].concat())
}
