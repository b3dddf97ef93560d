//! `xtask chaos`: builds what faults are done to and hands over to the harness (e2e/chaos), which
//! reads the same variables that `make chaos` is given: BUDGET, FAULT, RUNS, SEED, LANES.
//!
//! What is struck are the release binaries. Only the collector that ends at named points is another
//! build, in dev mode: release mode refuses to have such points.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{self, Binaries};
use crate::shell;

/// Does the faults of a budget, in one world unless LANES says otherwise.
pub(crate) fn run(from: Binaries) -> Result<()> {
    prepare(from)?;
    strike()
}

/// The same as a phase of `make test`: two worlds side by side, since most of a fault is waiting.
pub(crate) fn test() -> Result<()> {
    prepare(Binaries::AsTheyAre)?;
    let mut command = striking();
    if std::env::var_os("LANES").is_none() {
        command.env("LANES", "2");
    }
    shell::run_command(&mut command)
}

fn prepare(from: Binaries) -> Result<()> {
    if from == Binaries::Built {
        build::struck()?;
    }
    harness()
}

/// The same as [`run`], with everything as an earlier build left it.
pub(crate) fn strike() -> Result<()> {
    shell::run_command(&mut striking())
}

fn striking() -> Command {
    let mut command = shell::command(&dev("millrace-chaos"), &[]);
    command.env("MILLRACE_BIN_DIR", build::release(""));
    command.env("MILLRACE_FAILPOINT_BIN", build::target().join("chaos/millrace-collector"));
    command
}

/// The harness, the clock that it moves, and the collector with named points. Two of them come as by-products of building their
/// packages' tests, so that everything they need is what `make test` has built anyway.
fn harness() -> Result<()> {
    let command = ["test", "--locked", "--workspace", "--no-run", "--test", "command"];
    let points = ["--features", "millrace-collector/failpoints"];
    shell::run("cargo", &[&command[..], &points].concat())?;
    let kept = build::target().join("chaos");
    fs::create_dir_all(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
    let built = dev("millrace-collector");
    fs::copy(&built, kept.join("millrace-collector"))
        .with_context(|| format!("cannot copy {built}"))?;
    shell::run("cargo", &["build", "--locked", "-p", "millrace-clock"])?;
    // The usual collector takes its place in the folder again.
    shell::run("cargo", &[&command[..], &["--test", "chaos_proxy"]].concat())
}

fn dev(name: &str) -> String {
    build::target().join("debug").join(name).to_string_lossy().into_owned()
}
