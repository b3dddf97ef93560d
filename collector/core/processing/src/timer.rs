//! Measures rules on some of the objects, by a clock of the caller's.
//!
//! Most rules take less time than two readings of a clock, so reading it for each rule and object
//! would cost more than it measures. One of 64.5 objects is measured on average, and its time is
//! multiplied. The gaps are irregular, so that no pattern of records is in step with them.
//! Nothing that a run writes depends on it.

/// Returns the nanoseconds since any fixed time.
pub type ClockNanos = fn() -> u64;

/// Gaps between measured objects are 1 to 128.
const GAP_BITS: u32 = 7;
/// Twice the mean gap.
const MEAN_GAP_TWICE: u64 = (1 << GAP_BITS) + 1;
/// The longest time of a rule on one object. What takes longer was interrupted, and would count
/// as 64 such interruptions.
const LAP_NANOS_MAX: u64 = 1_000_000;
/// The readings of which the fastest counts as the time of one.
const CALIBRATIONS: usize = 16;

/// Decides which objects are measured, and how long each rule took.
#[derive(Clone, Debug)]
pub(crate) struct RuleTimer {
    clock: Option<ClockNanos>,
    /// The objects until the next measured one.
    countdown: u32,
    random: u32,
    lap_start: u64,
    /// The time of a reading.
    overhead: u64,
}

impl Default for RuleTimer {
    /// Returns a timer that measures nothing.
    fn default() -> Self {
        Self { clock: None, countdown: u32::MAX, random: 0, lap_start: 0, overhead: 0 }
    }
}

impl RuleTimer {
    pub(crate) fn new(clock: ClockNanos) -> Self {
        let read_twice = |_| {
            let before = clock();
            clock().saturating_sub(before)
        };
        let overhead = (0..CALIBRATIONS).map(read_twice).min().unwrap_or_default();
        Self { clock: Some(clock), countdown: 1, overhead, ..Self::default() }
    }

    /// Begins an object. Returns whether it is measured.
    #[inline]
    pub(crate) fn begin_object(&mut self) -> bool {
        self.countdown -= 1;
        self.countdown == 0 && self.begin_measured()
    }

    #[cold]
    fn begin_measured(&mut self) -> bool {
        let Some(clock) = self.clock else {
            self.countdown = u32::MAX;
            return false;
        };
        // A linear congruential generator, whose upper bits are the better ones.
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.countdown = 1 + (self.random >> (u32::BITS - GAP_BITS));
        self.lap_start = clock();
        true
    }

    /// Returns the estimated time of a rule on all objects, in nanoseconds: by the time since the
    /// last rule on the measured one.
    pub(crate) fn end_lap(&mut self) -> u64 {
        let Some(clock) = self.clock else { return 0 };
        let now = clock();
        let lap = now.saturating_sub(self.lap_start).saturating_sub(self.overhead);
        self.lap_start = now;
        lap.min(LAP_NANOS_MAX) * MEAN_GAP_TWICE / 2
    }
}
