//! How much memory this process may use: from the settings, else from its cgroup, v2 or v1.
//!
//! Reads files under a root that tests replace. A limit that is not there, or not a number, counts
//! as no limit. Whoever asks again sees an in-place resize; what then becomes of the budget is said
//! at [`Budget::set_limit`](crate::budget::Budget::set_limit).

use std::fs;
use std::path::{Path, PathBuf};

/// The limit assumed where neither settings nor a cgroup give one: 1 GiB, enough for a first try
/// and not so much that a laptop notices.
pub const ASSUMED_LIMIT_BYTES: u64 = 1 << 30;

/// A cgroup v1 without a limit reports the largest page-aligned number; all above 2^60 means none.
const NO_LIMIT_FROM_BYTES: u64 = 1 << 60;

/// Where a memory limit came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The settings document.
    Settings,
    /// A cgroup v2 `memory.max`.
    CgroupV2,
    /// A cgroup v1 `memory.limit_in_bytes`.
    CgroupV1,
    /// Nothing gave one: [`ASSUMED_LIMIT_BYTES`].
    Assumed,
}

/// The memory this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// In bytes.
    pub limit_bytes: u64,
    /// Who said so.
    pub source: LimitSource,
}

impl MemoryLimit {
    /// The limit from the settings if they give one, else from this process's cgroup.
    #[must_use]
    pub fn find(configured_bytes: Option<u64>) -> Self {
        match configured_bytes {
            Some(limit_bytes) => Self { limit_bytes, source: LimitSource::Settings },
            None => Self::from_root(Path::new("/")),
        }
    }

    /// A share of the limit in percent: the budget for records in flight.
    #[must_use]
    pub fn share_bytes(&self, percent: u8) -> u64 {
        // Divide first: a limit near the top of u64 must not wrap.
        self.limit_bytes / 100 * u64::from(percent)
    }

    fn from_root(root: &Path) -> Self {
        let membership = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let v2 = || limit_in(&root.join("sys/fs/cgroup"), v2_path(&membership)?, "memory.max");
        let v1 = || {
            let base = root.join("sys/fs/cgroup/memory");
            limit_in(&base, v1_path(&membership)?, "memory.limit_in_bytes")
        };
        if let Some(limit_bytes) = v2() {
            Self { limit_bytes, source: LimitSource::CgroupV2 }
        } else if let Some(limit_bytes) = v1() {
            Self { limit_bytes, source: LimitSource::CgroupV1 }
        } else {
            Self { limit_bytes: ASSUMED_LIMIT_BYTES, source: LimitSource::Assumed }
        }
    }
}

/// The v2 membership: the line `0::/path`.
fn v2_path(membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| line.strip_prefix("0::"))
}

/// The v1 membership of the memory controller: a line `n:a,memory,b:/path`.
fn v1_path(membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    })
}

/// The lowest limit on the way from the process's group up to the root of the mount.
///
/// In a container the membership often names a path of the host that is not mounted; the mount's
/// root is then the container's own group, and the walk ends there.
fn limit_in(base: &Path, membership: &str, file: &str) -> Option<u64> {
    let mut folder: PathBuf = base.join(membership.trim_start_matches('/'));
    let mut lowest = None;
    loop {
        let limit = fs::read_to_string(folder.join(file))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
            .filter(|limit| *limit > 0 && *limit < NO_LIMIT_FROM_BYTES);
        lowest = match (lowest, limit) {
            (Some(a), Some(b)) => Some(u64::min(a, b)),
            (a, b) => a.or(b),
        };
        if folder == base || !folder.pop() {
            return lowest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ASSUMED_LIMIT_BYTES, LimitSource, MemoryLimit};
    use std::fs;
    use std::path::Path;

    fn find(files: &[(&str, &str)]) -> (u64, LimitSource) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = MemoryLimit::from_root(root.path());
        (found.limit_bytes, found.source)
    }

    /// Scenario: v2 with a limit on a parent lower than the group's own. Guarantee: the lower
    /// counts.
    #[test]
    fn the_lowest_v2_limit_on_the_way_up_counts() {
        let found = find(&[
            ("proc/self/cgroup", "0::/pod/app\n"),
            ("sys/fs/cgroup/pod/app/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "536870912\n"),
        ]);
        assert_eq!(found, (512 << 20, LimitSource::CgroupV2));
    }

    /// Scenario: a container on v2 whose membership is the namespace's root. Guarantee: the mount's
    /// own limit.
    #[test]
    fn a_containers_v2_root_has_the_limit() {
        let found =
            find(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "268435456\n")]);
        assert_eq!(found, (256 << 20, LimitSource::CgroupV2));
    }

    /// Scenario: hybrid v1, membership naming a host path that is not mounted. Guarantee: the v1
    /// mount's root is used.
    #[test]
    fn a_v1_container_finds_its_limit_at_the_mounts_root() {
        let found = find(&[
            ("proc/self/cgroup", "5:cpu,memory:/kubepods/pod1/abc\n1:name=systemd:/x\n0::/x\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
        ]);
        assert_eq!(found, (128 << 20, LimitSource::CgroupV1));
    }

    /// Scenario: no cgroup, or v1's word for "none". Guarantee: the stated assumption.
    #[test]
    fn no_limit_means_the_assumed_one() {
        assert_eq!(find(&[]), (ASSUMED_LIMIT_BYTES, LimitSource::Assumed));
        let found = find(&[
            ("proc/self/cgroup", "5:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(found, (ASSUMED_LIMIT_BYTES, LimitSource::Assumed));
        assert_eq!(MemoryLimit::find(Some(1000)).share_bytes(50), 500);
    }
}
