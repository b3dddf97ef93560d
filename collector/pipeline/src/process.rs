//! This process's processor time, resident memory and start, as the kernel counts them.
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

/// When this process began, in seconds since 1970; none where the kernel does not say. Asked once:
/// the kernel's own answer moves with the machine's clock.
pub(crate) fn started_at_seconds() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let machine = fs::read_to_string("/proc/stat").ok()?;
    start_seconds(&stat, &machine)
}

/// Field 22, in ticks since the machine began, which is the line `btime` of the other file.
fn start_seconds(stat: &str, machine: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let ticks: f64 = rest.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let began = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    let began: u64 = began.trim().parse().ok()?;
    // The cast saturates, and a NaN becomes 0.
    Some(began + (ticks / TICKS_PER_SECOND) as u64)
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
    use super::{cpu_seconds, resident_bytes, start_seconds, started_at_seconds, usage};

    /// Scenario: a program's name with blanks and parentheses. Guarantee: the right fields.
    #[test]
    fn a_hostile_program_name_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(resident_bytes("VmHWM: 9 kB\nVmRSS:\t  12 kB\n"), Some(12 * 1024));
        assert!(usage().is_some_and(|usage| usage.resident_bytes > 0));
    }

    /// Scenario: a process that began 250 s after its machine, and this one. Guarantee: the sum of
    /// both times; nothing where the kernel doesn't give one of them.
    #[test]
    fn a_process_knows_when_it_began() {
        let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 9 0 25099 1 1";
        let machine = "cpu 1 2\nbtime 1790000000\nprocesses 7\n";
        assert_eq!(start_seconds(stat, machine), Some(1_790_000_250));
        assert_eq!(start_seconds(stat, "cpu 1 2\n"), None);
        assert!(started_at_seconds().is_some_and(|at| at > 1_700_000_000));
    }
}
