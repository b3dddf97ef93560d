//! `xtask bench`: builds what is measured and hands over to the harness (e2e/bench), which reads
//! the same variables that `make bench` is given.

pub(crate) mod compare;
pub(crate) mod operator;

use anyhow::Result;
use millrace_stack::paths::Paths;
use millrace_stack::prometheus::{self, Program};
use millrace_stack::{otelcol, vlagent, vmagent};

use crate::build::{self, Binaries};
use crate::{say, shell};

/// Measures; with the OpenTelemetry Collector beside ours when `peers`. Cases of log files and
/// of targets that are asked for by name always have their peers beside them, unless `PEERS=0`.
pub(crate) fn run(peers: bool, from: Binaries) -> Result<()> {
    if from == Binaries::Built {
        build::benchmarks()?;
    }
    let mut command = shell::command(&build::release("millrace-bench").to_string_lossy(), &[]);
    command.env("MILLRACE_BIN_DIR", build::release(""));
    let is_alone = std::env::var("PEERS").is_ok_and(|peers| peers == "0");
    let names = |word| std::env::var("CASE").is_ok_and(|case| !is_alone && case.contains(word));
    let names_files = names("files");
    // Parsing alone has no peers.
    if names("scrape") && std::env::var("CASE").is_ok_and(|case| case != "scrape-parse") {
        let (paths, progress) = (Paths::from_env()?, say::progress());
        command.env("VMAGENT", vmagent::build(&paths, &progress)?);
        let program = prometheus::find_or_fetch(Program::Prometheus, &progress)?;
        command.env("PROMETHEUS", program);
        command.env("OTELCOL_SCRAPE", otelcol::build_scraper(&paths, &progress)?);
    }
    // The Collector with its processors, beside ours with rules.
    let has_rules = names("rules") || names("plain");
    if has_rules {
        let program = otelcol::build_with_processors(&Paths::from_env()?, &say::progress())?;
        command.env("PEER", format!("{} --config {{config}}", program.display()));
        command.env("PEER_NAME", "otelcol");
    }
    if peers || names_files {
        let paths = Paths::from_env()?;
        let program = otelcol::build(&paths, &say::progress())?;
        command.env("FILELOG", &program);
        command.env("VLAGENT", vlagent::build(&paths, &say::progress())?);
        if peers && !has_rules {
            command.env("PEER", format!("{} --config {{config}}", program.display()));
            command.env("PEER_NAME", "otelcol");
        }
    }
    shell::run_command(&mut command)
}
