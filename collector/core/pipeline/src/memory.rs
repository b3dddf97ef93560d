//! Determines how much memory this process may use: from the settings, otherwise from its cgroup,
//! v2 or v1.
//!
//! It reads files under a root that tests replace. A missing or invalid limit counts as no limit. A
//! later call observes an in-place resize; [`Budget::set_limit`](budget::Budget::set_limit)
//! describes its effect on the budget.

pub mod budget;
pub mod memory_shares;

use std::fs;
use std::path::{Path, PathBuf};

/// The limit assumed if neither settings nor a cgroup give one: 1 GiB, enough for a first try and
/// not so much that a laptop notices.
pub const ASSUMED_LIMIT_BYTES: u64 = 1 << 30;

/// A cgroup v1 without a limit reports the largest page-aligned number; all above 2^60 mean no
/// limit.
const NO_LIMIT_FROM_BYTES: u64 = 1 << 60;

/// The source of a memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSource {
    /// The settings document.
    Settings,
    /// A cgroup v2 `memory.max`.
    CgroupV2,
    /// A cgroup v1 `memory.limit_in_bytes`.
    CgroupV1,
    /// Without a source: [`ASSUMED_LIMIT_BYTES`].
    Assumed,
}

/// The memory this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub limit_bytes: u64,
    /// Its source.
    pub source: LimitSource,
}

impl MemoryLimit {
    /// Returns the limit from the settings if they give one, otherwise from this process's cgroup.
    #[must_use]
    pub fn detect_limit(configured_bytes: Option<u64>) -> Self {
        match configured_bytes {
            Some(limit_bytes) => Self { limit_bytes, source: LimitSource::Settings },
            None => Self::from_root(Path::new("/")),
        }
    }

    /// Returns a share of the limit in percent, for example the budget for records in flight.
    #[must_use]
    pub fn share_bytes(&self, percent: u8) -> u64 {
        // Dividing first prevents an overflow for a limit near the top of u64.
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

/// Finds the v2 membership: the line `0::/path`.
fn v2_path(membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Finds the v1 membership of the memory controller: a line `n:a,memory,b:/path`.
fn v1_path(membership: &str) -> Option<&str> {
    membership.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    })
}

/// Returns the lowest limit from the process's group up to the root of the mount.
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
mod tests;
