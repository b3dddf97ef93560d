//! Namespaces of this program's own, for mounts and networks: whatever it makes there is gone with its
//! last process, however that ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Set in a program that was started again.
const STARTED_AGAIN: &str = "MILLRACE_KEEPER_OWN_NAMESPACES";

/// Whether this program may make namespaces.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Starts this program again in namespaces of its own, unless it is there. Nothing can be fetched
/// from there.
///
/// # Errors
/// When `unshare` (util-linux) can't be started.
pub fn enter() -> Result<()> {
    if std::env::var_os(STARTED_AGAIN).is_some() {
        return Ok(());
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--propagation", "private", "--"]);
    command.arg(std::env::current_exe()?).args(arguments).env(STARTED_AGAIN, "1");
    Err(command.exec()).context("unshare (util-linux) can't be started")
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let output = command.output();
    let output = output.with_context(|| format!("{command:?} can't be started"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
