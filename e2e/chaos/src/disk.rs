//! A small disk of a server's own, which can be made full: a file system in memory, mounted for the
//! run and made as small as what is on it.
//!
//! Mounting needs root. [`in_own_namespace`] starts the program again where only it sees its mounts,
//! so that none is left behind however it ends.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::faults::ON_DISKS;

/// Set in a program that was started again.
const STARTED_AGAIN: &str = "MILLRACE_CHAOS_OWN_MOUNTS";
/// What a disk has room for; memory is taken for what is on it alone.
const ROOM_BYTES: u64 = 4 << 30;
/// What is left free of a full one, and by how much more if it had grown: some pages, so that it is
/// full within a write or two.
pub const NOTHING_BYTES: u64 = 64 << 10;
/// It may have grown while it was measured; then it is measured again.
const TRIES: u64 = 20;

/// The disks of a world, each of another server.
#[derive(Debug)]
pub struct Disks {
    /// The broker's.
    pub broker: Disk,
    /// The engine's.
    pub engine: Disk,
    /// An edge's, for its buffer.
    pub buffer: Disk,
    /// A log reader's, for its positions.
    pub positions: Disk,
    // Gone last, when nothing is mounted in it any more.
    _folder: TempDir,
}

impl Disks {
    /// Mounts all of them.
    ///
    /// # Errors
    /// When one can't be mounted.
    pub fn mount() -> Result<Self> {
        let folder = TempDir::new().context("no temporary folder")?;
        let disk = |name: &str| Disk::mount(folder.path().join(name));
        let (broker, engine) = (disk("broker")?, disk("engine")?);
        let (buffer, positions) = (disk("buffer")?, disk("positions")?);
        Ok(Self { broker, engine, buffer, positions, _folder: folder })
    }
}

/// A file system of its own. Unmounted when dropped.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
}

impl Disk {
    fn mount(path: PathBuf) -> Result<Self> {
        std::fs::create_dir(&path)?;
        let size = format!("size={ROOM_BYTES},mode=0700");
        run(
            "mount",
            &[
                "-t".as_ref(),
                "tmpfs".as_ref(),
                "-o".as_ref(),
                size.as_ref(),
                "millrace-chaos".as_ref(),
                path.as_ref(),
            ],
        )?;
        Ok(Self { path })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves no more room on it than about this.
    ///
    /// # Errors
    /// When it can't be measured or made smaller.
    pub fn fill(&self, left_bytes: u64) -> Result<()> {
        for tried in 0.. {
            let seen = rustix::fs::statvfs(&self.path).context("the disk can't be measured")?;
            let used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize;
            match self.resize(used + left_bytes + tried * NOTHING_BYTES) {
                Err(error) if tried == TRIES => return Err(error),
                Err(_) => {}
                Ok(()) => break,
            }
        }
        Ok(())
    }

    /// Gives it room again.
    ///
    /// # Errors
    /// When it can't be made larger.
    pub fn free(&self) -> Result<()> {
        self.resize(ROOM_BYTES)
    }

    fn resize(&self, bytes: u64) -> Result<()> {
        let options = format!("remount,size={bytes}");
        run("mount", &["-o".as_ref(), options.as_ref(), self.path.as_ref()])
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run("umount", &["--lazy".as_ref(), self.path.as_ref()]);
    }
}

/// Starts this program again in a mount namespace of its own, unless it is there.
///
/// # Errors
/// When it is not root, or `unshare` (util-linux) can't be started.
pub fn in_own_namespace() -> Result<()> {
    if std::env::var_os(STARTED_AGAIN).is_some() {
        return Ok(());
    }
    if !geteuid().is_root() {
        bail!(
            "{} mount small file systems, which needs root: run as root, or name the other faults \
             with FAULT= (`--list` prints them)",
            ON_DISKS.join(" and ")
        );
    }
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]).arg(std::env::current_exe()?);
    let error = command.args(arguments).env(STARTED_AGAIN, "1").exec();
    Err(error).context("unshare (util-linux) can't be started")
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> Result<()> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("{program} (util-linux) can't be started"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {arguments:?}: {}", text.trim());
    }
    Ok(())
}
