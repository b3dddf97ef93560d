//! `xtask keeper-faults`: strikes against three ZooKeepers (e2e/lab/keeper-faults), which reads the same
//! variables that `make keeper-faults` is given: STRIKE, RUNS, SEED.

use std::process::Command;

use anyhow::Result;

use crate::{build, shell, test};

/// What `make test-all` strikes, in a minute or two: the rest is in `make nightly`.
const QUICK: &str = "leader_killed,leader_paused,partition,disk_full,clock_step";

/// Strikes as the variables say.
pub(crate) fn run() -> Result<()> {
    test::compile()?;
    shell::run_command(&mut striking())
}

/// The same for `make test-all`.
pub(crate) fn of_each_change() -> Command {
    let mut command = striking();
    if std::env::var_os("STRIKE").is_none() {
        command.env("STRIKE", QUICK);
    }
    command
}

fn striking() -> Command {
    shell::command(&build::tested("millrace-keeper-faults").to_string_lossy(), &[])
}
