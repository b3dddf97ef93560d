//! `xtask keeper-faults`: strikes against three ZooKeepers (e2e/keeper-faults), which reads the same
//! variables that `make keeper-faults` is given: STRIKE, RUNS, SEED.

use anyhow::Result;

use crate::{build, shell};

/// What `make test` strikes, in a minute or two: the rest is in `make nightly`.
const QUICK: &str = "leader_killed,leader_paused,partition,disk_full,clock_step";

/// Strikes as the variables say.
pub(crate) fn run() -> Result<()> {
    strike(None)
}

/// The same as a part of `make test`.
pub(crate) fn test() -> Result<()> {
    strike(Some(QUICK))
}

fn strike(unless_said: Option<&str>) -> Result<()> {
    let packages = ["-p", "millrace-keeper-faults", "-p", "millrace-clock"];
    shell::run("cargo", &[&["build", "--locked"], &packages[..]].concat())?;
    let program = build::target().join("debug/millrace-keeper-faults");
    let mut command = shell::command(&program.to_string_lossy(), &[]);
    if let Some(strikes) = unless_said.filter(|_| std::env::var_os("STRIKE").is_none()) {
        command.env("STRIKE", strikes);
    }
    shell::run_command(&mut command)
}
