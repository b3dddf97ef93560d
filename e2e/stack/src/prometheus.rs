//! Prometheus and its checker of rules, for trying alerts and dashboards: those on the PATH, or
//! Debian's package, unpacked once into the cache. No package is installed, so no service comes with
//! it. It is no part of the stack.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::binaries;
use crate::error::Result;
use crate::paths::Paths;
use crate::progress::Progress;
use crate::service::{create_dir, io_error, run};

const PACKAGE: &str = "prometheus";

/// A program of the package.
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
pub fn find_or_fetch(program: Program, paths: &Paths, progress: &dyn Progress) -> Result<PathBuf> {
    let on_path = env::var_os("PATH").and_then(|folders| {
        env::split_paths(&folders).map(|it| it.join(program.name())).find(|it| it.is_file())
    });
    if let Some(found) = on_path {
        return Ok(found);
    }
    let folder = paths.cache().join("debian-prometheus");
    let found = folder.join("usr/bin").join(program.name());
    if found.is_file() {
        return Ok(found);
    }
    let _lock = binaries::locked(paths, progress)?;
    if !found.is_file() {
        progress.tell("fetching Debian's prometheus (20 MB)");
        let partial = paths.cache().join("debian-prometheus.partial");
        if partial.exists() {
            fs::remove_dir_all(&partial)
                .map_err(io_error(format!("remove {}", partial.display())))?;
        }
        create_dir(&partial)?;
        run("refresh the package lists", Command::new("apt-get").args(["--quiet", "update"]))?;
        // The shell finds the archive: its name has the version.
        let fetch =
            "apt-get --quiet download \"$1\" && dpkg --extract \"$1\"_*.deb . && rm ./*.deb";
        let mut fetch_command = Command::new("sh");
        fetch_command.args(["-euc", fetch, "sh", PACKAGE]).current_dir(&partial);
        run("fetch and unpack Debian's prometheus", &mut fetch_command)?;
        fs::rename(&partial, &folder)
            .map_err(io_error(format!("rename {} into place", partial.display())))?;
    }
    Ok(found)
}
