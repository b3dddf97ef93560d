//! Prometheus, its checker of rules and Alertmanager, for trying alerts and dashboards: those on the
//! PATH, or Debian's packages, unpacked once into the cache. No package is installed, so no service
//! comes with it. They are no part of the stack.

use std::env;
use std::path::PathBuf;

use crate::debian::Set;
use crate::error::Result;
use crate::progress::Progress;

const PROMETHEUS: Set<'_> = Set {
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

/// A program of the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The server.
    Prometheus,
    /// The checker of rules.
    Promtool,
    /// What sends alerts to people.
    Alertmanager,
}

impl Program {
    const fn name(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Alertmanager => "prometheus-alertmanager",
        }
    }

    const fn package(self) -> &'static Set<'static> {
        match self {
            Self::Prometheus | Self::Promtool => &PROMETHEUS,
            Self::Alertmanager => &ALERTMANAGER,
        }
    }
}

/// The program's path.
///
/// # Errors
/// When the package can't be fetched or unpacked, with the end of what was said.
pub fn find_or_fetch(program: Program, progress: &dyn Progress) -> Result<PathBuf> {
    let on_path = env::var_os("PATH").and_then(|folders| {
        env::split_paths(&folders).map(|it| it.join(program.name())).find(|it| it.is_file())
    });
    if let Some(found) = on_path {
        return Ok(found);
    }
    Ok(program.package().unpacked(progress)?.join("usr/bin").join(program.name()))
}
