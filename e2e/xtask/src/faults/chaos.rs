//! `xtask chaos`: compiles what faults are done to and hands over to the harness (e2e/chaos), which
//! reads the same variables that `make chaos` is given: BUDGET, FAULT, RUNS, SEED, LANES.
//!
//! What is struck is compiled with the tests, so its collectors have the points at which
//! `kill_at_point` ends them.

use std::process::Command;

use anyhow::Result;

use crate::build::{self, Binaries};
use crate::{shell, test};

/// Does the faults of a budget, in one world unless LANES says otherwise.
pub(crate) fn run(from: Binaries) -> Result<()> {
    if from == Binaries::Built {
        test::compile()?;
    }
    shell::run_command(&mut striking())
}

/// The same for `make test-all`: three worlds side by side, since most of a fault is waiting.
pub(crate) fn of_each_change() -> Command {
    let mut command = striking();
    if std::env::var_os("LANES").is_none() {
        command.env("LANES", "3");
    }
    command
}

fn striking() -> Command {
    shell::command(&build::tested("millrace-chaos").to_string_lossy(), &[])
}
