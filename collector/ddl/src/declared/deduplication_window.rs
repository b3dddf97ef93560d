//! How many inserts a table must remember to recognise each repetition.

/// How many inserts a table remembers, and for a replicated table also for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeduplicationWindow {
    /// The number of latest inserts.
    pub inserts: u64,
    /// The time in seconds; it only applies to replicated tables.
    pub seconds: u64,
}

impl DeduplicationWindow {
    /// Inserts per second from one gateway into one table: a gateway cuts a batch of each partition
    /// once a second, and has four or five partitions of a signal.
    const INSERTS_PER_GATEWAY: u64 = 5;
    /// The time in seconds after which an insert may still be repeated: a third more than the 225
    /// of the default settings, which are a session's time-out (45), a drain (60), an insert's
    /// time-out (60) and the longest wait between two tries (60).
    const REPLAY_SECONDS: u64 = 300;
    /// The maximum window that is set automatically, for 66 gateways. An entry takes some 100 bytes
    /// on disk and in memory and, in a replicated table, a node in Keeper.
    const INSERTS_MAX: u64 = 100_000;

    /// Returns the window for this many gateways.
    #[must_use]
    pub fn for_gateways(gateways: u32) -> Self {
        let least = Self::default();
        let needed = u64::from(gateways) * Self::INSERTS_PER_GATEWAY * Self::REPLAY_SECONDS;
        Self { inserts: needed.clamp(least.inserts, Self::INSERTS_MAX), ..least }
    }
}

impl Default for DeduplicationWindow {
    /// Enough for six gateways. The time is a week, so that the number decides.
    fn default() -> Self {
        Self { inserts: 10_000, seconds: 7 * 24 * 3600 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one gateway, many, and more than any installation has. Guarantee: the window
    /// covers five inserts a second of each gateway for five minutes, is never less than the
    /// default, and is bounded.
    #[test]
    fn the_window_grows_with_the_gateways() {
        let inserts = |gateways| DeduplicationWindow::for_gateways(gateways).inserts;
        assert_eq!([0, 1, 6, 24].map(inserts), [10_000, 10_000, 10_000, 36_000]);
        assert_eq!(inserts(u32::MAX), 100_000);
    }
}
