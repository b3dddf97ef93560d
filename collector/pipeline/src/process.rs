//! What the kernel counts for this process: processor time and resident memory.
//!
//! Two small reads of `/proc` per scrape; absent where there is no `/proc`.

use std::fs;

/// The unit of times in `/proc/self/stat`, per second: fixed at 100 for all programs on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process's use of the machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// User and system time since the start.
    pub(crate) cpu_seconds: f64,
    /// Memory in use now.
    pub(crate) resident_bytes: u64,
}

/// The use of this process; none where the kernel does not say.
pub(crate) fn usage() -> Option<Usage> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(Usage { cpu_seconds: cpu_seconds(&stat)?, resident_bytes: resident_bytes(&status)? })
}

/// Fields 14 and 15. The second field is the program's name in parentheses and may hold blanks, so
/// counting starts behind its last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// `VmRSS: 1234 kB`, which is in kibibytes.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::{cpu_seconds, resident_bytes, usage};

    /// Scenario: a program's name with blanks and parentheses. Guarantee: the right fields.
    #[test]
    fn a_hostile_program_name_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(resident_bytes("VmHWM: 9 kB\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
        assert!(usage().is_some_and(|usage| usage.resident_bytes > 0));
    }
}
