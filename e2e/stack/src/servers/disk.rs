//! A small disk of a server's own, which can be made full: a file system in memory, made as small as
//! what is on it.
//!
//! Mounting needs root. A mount lasts until it is dropped; a program that may be killed makes it in a
//! mount namespace of its own, where nothing is left behind.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers::service::{self, Result, io_error};

/// What is on it may have grown since it was measured; then it is measured again, and so much more
/// is left: four pages each time, 1.3 MB at most.
const GROWN_BYTES: u64 = 16 << 10;
const TRIES: u64 = 80;

/// A file system of its own. Unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    room_bytes: u64,
}

impl Disk {
    /// Makes the folder and mounts one there. Memory is taken for what is on it alone.
    ///
    /// # Errors
    /// When the folder is there, or it can't be mounted.
    pub fn mount(path: PathBuf, room_bytes: u64) -> Result<Self> {
        std::fs::create_dir(&path).map_err(io_error(format!("make {}", path.display())))?;
        let size = format!("size={room_bytes},mode=0700");
        let arguments = ["-t", "tmpfs", "-o", &size, "millrace"].map(OsStr::new);
        mount("mounting a disk in memory", &arguments, &path)?;
        Ok(Self { path, room_bytes })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no more room on it than about this.
    ///
    /// # Errors
    /// When it can't be measured or made smaller.
    pub fn fill(&self, left_bytes: u64) -> Result<()> {
        let mut tried = 0;
        loop {
            let seen = rustix::fs::statvfs(&self.path).map_err(std::io::Error::from);
            let seen = seen.map_err(io_error(format!("measure {}", self.path.display())))?;
            let used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize;
            match self.resize(used + left_bytes + tried * GROWN_BYTES) {
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
        self.resize(self.room_bytes)
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        let options = format!("remount,size={bytes}");
        mount("changing a disk's room", &["-o".as_ref(), options.as_ref()], &self.path)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        // One that can't be unmounted stays until its namespace ends.
        let _ = service::run("unmounting a disk", command.arg("--lazy").arg(&self.path));
    }
}

fn mount(action: &str, arguments: &[&OsStr], path: &Path) -> Result<()> {
    service::run(action, Command::new("mount").args(arguments).arg(path))
}
