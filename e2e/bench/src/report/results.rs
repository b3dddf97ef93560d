//! Where lines of results go: to standard output and to a file, each with the yardstick of its run.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::report::yardstick::Yardstick;
use crate::say;

/// Takes results as they come.
pub(crate) struct Results {
    file: File,
    yardstick: Yardstick,
}

impl Results {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("no {}", path.display()))?;
        Ok(Self { file, yardstick: Yardstick::new() })
    }

    /// To be called right before whatever is measured: how fast the machine is now.
    pub(crate) fn measure_machine(&mut self) -> Result<()> {
        self.yardstick.measure()
    }

    /// One line of JSON.
    pub(crate) fn line(&mut self, line: &str) -> Result<()> {
        let line = self.yardstick.line(line)?;
        say::line(&line);
        writeln!(self.file, "{line}").context("cannot write the results")
    }
}
