//! State between decisions. Plain values; the caller stores them.
//!
//! Losing it is safe: windows restart, capacity is measured again. The caller may persist only
//! [`ScalingMemory`], which changes seldom, and start with the rest empty.

use crate::arrivals::Arrivals;
use crate::capacity::Capacities;
use crate::vertical::VerticalState;

/// Changes stored: enough for the hourly limit.
const CHANGES_MAX: usize = 32;
/// Windows for shrinking double at most this often.
pub(crate) const REGRET_MAX: u32 = 3;

/// The complete state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingState {
    /// The part that must outlive the process.
    pub memory: ScalingMemory,
    /// The arrivals.
    pub arrivals: Arrivals,
    /// Since when more pods have been needed without a break.
    pub over_since: Option<i64>,
    /// Since when there has been next to no lag without a break.
    pub idle_since: Option<i64>,
    /// The changes of size within the last hour, oldest first.
    pub changes: Vec<SizeChange>,
    /// The last growth, until its effect is known.
    pub step: Option<GrowthStep>,
}

/// The part of the state that must outlive the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingMemory {
    /// The capacities of a pod.
    pub capacities: Capacities,
    /// The last change of size.
    pub last_change: Option<SizeChange>,
    /// How often in a row the pool had to grow again soon after it shrank.
    pub premature_shrinks: u32,
    /// How often in a row growing did not help.
    pub ineffective: u32,
    /// Until when the pool does not grow because growing did not help.
    pub back_off_until: Option<i64>,
    /// Resources of one pod.
    pub vertical: VerticalState,
}

/// A change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeChange {
    /// The time, in seconds on the caller's clock.
    pub at: i64,
    /// Pods before.
    pub from: u32,
    /// Pods after.
    pub to: u32,
}

/// A growth and its predicted effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrowthStep {
    /// The time.
    pub at: i64,
    /// Messages committed per second before.
    pub before_per_second: f64,
    /// The predicted increase.
    pub predicted_per_second: f64,
}

impl ScalingState {
    /// Creates a state from persisted memory.
    #[must_use]
    pub fn from_memory(memory: ScalingMemory) -> Self {
        let changes = memory.last_change.into_iter().collect();
        Self { memory, changes, ..Self::default() }
    }

    /// Returns whether arrivals are known: a rate takes two observations of the lag.
    #[must_use]
    pub fn knows_arrivals(&self) -> bool {
        self.arrivals.is_known()
    }

    /// Records a change of size: all windows start again.
    pub(crate) fn record_change(&mut self, change: SizeChange) {
        self.changes.retain(|earlier| change.at - earlier.at < 3_600);
        if self.changes.len() == CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(change);
        self.memory.last_change = Some(change);
        self.over_since = None;
        self.idle_since = None;
    }

    /// Caps all times at `now`: after a clock went backwards, no window may appear longer than it
    /// was, and no change lie in the future.
    pub(crate) fn cap_times(&mut self, now: i64) {
        let capped = |time: &mut Option<i64>| *time = time.filter(|time| *time <= now);
        capped(&mut self.over_since);
        capped(&mut self.idle_since);
        for change in self.changes.iter_mut().chain(self.memory.last_change.iter_mut()) {
            change.at = change.at.min(now);
        }
    }
}
