//! The last day of each gateway pool, in slots of a quarter of an hour. In memory, of this process.

use std::collections::{BTreeMap, VecDeque};

use millrace_reports::day::{DaySlot, SLOT_SECONDS, SLOTS_MAX};

/// Maximum pools with a history. A slot has 48 B, a day 4.6 kB: 2.4 MB in all.
const POOLS_MAX: usize = 512;
/// A pool without a figure for this long counts as deleted.
const DAY_SECONDS: i64 = SLOT_SECONDS * SLOTS_MAX as i64;

/// The slots of pools, by uid, the oldest first.
#[derive(Debug, Default)]
pub(super) struct DayHistory {
    pools: BTreeMap<String, VecDeque<DaySlot>>,
}

impl DayHistory {
    /// Adds the figures of a pool. Beyond [`POOLS_MAX`] pools, those recorded first are retained,
    /// so that each history is complete.
    pub(super) fn record(&mut self, uid: &str, slot: DaySlot) {
        if !self.pools.contains_key(uid) {
            if self.pools.len() >= POOLS_MAX {
                self.remove_deleted(slot.at_second);
            }
            if self.pools.len() >= POOLS_MAX {
                return;
            }
        }
        let slots = self.pools.entry(uid.to_owned()).or_default();
        match slots.back_mut() {
            Some(last) if last.at_second == slot.at_second => last.merge(&slot),
            // The clock was set back: nothing is added until it is past the last slot.
            Some(last) if last.at_second > slot.at_second => {}
            _ => slots.push_back(slot),
        }
        while slots.front().is_some_and(|first| first.at_second <= slot.at_second - DAY_SECONDS) {
            slots.pop_front();
        }
    }

    pub(super) fn slots_of(&self, uid: &str) -> Vec<DaySlot> {
        self.pools.get(uid).map(|slots| slots.iter().copied().collect()).unwrap_or_default()
    }

    fn remove_deleted(&mut self, now: i64) {
        let is_recent = |last: &DaySlot| last.at_second > now - DAY_SECONDS;
        self.pools.retain(|_, slots| slots.back().is_some_and(is_recent));
    }
}

#[cfg(test)]
mod tests {
    use millrace_reports::day::{DaySlot, SLOT_SECONDS, SLOTS_MAX};

    use super::{DayHistory, POOLS_MAX};

    fn slot(at: i64, lag: i64) -> DaySlot {
        DaySlot::at(at, Some(lag), None, 1)
    }

    /// Scenario: figures every ten seconds for two days, one of them a peak; the clock is set back.
    /// Guarantee: a day of slots, in order, each with its maximum; the earlier time adds none.
    #[test]
    fn a_pool_has_a_day_of_maxima() {
        let mut history = DayHistory::default();
        let day = SLOT_SECONDS * SLOTS_MAX as i64;
        let peak = 2 * day - 5 * SLOT_SECONDS;
        for at in (0..2 * day).step_by(10) {
            history.record("a", slot(at, if at == peak + 20 { 900 } else { 1 }));
        }
        history.record("a", slot(day, 5_000));
        let slots = history.slots_of("a");
        assert_eq!(slots.len(), SLOTS_MAX);
        assert!(slots.is_sorted_by_key(|it| it.at_second));
        assert_eq!(slots.first().map(|it| it.at_second), Some(day));
        let peaks: Vec<_> = slots.iter().filter(|it| it.lag_seconds != Some(1)).collect();
        assert_eq!(peaks, [&DaySlot { at_second: peak, lag_seconds: Some(900), ..slot(peak, 0) }]);
        assert_eq!(history.slots_of("b"), []);
    }

    /// Scenario: twice as many pools as have a history; a day later only the second half exists.
    /// Guarantee: the first half keeps its slots; then the second half takes their memory.
    #[test]
    fn pools_beyond_the_limit_wait_for_deleted_ones() {
        let mut history = DayHistory::default();
        let name = |at: usize| format!("pool-{at}");
        (0..2 * POOLS_MAX).for_each(|at| history.record(&name(at), slot(0, 1)));
        assert_eq!(history.pools.len(), POOLS_MAX);
        assert_eq!(history.slots_of(&name(0)).len(), 1);
        let later = SLOT_SECONDS * (SLOTS_MAX as i64 + 1);
        (POOLS_MAX..2 * POOLS_MAX).for_each(|at| history.record(&name(at), slot(later, 1)));
        assert_eq!(history.pools.len(), POOLS_MAX);
        assert_eq!(history.slots_of(&name(0)), []);
        assert_eq!(history.slots_of(&name(POOLS_MAX)).len(), 1);
    }
}
