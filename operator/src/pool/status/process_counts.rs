//! Sums counts of processes over their restarts, for statuses. Pure.
//!
//! A process counts from zero; the status stores how much of its count is in the sum.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The minimum time between additions of ongoing growth.
const REFRESH: SignedDuration = SignedDuration::from_secs(60);

/// Returns whether growth was added so recently that a later addition includes it.
#[must_use]
pub fn is_recent(last_increase_at: &Time, now: Timestamp) -> bool {
    let age = now.duration_since(last_increase_at.0);
    age >= SignedDuration::ZERO && age < REFRESH
}

/// Returns whether a count continues an added one, by the same process: the start times don't
/// differ, and it `has_not_fallen`. Two processes without a start time may have the same count:
/// then some are missed, and none is counted twice.
#[must_use]
pub fn is_same_process(before: Option<i64>, now: Option<i64>, has_not_fallen: bool) -> bool {
    has_not_fallen && before.zip(now).is_none_or(|(before, now)| before == now)
}

/// Returns whether one more count can be stored, of `most`. The count of something that no longer
/// exists yields; another never does, or it would be added from zero again.
pub fn reserve_slot<T>(known: &mut Vec<T>, most: usize, exists: impl Fn(&T) -> bool) -> bool {
    if known.len() < most {
        return true;
    }
    let obsolete = known.iter().position(|it| !exists(it));
    obsolete.map(|at| known.remove(at)).is_some()
}
