//! Schedules scrapes: one per interval, at an offset derived from the target's name, so that a
//! job's targets are spread over the interval, and a restart changes nothing.

use std::time::Duration;

/// Constants of 64-bit FNV-1a.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The schedule of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    interval_nanos: u64,
    offset_nanos: u64,
}

impl Schedule {
    /// Returns the schedule of the target that `name` identifies; `interval` is a nanosecond at
    /// least.
    #[must_use]
    pub fn new(name: &str, interval: Duration) -> Self {
        let interval_nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let hash = name
            .bytes()
            .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // FNV's lower bits are mixed less than its upper ones.
        Self { interval_nanos, offset_nanos: (hash ^ hash >> 32) % interval_nanos }
    }

    /// Returns the first time after `unix_nano`, in nanoseconds since 1970.
    #[must_use]
    pub fn next(&self, unix_nano: u64) -> u64 {
        let since = unix_nano.saturating_sub(self.offset_nanos) / self.interval_nanos;
        let last = since.saturating_mul(self.interval_nanos).saturating_add(self.offset_nanos);
        if last > unix_nano { last } else { last.saturating_add(self.interval_nanos) }
    }

    /// Returns the number of times after `unix_nano` and before `until`.
    #[must_use]
    pub fn count_between(&self, unix_nano: u64, until: u64) -> u64 {
        let first = self.next(unix_nano);
        if first >= until { 0 } else { (until - 1 - first) / self.interval_nanos + 1 }
    }
}

#[cfg(test)]
mod tests;
