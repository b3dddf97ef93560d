//! A small disk of a server's own, which can be made full: a file system in memory, mounted for the
//! run. Mounting needs root; [`crate::own`] sees to it that no mount is left behind.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::own::run;

/// Room for the logs of a run: 64 MiB for each that a leader begins, sparse.
const ROOM_BYTES: u64 = 1 << 30;
/// What is left free of a full one: some pages, so that it is full within a few writes.
const NOTHING_BYTES: u64 = 16 << 10;
/// It may have grown while it was measured; then it is measured again.
const TRIES: u64 = 20;

/// A file system of its own. Unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    // Gone after it is unmounted.
    folder: TempDir,
}

impl Disk {
    /// Mounts one.
    ///
    /// # Errors
    /// When it can't be mounted.
    pub fn mount() -> Result<Self> {
        let folder = TempDir::with_prefix("millrace-keeper-").context("no temporary folder")?;
        let size = format!("size={ROOM_BYTES},mode=0700");
        let words = ["-t", "tmpfs", "-o", &size, "millrace-keeper"];
        run(Command::new("mount").args(words).arg(folder.path()))?;
        Ok(Self { folder })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Leaves almost no room on it.
    ///
    /// # Errors
    /// When it can't be measured or made smaller.
    pub fn fill(&self) -> Result<()> {
        let mut tried = 0;
        loop {
            let seen = rustix::fs::statvfs(self.folder.path()).context("no measure of the disk")?;
            let used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize;
            match resize(self.folder.path(), used + NOTHING_BYTES * (tried + 1)) {
                Err(error) if tried == TRIES => return Err(error),
                Err(_) => tried += 1,
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Gives it room again.
    ///
    /// # Errors
    /// When it can't be made larger.
    pub fn free(&self) -> Result<()> {
        resize(self.folder.path(), ROOM_BYTES)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("--lazy").arg(self.folder.path()));
    }
}

fn resize(path: &Path, bytes: u64) -> Result<()> {
    let options = format!("remount,size={bytes}");
    run(Command::new("mount").args(["-o", &options]).arg(path))
}
