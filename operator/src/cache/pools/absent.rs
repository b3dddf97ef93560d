//! Tracks pods that should exist and don't, how long each has been absent, and which of them may be
//! the fault of a change.
//!
//! Only a pod that existed when a change began, or was created during it, can be absent because of
//! the change. Pods absent before, or required by a new size or new nodes, are no evidence against
//! it. Without this memory, as after a restart, the first sample counts as before the change.

use std::collections::{BTreeMap, BTreeSet};

/// A number of absent pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentCount {
    /// The number of absent pods.
    pub pods: u32,
    /// When the first pod became absent or the number last fell, in seconds.
    pub since: i64,
}

/// Times the absence of pods that have no stable names.
#[derive(Clone, Copy, Debug, Default)]
pub struct AbsentClock(Option<AbsentCount>);

impl AbsentClock {
    /// Records the number of absent pods. A lower number than before restarts the time, since pods
    /// are being created.
    pub fn record_count(&mut self, pods: u32, now: i64) -> Option<AbsentCount> {
        let since = self.0.filter(|before| before.pods <= pods).map_or(now, |before| before.since);
        self.0 = (pods > 0).then_some(AbsentCount { pods, since });
        self.0
    }
}

/// Counts the pods without stable names that a change has lost.
#[derive(Clone, Debug, Default)]
pub struct LostPods {
    change: String,
    desired: u32,
    /// The highest number of pods that existed since the change began.
    existed: u32,
    clock: AbsentClock,
}

impl LostPods {
    /// Records how many pods should exist and how many do. `has_begun`: pods may have the change
    /// already.
    pub fn record_pods(
        &mut self,
        (change, has_begun): (&str, bool),
        (desired, existing): (u32, u32),
        now: i64,
    ) -> Option<AbsentCount> {
        if !has_begun || self.change != change {
            *self = Self { change: change.to_owned(), ..Self::default() };
        }
        // Pods of removed nodes are not lost.
        let left = self.desired.saturating_sub(desired);
        self.existed = self.existed.saturating_sub(left).max(existing).min(desired);
        self.desired = desired;
        self.clock.record_count(self.existed.saturating_sub(existing), now)
    }
}

/// An absent pod with a stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentPod {
    /// When it became absent, in seconds.
    pub since: i64,
    /// Whether the pod existed when the change began or later.
    pub is_lost: bool,
}

/// Absent pods with stable names.
#[derive(Clone, Debug, Default)]
pub struct AbsentPods {
    existed: BTreeSet<String>,
    absent: BTreeMap<String, AbsentPod>,
}

impl AbsentPods {
    /// Records which pods should exist, and whether each does. `has_begun`: pods may have the
    /// change already.
    pub fn record_pods(
        &mut self,
        desired: impl IntoIterator<Item = (String, bool)>,
        has_begun: bool,
        now: i64,
    ) {
        let before = std::mem::take(self);
        for (name, exists) in desired {
            let is_lost = has_begun && before.existed.contains(&name);
            if exists || is_lost {
                self.existed.insert(name.clone());
            }
            if !exists {
                let since = before.absent.get(&name).map_or(now, |pod| pod.since);
                self.absent.insert(name, AbsentPod { since, is_lost });
            }
        }
    }

    /// Returns the absent pods of the last sample, by name.
    #[must_use]
    pub fn by_name(&self) -> &BTreeMap<String, AbsentPod> {
        &self.absent
    }
}

#[cfg(test)]
mod tests;
