//! Rotel, for comparing with: its agent as the Python package carries it, fetched once into the
//! cache.
//!
//! It is no part of the stack. The package has a build for some machines only, and the agent needs
//! Python's shared library: where it can't run, [`agent`] says so. It writes Kafka topics and
//! doesn't read them: its receiver came after the last version of the package.

use std::path::PathBuf;
use std::process::Command;

use crate::clickhouse::install::python;
use crate::service::{self, Result};

/// The package, with its version.
pub const PACKAGE: &str = "rotel==0.0.1a15";

/// Fetches it unless the cache has it, and gives the program's path: `rotel-agent start ...`.
///
/// # Errors
/// No Python, no build for this machine, or an agent that doesn't start here, with what it said.
pub fn agent() -> Result<PathBuf> {
    let python = python()?;
    let folder = service::install_once(&format!("rotel-{}", python.abi()), PACKAGE, |dir| {
        python.fetch(PACKAGE, dir, "fetching Rotel with pip")
    })?;
    let agent = folder.join("rotel/rotel-agent");
    service::run("starting Rotel's agent", Command::new(&agent).arg("--version"))?;
    Ok(agent)
}
