//! A gateway pool's figures over a day, in slots.

/// The length of a slot, in seconds.
pub const SLOT_SECONDS: i64 = 15 * 60;
/// The slots of a day: 96.
pub const SLOTS_MAX: usize = (24 * 60 * 60 / SLOT_SECONDS) as usize;

/// The figures of one slot: maxima, so that no peak is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaySlot {
    /// When the slot began, in seconds since 1970.
    pub at_second: i64,
    /// The highest lag, in seconds.
    pub lag_seconds: Option<i64>,
    /// The highest arrival rate, in messages per second.
    pub arrival_per_second: Option<i64>,
    /// The highest number of pods.
    pub replicas: i32,
}

impl DaySlot {
    /// Returns the slot of a time, with the figures of that time.
    #[must_use]
    pub const fn at(
        now_second: i64,
        lag_seconds: Option<i64>,
        arrival_per_second: Option<i64>,
        replicas: i32,
    ) -> Self {
        let at_second = now_second - now_second.rem_euclid(SLOT_SECONDS);
        Self { at_second, lag_seconds, arrival_per_second, replicas }
    }

    /// Adds the figures of the same slot. A known figure exceeds an unknown one.
    pub fn merge(&mut self, other: &Self) {
        self.lag_seconds = self.lag_seconds.max(other.lag_seconds);
        self.arrival_per_second = self.arrival_per_second.max(other.arrival_per_second);
        self.replicas = self.replicas.max(other.replicas);
    }
}
