//! Namespaces of a program's own, for mounts and networks: whatever it makes there is gone with its
//! last process, however that ends. They need root and `unshare` (util-linux).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Set in a program that was started again.
const STARTED_AGAIN: &str = "MILLRACE_OWN_NAMESPACES";

/// Which of a program's namespaces are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// Those of mounts.
    Mounts,
    /// Those of the network too: nothing can be fetched from there.
    MountsAndNetwork,
}

/// Whether this program may make namespaces.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What starts this program in namespaces of its own, to be given its arguments. None in one that
/// was started so.
///
/// # Errors
/// When this program's own path can't be found.
pub fn again(own: Own) -> io::Result<Option<Command>> {
    if std::env::var_os(STARTED_AGAIN).is_some() {
        return Ok(None);
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.args((own == Own::MountsAndNetwork).then_some("--net"));
    command.arg("--").arg(std::env::current_exe()?).env(STARTED_AGAIN, "1");
    Ok(Some(command))
}

/// Becomes this program, with its arguments, in namespaces of its own, unless it is there.
///
/// # Errors
/// When `unshare` can't be started.
pub fn enter(own: Own) -> io::Result<()> {
    match again(own)? {
        None => Ok(()),
        Some(mut command) => Err(command.args(std::env::args_os().skip(1)).exec()),
    }
}
