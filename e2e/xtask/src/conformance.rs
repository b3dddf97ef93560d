//! `xtask conformance`: ours and the OpenTelemetry Collector's on the same topics and tables,
//! compared. Apart from `xtask test`, since the Collector is built from its Go modules.

use anyhow::Result;
use millrace_stack::otelcol;
use millrace_stack::paths::Paths;

use crate::{build, say, shell};

/// Builds both sides and compares.
pub(crate) fn run() -> Result<()> {
    build::binaries()?;
    otelcol::build(&Paths::from_env()?, &say::progress())?;
    let suite = "conformance_otelcol";
    let args = ["test", "--locked", "--package", "millrace-e2e", "--test", suite, "--"];
    shell::run("cargo", &[&args[..], &["--test-threads=1"]].concat())
}
