//! `xtask bench`: builds what is measured and hands over to the harness (e2e/bench), which reads
//! the same variables that `make bench` is given.

use anyhow::Result;
use millrace_stack::otelcol;
use millrace_stack::paths::Paths;

use crate::build::{self, Binaries};
use crate::{say, shell};

/// Measures; with the OpenTelemetry Collector beside ours when `peers`.
pub(crate) fn run(peers: bool, from: Binaries) -> Result<()> {
    if from == Binaries::Built {
        build::benchmarks()?;
    }
    let mut command = shell::command(&build::release("millrace-bench").to_string_lossy(), &[]);
    command.env("MILLRACE_BIN_DIR", build::release(""));
    if peers {
        let program = otelcol::build(&Paths::from_env()?, &say::progress())?;
        command.env("PEER", format!("{} --config {{config}}", program.display()));
        command.env("PEER_NAME", "otelcol");
    }
    shell::run_command(&mut command)
}
