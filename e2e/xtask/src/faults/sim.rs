//! `xtask sim`: the sizing rule, and the sharing of targets, against models of others, in
//! simulators. Prints the tables, and writes them and the plots into docs/internals. Judges nothing: tests
//! do (e2e/lab/autoscale-sim/tests, e2e/lab/shares-sim/tests).

use anyhow::Result;

use crate::shell;

/// Plays every rule on every trace, about a minute on two cores once it is built, and all sharing
/// rules on all changes of a pool, about a minute too.
pub(crate) fn run() -> Result<()> {
    for simulator in ["millrace-sim", "millrace-shares-sim"] {
        let play =
            ["run", "--quiet", "--release", "--locked", "-p", simulator, "--", "docs/internals"];
        shell::run("cargo", &play)?;
    }
    Ok(())
}
