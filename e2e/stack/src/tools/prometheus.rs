//! Prometheus, its checker of rules and Alertmanager, for trying alerts and dashboards: those on the
//! PATH, or Debian's packages, unpacked once into the cache. No package is installed, so no service
//! comes with it. They are no part of the stack.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::error::Result;
use crate::fetch::debian::Set;
use crate::progress::Progress;

const PACKAGE: Set<'_> = Set {
    folder: "debian-prometheus",
    architecture: None,
    packages: &["prometheus"],
    megabytes: 20,
};

const ALERTMANAGER: Set<'_> = Set {
    folder: "debian-alertmanager",
    architecture: None,
    packages: &["prometheus-alertmanager"],
    megabytes: 10,
};
/// Debian's name of the program.
const ALERTMANAGER_NAME: &str = "prometheus-alertmanager";
/// Debian's program reads its templates below `/usr/share`, where they aren't: it gets a mount
/// namespace in which its package's folder is there.
const WITH_ITS_FILES: &str = "mount --bind \"$0/usr/share\" /usr/share\n\
     exec \"$0/usr/bin/prometheus-alertmanager\" \"$@\"";

/// A program of Prometheus' package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The server.
    Prometheus,
    /// The checker of rules.
    Promtool,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
        }
    }
}

/// The program's path.
///
/// # Errors
/// When the package can't be fetched or unpacked, with the end of what was said.
pub fn find_or_fetch(program: Program, progress: &dyn Progress) -> Result<PathBuf> {
    if let Some(found) = on_path(program.name()) {
        return Ok(found);
    }
    Ok(PACKAGE.unpacked(progress)?.join("usr/bin").join(program.name()))
}

/// A command that starts Alertmanager, to be given its arguments. It needs root where Alertmanager
/// isn't installed.
///
/// # Errors
/// When the package can't be fetched or unpacked, with the end of what was said.
pub fn alertmanager(progress: &dyn Progress) -> Result<Command> {
    if let Some(found) = on_path(ALERTMANAGER_NAME) {
        return Ok(Command::new(found));
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-euc", WITH_ITS_FILES]).arg(ALERTMANAGER.unpacked(progress)?);
    Ok(command)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|it| it.join(name)).find(|it| it.is_file())
}
