//! `xtask conformance`: ours and Prometheus' on the same rules, bodies and targets; ours and the
//! OpenTelemetry Collector's on the same topics and tables; tables for readers beside the exporter's;
//! Rotel's topics read. Apart from `xtask test`, since the Collector is built from its Go modules.
//! Rotel is left out, and it is said why, where its package has no build that runs.

use anyhow::Result;
use millrace_stack::paths::Paths;
use millrace_stack::{otelcol, rotel};

use crate::{build, relabel, say, shell};

/// How long ours and Prometheus scrape the same targets, unless the environment says it.
const SCRAPE_SECONDS: (&str, &str) = ("MILLRACE_SCRAPE_SECONDS", "600");

/// Builds all sides and compares.
pub(crate) fn run() -> Result<()> {
    for subject in [relabel::RULES, relabel::BODIES] {
        relabel::run(&subject, &relabel::Options::default())?;
    }
    build::binaries(build::Collectors::Default)?;
    suite("conformance_prometheus")?;
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
    let mut test =
        shell::command("cargo", &[&args[..], &["--test-threads=1", "--nocapture"]].concat());
    let (name, seconds) = SCRAPE_SECONDS;
    if std::env::var_os(name).is_none() {
        test.env(name, seconds);
    }
    shell::run_command(&mut test)
}
