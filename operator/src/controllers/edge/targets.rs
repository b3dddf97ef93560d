//! Reports the targets of a pool that scrapes: figures, and the conditions `TargetsAssigned` and
//! `ScrapeCapacityReached`. Pure.
//!
//! Limits: if only samples change, figures are written every [`refresh::REFRESH`]; up and down at
//! each reconcile.

use millrace_crds::v1alpha1::{EdgePool, TargetsStatus};
use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason};

use super::refresh;
use crate::cache::scraping::Scraping;
use crate::pods::ADMIN_PORT;
use crate::pool::status::{as_i32, as_i64};
use crate::report::conditions::{Conditions, status_time};
use crate::report::counts::format_count;

/// Returns the pool's cap, in samples per second.
pub(super) fn scrape_cap(pool: &EdgePool) -> Option<u32> {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref()?;
    receiver.assignment.max_samples_per_second_per_pod
}

/// Returns the figures of the status. Before the first round they are unchanged.
pub(super) fn build_figures(
    before: Option<&TargetsStatus>,
    found: &Scraping,
) -> Option<TargetsStatus> {
    let Some(at) = found.at else { return before.cloned() };
    let now = TargetsStatus {
        total: as_i32(found.targets),
        assigned: as_i32(found.assigned),
        up: as_i32(found.up),
        down: as_i32(found.down),
        waiting: as_i32(found.excluded),
        monitors: as_i32(found.monitors),
        invalid_monitors: as_i32(found.invalid_monitors),
        rejected: as_i32(found.refused),
        unreachable_pods: as_i32(found.unreachable_pods),
        pods_over_capacity: as_i32(found.pods_over_capacity),
        needed_pods: found.needed_pods.map(as_i32),
        samples_per_second: as_i64(found.samples_per_second),
        observed_at: status_time(at),
    };
    Some(match before {
        Some(before) if is_recent_enough(before, &now) => before.clone(),
        _ => now,
    })
}

/// Returns whether the status may retain its figures.
fn is_recent_enough(before: &TargetsStatus, now: &TargetsStatus) -> bool {
    let same_samples = before.samples_per_second == now.samples_per_second;
    let same = TargetsStatus {
        samples_per_second: now.samples_per_second,
        observed_at: now.observed_at.clone(),
        ..before.clone()
    } == *now;
    same && refresh::may_retain(&before.observed_at, &now.observed_at, same_samples)
}

/// The remedy if the operator doesn't grant pods the right.
const REMEDY: &str = "set the chart's shareAccess.grant to true, or bind a Role with list and watch \
                      of ConfigMaps to the pods' account";

/// Sets both conditions. `grants`: the operator gives pods the right to read their shares.
pub(super) fn state_targets(
    conditions: &mut Conditions,
    found: &Scraping,
    cap: Option<u32>,
    grants: bool,
) {
    state_shared(conditions, found, grants);
    match (cap, found.needed_pods) {
        (Some(cap), Some(needed)) => state_cap(conditions, found, cap, needed),
        _ => conditions.remove_condition(ConditionType::ScrapeCapacityReached),
    }
}

/// Returns whether the pool is not ready while this `TargetsAssigned` is false. Faults of monitors,
/// which other teams write, are reported there and on the monitors, and stop no other target.
pub(super) fn prevents_ready(found: &Scraping, shared: &Condition) -> bool {
    shared.status == ConditionStatus::False
        && (shared.reason != Reason::TargetsRejected.as_str() || found.refused_in_spec > 0)
}

fn state_shared(conditions: &mut Conditions, found: &Scraping, grants: bool) {
    use ConditionType::TargetsAssigned;
    let Scraping { targets, excluded: left_out, refused, refusals, ready_pods, .. } = found;
    if let Some((reason, failure)) = &found.failure {
        let message = format!("targets are unchanged: {failure}");
        return conditions.set_unknown(TargetsAssigned, *reason, message);
    }
    if found.at.is_none() {
        if conditions.restate(TargetsAssigned) {
            return;
        }
        let message = "pods have not been queried yet";
        return conditions.set_unknown(TargetsAssigned, Reason::NotObserved, message);
    }
    let state_refused = |conditions: &mut Conditions| {
        let message = format!("{refused} can't be assigned: {}", refusals.join("; "));
        conditions.set_false(TargetsAssigned, Reason::TargetsRejected, message);
    };
    if found.refused_in_spec > 0 {
        return state_refused(conditions);
    }
    if *targets > 0 && *ready_pods == 0 {
        let message = format!("no pod answers on its admin port ({ADMIN_PORT}) yet");
        return conditions.set_false(TargetsAssigned, Reason::Waiting, message);
    }
    if *left_out > 0 {
        let pods = found.needed_pods.map_or(String::new(), |pods| format!(" ({pods} are needed)"));
        let message = format!(
            "{left_out} of {targets} targets wait: every pod is at its capacity or has as many \
             targets as it can scrape: add pods{pods}"
        );
        return conditions.set_false(TargetsAssigned, Reason::CapacityReached, message);
    }
    if !grants && found.assigned > 0 && found.up + found.down == 0 {
        let message =
            format!("no pod has scraped a target yet; if it can't read its share: {REMEDY}");
        return conditions.set_false(TargetsAssigned, Reason::Waiting, message);
    }
    // Last, since the pool's owner can do something about all others.
    if *refused > 0 {
        return state_refused(conditions);
    }
    conditions.set_true(TargetsAssigned, Reason::Reconciled, "each target is assigned to a pod");
}

fn state_cap(conditions: &mut Conditions, found: &Scraping, cap: u32, needed: u64) {
    use ConditionType::ScrapeCapacityReached;
    if needed <= found.ready_pods && found.pods_over_capacity == 0 {
        let message = "the existing pods suffice";
        return conditions.set_false(ScrapeCapacityReached, Reason::WithinCapacity, message);
    }
    let message = format!(
        "the targets' samples need {} of at most {cap} samples per second: raise replicas, or \
         assignment.maxSamplesPerSecondPerPod",
        format_count(needed, "pod")
    );
    conditions.set_true(ScrapeCapacityReached, Reason::CapacityReached, message);
}

#[cfg(test)]
mod tests;
