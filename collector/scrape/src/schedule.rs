//! When a target is scraped: each interval once, at a place in it that its name decides, so that
//! the targets of a job don't all come at the same moment, and a restart changes nothing.

use std::time::Duration;

/// FNV-1a's, of 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A target's places in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    interval_nanos: u64,
    offset_nanos: u64,
}

impl Schedule {
    /// Of the target that `name` tells from all others; `interval` has a nanosecond at least.
    #[must_use]
    pub fn new(name: &str, interval: Duration) -> Self {
        let interval_nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let hash = name
            .bytes()
            .fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // FNV's lower bits are mixed less than its upper ones.
        Self { interval_nanos, offset_nanos: (hash ^ hash >> 32) % interval_nanos }
    }

    /// The first time behind `unix_nano`, in nanoseconds since 1970.
    #[must_use]
    pub fn next(&self, unix_nano: u64) -> u64 {
        let since = unix_nano.saturating_sub(self.offset_nanos) / self.interval_nanos;
        let last = since.saturating_mul(self.interval_nanos).saturating_add(self.offset_nanos);
        if last > unix_nano { last } else { last.saturating_add(self.interval_nanos) }
    }

    /// How many times lie behind `unix_nano` and before `until`.
    #[must_use]
    pub fn between(&self, unix_nano: u64, until: u64) -> u64 {
        let first = self.next(unix_nano);
        if first >= until { 0 } else { (until - 1 - first) / self.interval_nanos + 1 }
    }
}

#[cfg(test)]
#[path = "../tests/unit/schedule.rs"]
mod tests;
