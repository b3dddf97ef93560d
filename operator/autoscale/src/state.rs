//! Memory between decisions. Plain values; kept by the caller.
//!
//! Losing it is safe: windows restart, capacity is measured again. The caller may persist only
//! [`Memory`], which changes seldom, and start the rest anew.

use crate::arrivals::Arrivals;
use crate::capacity::Capacities;
use crate::vertical::VerticalState;

/// Changes remembered: enough for the hourly limit.
const CHANGES_MAX: usize = 32;
/// Windows for shrinking double at most this often.
pub(crate) const REGRET_MAX: u32 = 3;

/// Everything remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// What must outlive the process.
    pub memory: Memory,
    /// What arrived.
    pub arrivals: Arrivals,
    /// Since when more pods have been needed without a break.
    pub over_since: Option<i64>,
    /// Since when there has been next to no lag without a break.
    pub idle_since: Option<i64>,
    /// The changes of size within the last hour, oldest first.
    pub changes: Vec<Change>,
    /// The last growth, until it is known whether it helped.
    pub step: Option<Step>,
}

/// What must outlive the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// What a pod can do.
    pub capacities: Capacities,
    /// The last change of size.
    pub last_change: Option<Change>,
    /// How often in a row the pool had to grow again soon after it shrank.
    pub regrets: u32,
    /// How often in a row growing did not help.
    pub ineffective: u32,
    /// Until when the pool does not grow because growing did not help.
    pub back_off_until: Option<i64>,
    /// Resources of one pod.
    pub vertical: VerticalState,
}

/// A change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When, in seconds on the caller's clock.
    pub at: i64,
    /// Pods before.
    pub from: u32,
    /// Pods after.
    pub to: u32,
}

/// A growth, and what it was to bring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When.
    pub at: i64,
    /// Messages committed per second before.
    pub before_per_second: f64,
    /// What was to come on top.
    pub predicted_per_second: f64,
}

impl State {
    /// Starts again from what was kept for good.
    #[must_use]
    pub fn remembering(memory: Memory) -> Self {
        let changes = memory.last_change.into_iter().collect();
        Self { memory, changes, ..Self::default() }
    }

    /// Notes a change of size: all windows start again.
    pub(crate) fn changed(&mut self, change: Change) {
        self.changes.retain(|earlier| change.at - earlier.at < 3_600);
        if self.changes.len() == CHANGES_MAX {
            self.changes.remove(0);
        }
        self.changes.push(change);
        self.memory.last_change = Some(change);
        self.over_since = None;
        self.idle_since = None;
    }

    /// A clock that went backwards must not make a window look longer than it was, nor keep a
    /// change in the future.
    pub(crate) fn not_after(&mut self, now: i64) {
        let capped = |time: &mut Option<i64>| *time = time.filter(|time| *time <= now);
        capped(&mut self.over_since);
        capped(&mut self.idle_since);
        for change in self.changes.iter_mut().chain(self.memory.last_change.iter_mut()) {
            change.at = change.at.min(now);
        }
    }
}
