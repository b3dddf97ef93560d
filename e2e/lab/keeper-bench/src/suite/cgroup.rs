//! A control group with limits, of version 1 or 2, and what its processes use.
//!
//! Limit: version 2 was written from the kernel's documentation and not tried.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::matrix::ServerKind;

const ROOT: &str = "/sys/fs/cgroup";
/// The kernel's default, in which a limit of cores is a share of time.
const PERIOD_MICROSECONDS: f64 = 100_000.0;

/// What the names of all groups begin with.
const PREFIX: &str = "keeper-bench-";

/// The name of this suite's group of a server.
pub(crate) fn name(server: usize) -> String {
    format!("{PREFIX}{}-{server}", std::process::id())
}

/// Removes groups of suites that were killed. One whose suite runs stays, and one with processes.
pub(crate) fn remove_left() {
    let trees = CONTROLLERS.iter().copied().chain([""]).map(|tree| Path::new(ROOT).join(tree));
    let dirs = trees.filter_map(|tree| fs::read_dir(tree).ok()).flatten().flatten();
    for dir in dirs {
        let name = dir.file_name();
        let pid =
            name.to_str().and_then(|name| Some(name.strip_prefix(PREFIX)?.split_once('-')?.0));
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // It has processes, or another suite was faster.
            let _ = fs::remove_dir(dir.path());
        }
    }
}

/// A control group can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub(crate) struct GroupError {
    path: PathBuf,
    cause: io::Error,
}

/// A group of one server, removed when dropped. Its processes have to have ended, or it stays.
#[derive(Debug)]
pub(crate) struct Group {
    hierarchy: Hierarchy,
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// A tree for each controller.
    V1,
    /// One for all.
    V2,
}

/// Controllers of version 1 that are used.
const CONTROLLERS: [&str; 3] = ["cpu", "cpuacct", "memory"];

impl Group {
    pub(crate) fn new(name: &str, limits: &ServerKind) -> Result<Self, GroupError> {
        let v2 = Path::new(ROOT).join("cgroup.controllers").exists();
        let hierarchy = if v2 { Hierarchy::V2 } else { Hierarchy::V1 };
        let group = Self { hierarchy, name: name.to_owned() };
        for dir in group.dirs() {
            fs::create_dir_all(&dir).map_err(|cause| GroupError { path: dir, cause })?;
        }
        group.limit(limits)?;
        Ok(group)
    }

    fn limit(&self, limits: &ServerKind) -> Result<(), GroupError> {
        let quota = limits.cpus.map(|cpus| (cpus * PERIOD_MICROSECONDS).round());
        let bytes = limits.memory_mib.map(|mib| u64::from(mib) << 20);
        match self.hierarchy {
            Hierarchy::V1 => {
                if let Some(quota) = quota {
                    let period = PERIOD_MICROSECONDS.to_string();
                    write(&self.dir("cpu").join("cpu.cfs_period_us"), &period)?;
                    write(&self.dir("cpu").join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                if let Some(bytes) = bytes {
                    let path = self.dir("memory").join("memory.limit_in_bytes");
                    write(&path, &bytes.to_string())?;
                }
            }
            Hierarchy::V2 => {
                write(&Path::new(ROOT).join("cgroup.subtree_control"), "+cpu +memory")?;
                if let Some(quota) = quota {
                    let path = self.dir("cpu").join("cpu.max");
                    write(&path, &format!("{quota} {PERIOD_MICROSECONDS}"))?;
                }
                if let Some(bytes) = bytes {
                    write(&self.dir("memory").join("memory.max"), &bytes.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Does something within the group: what it starts belongs to the group from its first byte
    /// on. Afterwards this process is where it was.
    pub(crate) fn enter_while<T>(&self, act: impl FnOnce() -> T) -> Result<T, GroupError> {
        let homes = self.homes()?;
        let own = std::process::id().to_string();
        for dir in self.dirs() {
            write(&dir.join("cgroup.procs"), &own)?;
        }
        let done = act();
        for home in homes {
            write(&home.join("cgroup.procs"), &own)?;
        }
        Ok(done)
    }

    /// The groups that this process is in now.
    fn homes(&self) -> Result<Vec<PathBuf>, GroupError> {
        let path = PathBuf::from("/proc/self/cgroup");
        let text = fs::read_to_string(&path).map_err(|cause| GroupError { path, cause })?;
        Ok(homes(&text, self.hierarchy))
    }

    fn dirs(&self) -> Vec<PathBuf> {
        match self.hierarchy {
            Hierarchy::V1 => CONTROLLERS.iter().map(|controller| self.dir(controller)).collect(),
            Hierarchy::V2 => vec![self.dir("")],
        }
    }

    fn dir(&self, controller: &str) -> PathBuf {
        match self.hierarchy {
            Hierarchy::V1 => Path::new(ROOT).join(controller).join(&self.name),
            Hierarchy::V2 => Path::new(ROOT).join(&self.name),
        }
    }

    /// Processor time of all its processes so far.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        match self.hierarchy {
            Hierarchy::V1 => {
                let text = fs::read_to_string(self.dir("cpuacct").join("cpuacct.usage")).ok()?;
                Some(text.trim().parse::<f64>().ok()? / 1e9)
            }
            Hierarchy::V2 => {
                let text = fs::read_to_string(self.dir("cpu").join("cpu.stat")).ok()?;
                Some(field(&text, "usage_usec")? / 1e6)
            }
        }
    }

    /// Memory of its processes, without the cache of files.
    pub(crate) fn memory_bytes(&self) -> Option<f64> {
        let text = fs::read_to_string(self.dir("memory").join("memory.stat")).ok()?;
        let name = if self.hierarchy == Hierarchy::V1 { "rss" } else { "anon" };
        field(&text, name)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for dir in self.dirs() {
            // One that still has processes stays, empty of meaning and harmless.
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Where a process is, of what `/proc/self/cgroup` says.
fn homes(text: &str, hierarchy: Hierarchy) -> Vec<PathBuf> {
    let home = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let below = Path::new(path.strip_prefix('/')?);
        match hierarchy {
            Hierarchy::V2 => controllers.is_empty().then(|| Path::new(ROOT).join(below)),
            Hierarchy::V1 => {
                let mut names = controllers.split(',');
                let name = names.find(|name| CONTROLLERS.contains(name))?;
                Some(Path::new(ROOT).join(name).join(below))
            }
        }
    };
    text.lines().filter_map(home).collect()
}

fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

fn write(path: &Path, text: &str) -> Result<(), GroupError> {
    fs::write(path, text).map_err(|cause| GroupError { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: what the kernel says of a process, in both versions. Guarantee: the folders to go
    /// back to, one for each controller, or one; figures by their whole names.
    #[test]
    fn the_way_back_is_read_from_the_kernel() {
        let v1 = "4:memory:/a/b\n3:cpuset:/\n2:cpu,cpuacct:/\n0::/\n";
        let dirs = ["/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/cpu/"].map(PathBuf::from);
        assert_eq!(homes(v1, Hierarchy::V1), dirs);
        let v2 = homes("0::/user.slice/x\n", Hierarchy::V2);
        assert_eq!(v2, [PathBuf::from("/sys/fs/cgroup/user.slice/x")]);
        assert_eq!(field("rss_huge 5\nrss 7\n", "rss"), Some(7.0));
        assert_eq!(field("rss_huge 5\n", "rss"), None);
    }
}
