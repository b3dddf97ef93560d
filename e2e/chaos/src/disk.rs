//! Small disks of a world's servers, which can be made full.
//!
//! Mounting them needs root. [`in_own_namespace`] starts the program again where only it sees its
//! mounts, so that none is left behind however it ends.

use anyhow::{Context, Result, bail};
use millrace_stack::disk::Disk;
use millrace_stack::namespaces::{self, Own};
use tempfile::TempDir;

/// What a disk has room for; memory is taken for what is on it alone.
const ROOM_BYTES: u64 = 4 << 30;
/// What is left free of a full one: some pages, so that it is full within a write or two.
pub const NOTHING_BYTES: u64 = 64 << 10;

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
        let disk = |name: &str| Disk::mount(folder.path().join(name), ROOM_BYTES);
        let (broker, engine) = (disk("broker")?, disk("engine")?);
        let (buffer, positions) = (disk("buffer")?, disk("positions")?);
        Ok(Self { broker, engine, buffer, positions, _folder: folder })
    }
}

/// Starts this program again in its own mount namespace, unless it runs there. `faults` are those
/// that need disks.
///
/// # Errors
/// When it is not root, or `unshare` (util-linux) can't be started.
pub fn in_own_namespace(faults: &[&str]) -> Result<()> {
    if !namespaces::is_root() {
        bail!(
            "{} mount small file systems, which needs root: run as root, or name the other faults \
             with FAULT= (`--list` prints them)",
            faults.join(" and ")
        );
    }
    namespaces::enter(Own::Mounts).context("unshare (util-linux) can't be started")
}
