//! What the rollouts of both kinds of pools have in common. Pure; the rule itself is
//! `millrace_rollout`.

pub mod member;
pub mod preflight;
pub mod trial_pods;
pub mod workload;

use millrace_crds::MillraceKind;
use millrace_crds::v1alpha1::{CanarySettings, Resources, RolloutAction, RolloutFigures};
use millrace_rollout::{Canary, LoadFigures, LoadSum, RolloutPolicy, Wish};

use super::status::{as_i32, as_i64};
use crate::hash::hash_of;
use crate::telemetry::metrics::Counter;

/// Counts each stage that a rollout reaches.
pub(crate) const STAGES: Counter<1> = Counter::new(
    "millrace_operator_rollout_stages_total",
    "Stages of rollouts, by stage.",
    ["stage"],
);

/// Returns the user's action on a pool's rollout.
pub fn rollout_request<K: MillraceKind>(pool: &K) -> Wish {
    match pool.rollout_action() {
        None => Wish::Continue,
        Some(RolloutAction::Abort) => Wish::Abort,
        Some(RolloutAction::Pause) => Wish::Pause,
    }
}

/// Returns how a pool's changes are rolled out.
#[must_use]
pub fn rollout_policy(canary: Option<&CanarySettings>, rolls_back: bool) -> RolloutPolicy {
    let canary = canary.map(|canary| Canary {
        pods: canary.pods,
        analysis_seconds: i64::from(canary.analysis_seconds),
    });
    RolloutPolicy { canary, rolls_back }
}

/// Distinguishes attempts: the unit, and everything else in the spec that might fix a failed unit.
/// Excludes Secrets, since they are rotated independently.
#[must_use]
pub fn attempt_key(image: &str, config_map: &str, resources: &Resources) -> String {
    // In JSON, unused fields that a later release adds change nothing.
    hash_of(&serde_json::json!({
        "image": image,
        "config": config_map,
        "resources": resources,
        // Earlier releases used this digest value for a pool without Secrets.
        "secrets": None::<&str>,
    }))
}

/// Returns the figures of one unit's pods; `None` when there are none.
#[must_use]
pub fn sum_figures(loads: &[LoadFigures]) -> Option<RolloutFigures> {
    let sum = LoadSum::from_loads(loads)?;
    Some(RolloutFigures {
        pods: as_i32(sum.pods),
        records: as_i64(sum.records),
        records_per_cpu_second: sum.records_per_cpu_second().map(|rate| rate.round() as i64),
        cpu_millicores: (sum.cpus_per_pod() * 1000.0).round() as i64,
        memory_bytes: as_i64(sum.resident_bytes),
    })
}

/// Returns a comparison of two units' pods as message text.
#[must_use]
pub fn figures_text(before: Option<&RolloutFigures>, after: Option<&RolloutFigures>) -> String {
    let side = |(name, it): (&str, &RolloutFigures)| {
        let rate = it.records_per_cpu_second.map_or_else(|| "?".to_owned(), |it| it.to_string());
        format!(
            "; {name}: {rate} records per CPU-second, {} millicores, {} MiB",
            it.cpu_millicores,
            it.memory_bytes >> 20
        )
    };
    let before = before.map(|it| ("before", it));
    before.into_iter().chain(after.map(|it| ("after", it))).map(side).collect()
}
