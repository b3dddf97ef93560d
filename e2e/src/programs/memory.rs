//! How much memory a program under test may take and has taken: a cgroup of its own where this
//! machine lets us make one, and the kernel's record of its highest resident memory everywhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A cgroup with a memory limit. Removed when this is dropped, once its processes have ended.
#[derive(Debug)]
pub struct Confined {
    folder: PathBuf,
}

impl Confined {
    /// Moves a process into a cgroup of `limit_bytes`: past it the kernel ends the process. `None`
    /// where no cgroup can be made (no root, or no memory controller).
    pub fn new(pid: u32, limit_bytes: u64) -> Option<Self> {
        let name = format!("millrace-e2e-{pid}");
        let places = [
            ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        ];
        places.iter().find_map(|(root, limit, with_swap)| {
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Self { folder };
            group.write(limit, limit_bytes).ok()?;
            // Not every kernel counts swap: a limit for it is good to have.
            let swap_bytes = if with_swap.ends_with("max") { 0 } else { limit_bytes };
            let _ = group.write(with_swap, swap_bytes);
            group.write("cgroup.procs", u64::from(pid)).ok()?;
            Some(group)
        })
    }

    fn write(&self, file: &str, number: u64) -> std::io::Result<()> {
        fs::write(self.folder.join(file), number.to_string())
    }
}

impl Drop for Confined {
    fn drop(&mut self) {
        // Still in use if its process runs: whoever runs tests as root can look at it then.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The most memory a process ever had resident, in bytes.
///
/// # Errors
/// When it has ended.
pub fn peak_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no peak in {path}"))? * 1024)
}
