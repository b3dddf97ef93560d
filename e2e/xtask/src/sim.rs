//! `xtask sim`: the sizing rule against models of others, in a simulator. Prints the tables, and
//! writes them and the plots into docs/. Judges nothing: tests do (operator/autoscale/sim/tests).

use anyhow::Result;

use crate::shell;

/// Plays every rule on every trace; about a minute on two cores once it is built.
pub(crate) fn run() -> Result<()> {
    let play = ["run", "--quiet", "--release", "--locked", "-p", "millrace-sim", "--", "docs"];
    shell::run("cargo", &play)
}
