//! Decides whether a sizing decision is news for the status. Pure.

use jiff::SignedDuration;
use millrace_autoscale as rule;
use millrace_autoscale::ScalingState;
use millrace_crds::v1alpha1::SizingStatus;

use crate::controllers::gateway::observed::Observed;
use crate::controllers::gateway::resources;

/// The minimum time between writes of changed figures.
const FIGURES_REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// The minimum share by which a figure must change to be news.
const FIGURES_SHARE: f64 = 0.2;

/// Returns whether this process has yet to observe something that an earlier one reported: the lag,
/// the rate between two observations of it, or a pod.
pub(super) fn awaits_signals(
    observed: &Observed,
    state: &ScalingState,
    before: Option<&SizingStatus>,
) -> bool {
    let had_rates = before.is_some_and(|before| before.terms.is_some());
    let awaits_lag = match &observed.lag {
        Ok(_) => had_rates && !state.knows_arrivals(),
        Err(_) => observed.awaits_lag(),
    };
    awaits_lag || observed.memory.pods.awaits_answers
}

/// Returns whether a decision is no news. Reasons to wait that alternate with noise count as equal;
/// figures count if they changed and the last ones are old. Until all signals are observed, only
/// another size or other resources count: an operator that starts would report each pool as silent,
/// and again once it answers.
pub(super) fn is_same_decision(
    before: &SizingStatus,
    now: &SizingStatus,
    awaits_signals: bool,
) -> bool {
    let age = now.decided_at.0.duration_since(before.decided_at.0);
    let young = age >= SignedDuration::ZERO && age < FIGURES_REFRESH;
    let same = before.replicas == now.replicas
        && before.partitions == now.partitions
        && before.changed_at == now.changed_at
        && before.back_off_until == now.back_off_until
        && before.sized_by == now.sized_by
        && resources::has_same_resources(before, now)
        && before.premature_shrinks == now.premature_shrinks;
    if !same || awaits_signals {
        return same;
    }
    let same_words = before.reason == now.reason
        && before.proposed_replicas == now.proposed_replicas
        && before.more_needed_since == now.more_needed_since
        && before.idle_since == now.idle_since;
    if young {
        return before.reason == now.reason
            || (is_waiting_reason(&before.reason) && is_waiting_reason(&now.reason));
    }
    same_words
        && before.hot_partition.is_some() == now.hot_partition.is_some()
        && response_counts(before) == response_counts(now)
        && is_near(&compared_figures(before), &compared_figures(now))
}

/// Returns whether a reason to retain the size alternates with noise.
fn is_waiting_reason(reason: &str) -> bool {
    [
        rule::ScalingReason::Steady,
        rule::ScalingReason::HoldWindow,
        rule::ScalingReason::HoldSettling,
    ]
    .iter()
    .any(|calm| calm.as_str() == reason)
}

/// Returns how many pods exist, and how many are known. A pod without load has no other figure:
/// without these its status would still report that no pod answers.
fn response_counts(sizing: &SizingStatus) -> Option<(i32, i32, Option<i32>)> {
    sizing.signals.as_ref().map(|it| (it.pods, it.pods_reporting, it.pods_metered))
}

fn compared_figures(sizing: &SizingStatus) -> Vec<i64> {
    let terms = sizing.terms.iter().flat_map(|it| {
        [it.arrival_per_second, it.backlog_messages, it.needed_per_second, it.capacity_per_second]
    });
    terms.chain(sizing.capacities.iter().map(|it| it.messages_per_second)).collect()
}

fn is_near(before: &[i64], now: &[i64]) -> bool {
    let close = |(a, b): (&i64, &i64)| {
        let most = a.unsigned_abs().max(b.unsigned_abs()) as f64;
        a.abs_diff(*b) as f64 <= most * FIGURES_SHARE
    };
    before.len() == now.len() && before.iter().zip(now).all(close)
}
