//! How often figures of pods are written to a pool's status. Pure.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The minimum time between writes of changed figures.
pub(super) const REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// The interval at which unchanged figures get a new date, to show that they are current.
pub(super) const REDATE: SignedDuration = SignedDuration::from_secs(300);

/// Returns whether the status may retain figures that were observed at `before`, now that others
/// were observed at `now`.
pub(super) fn may_retain(before: &Time, now: &Time, is_unchanged: bool) -> bool {
    let age = now.0.duration_since(before.0);
    let limit = if is_unchanged { REDATE } else { REFRESH };
    age >= SignedDuration::ZERO && age < limit
}
