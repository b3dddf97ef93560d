//! `xtask conformance`: ours and Prometheus' on the same rules, bodies and targets; ours and the
//! OpenTelemetry Collector's on the same statements, topics and tables; tables for readers beside
//! the exporter's; SDKs' copies after a stall; Rotel's topics read. Apart from `xtask test-all`,
//! since the Collector is built from its Go modules. Rotel is left out, and it is said why, where
//! its package has no build that runs.

pub(crate) mod relabel;

use anyhow::Result;
use millrace_stack::paths::Paths;
use millrace_stack::{otelcol, rotel};

use crate::{say, test};

/// How long ours and Prometheus scrape the same targets, unless the environment says it.
const SCRAPE_SECONDS: (&str, &str) = ("MILLRACE_SCRAPE_SECONDS", "600");

/// Builds all sides and compares.
pub(crate) fn run() -> Result<()> {
    for subject in [relabel::RULES, relabel::BODIES, relabel::STATEMENTS] {
        relabel::run(&subject, &relabel::Options::default())?;
    }
    compare("against_prometheus")?;
    compare("against_sdks")?;
    otelcol::build(&Paths::from_env()?, &say::progress())?;
    compare("readers")?;
    compare("against_otelcol")?;
    match rotel::agent() {
        Ok(_) => compare("against_rotel"),
        Err(reason) => {
            say::line(&format!("conformance::against_rotel: skipped: {reason}"));
            Ok(())
        }
    }
}

fn compare(with: &str) -> Result<()> {
    let (name, seconds) = SCRAPE_SECONDS;
    let seconds = std::env::var(name).unwrap_or_else(|_| seconds.to_owned());
    test::run_module("conformance", Some(with), &[(name, &seconds)])
}
