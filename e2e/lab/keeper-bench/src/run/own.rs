//! What this process itself costs: processor time and resident memory; whose end ends it.

use std::fs;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};

/// User and system time of all threads.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Resident memory; 0 where the kernel doesn't say.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Has the system kill this process when its parent ends. False if `parent` isn't its parent any
/// more, or the system refuses.
pub(crate) fn end_with(parent: u32) -> bool {
    let asked = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    asked && getppid().is_some_and(|pid| pid.as_raw_nonzero().get().cast_unsigned() == parent)
}
