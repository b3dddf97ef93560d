//! What the status of a pool that scrapes says of its targets: figures, and the conditions
//! `TargetsShared` and `ScrapeCapReached`. Pure.
//!
//! Limits: where nothing but samples changes, figures are written every [`REFRESH`]; up and down
//! when the pool is looked at.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_crds::v1alpha1::{EdgePool, TargetsStatus};
use millrace_crds::{ConditionType, Reason};

use crate::cache::scraping::Scraping;
use crate::pods::ADMIN_PORT;
use crate::report::conditions::Conditions;

/// Samples that change are written at most this often.
const REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// Unchanged figures get a new date this often, to show that they are current.
const REDATE: SignedDuration = SignedDuration::from_secs(300);

/// The pool's cap, in samples per second.
pub(super) fn cap(pool: &EdgePool) -> Option<u32> {
    let receiver = pool.spec.settings.receivers.prometheus.as_ref()?;
    receiver.sharing.pod_samples_per_second_max
}

/// The figures of the status. Before the first round they are what they were.
pub(super) fn figures(before: Option<&TargetsStatus>, found: &Scraping) -> Option<TargetsStatus> {
    let Some(at) = found.at else { return before.cloned() };
    // As conditions have it: whole seconds.
    let at = jiff::Timestamp::from_second(at.as_second()).unwrap_or(at);
    let now = TargetsStatus {
        total: as_i32(found.targets),
        shared: as_i32(found.shared),
        up: as_i32(found.up),
        down: as_i32(found.down),
        left_out: as_i32(found.left_out),
        refused: as_i32(found.refused),
        silent_pods: as_i32(found.silent_pods),
        pods_over_cap: as_i32(found.pods_over_cap),
        needed_pods: found.needed_pods.map(as_i32),
        samples_per_second: i64::try_from(found.samples_per_second).unwrap_or(i64::MAX),
        observed_at: Time(at),
    };
    Some(match before {
        Some(before) if is_recent_enough(before, &now) => before.clone(),
        _ => now,
    })
}

/// Whether the status may go on with what it has.
fn is_recent_enough(before: &TargetsStatus, now: &TargetsStatus) -> bool {
    let age = now.observed_at.0.duration_since(before.observed_at.0);
    let same_samples = before.samples_per_second == now.samples_per_second;
    let limit = if same_samples { REDATE } else { REFRESH };
    let same = TargetsStatus {
        samples_per_second: now.samples_per_second,
        observed_at: now.observed_at.clone(),
        ..before.clone()
    } == *now;
    same && age >= SignedDuration::ZERO && age < limit
}

/// States both conditions.
pub(super) fn state(conditions: &mut Conditions, found: &Scraping, cap: Option<u32>) {
    state_shared(conditions, found);
    match (cap, found.needed_pods) {
        (Some(cap), Some(needed)) => state_cap(conditions, found, cap, needed),
        _ => conditions.drop(ConditionType::ScrapeCapReached),
    }
}

fn state_shared(conditions: &mut Conditions, found: &Scraping) {
    use ConditionType::TargetsShared;
    let Scraping { targets, left_out, refused, refusals, ready_pods, .. } = found;
    if let Some((reason, failure)) = &found.failure {
        let message = format!("targets stay where they are: {failure}");
        return conditions.unknown(TargetsShared, *reason, message);
    }
    if found.at.is_none() {
        let message = "pods have not been asked yet";
        return conditions.unknown(TargetsShared, Reason::NotObserved, message);
    }
    if *refused > 0 {
        let message = format!("{refused} can't be shared out: {}", refusals.join("; "));
        return conditions.fails(TargetsShared, Reason::TargetsRefused, message);
    }
    if *targets > 0 && *ready_pods == 0 {
        let message = format!("no pod answers on its admin port ({ADMIN_PORT}) yet");
        return conditions.fails(TargetsShared, Reason::Waiting, message);
    }
    if *left_out > 0 {
        let message = format!("{left_out} of {targets} targets wait: every pod is at the cap");
        return conditions.fails(TargetsShared, Reason::CapReached, message);
    }
    conditions.holds(TargetsShared, Reason::AsAsked, "each target was given to a pod");
}

fn state_cap(conditions: &mut Conditions, found: &Scraping, cap: u32, needed: u64) {
    use ConditionType::ScrapeCapReached;
    if needed <= found.ready_pods && found.pods_over_cap == 0 {
        let message = "the pods that there are suffice";
        return conditions.fails(ScrapeCapReached, Reason::BelowCap, message);
    }
    let message = format!(
        "the targets' samples need {needed} pods of at most {cap} samples per second: raise \
         replicas, or sharing.podSamplesPerSecondMax"
    );
    conditions.holds(ScrapeCapReached, Reason::CapReached, message);
}

/// A count as Kubernetes types carry it.
fn as_i32(count: u64) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/edge/targets.rs"]
mod tests;
