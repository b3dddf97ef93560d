//! From observations to the sizing decision that stands in the status. Pure.
//!
//! The rule itself is `millrace_autoscale`; here its memory is read from and written to the status,
//! so that a restarted operator goes on where the last one was.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_autoscale::{Decision, Lag, Observation, Policy, Reason, State};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_rollout::{Verdict, judge};

use super::validate::Observed;
use crate::apply::is_paused;
use crate::pool::status::as_i32;

/// Decides the size. While nothing about the decision changes, the earlier one is given back as it
/// was, so that a settled pool's status is not written again.
pub(super) fn decide(pool: &GatewayPool, observed: &Observed) -> SizingStatus {
    let before = pool.status.as_ref().and_then(|status| status.sizing.as_ref());
    if let (true, Some(before)) = (is_paused(pool), before) {
        return before.clone();
    }
    let settings = &pool.spec.settings;
    let scaling = &settings.scaling;
    let policy = Policy::with_bounds(settings.replicas, scaling.min_replicas, scaling.max_replicas);
    let seen = seen(before, observed);
    let decision = millrace_autoscale::decide(&seen, &policy, &state_of(before));
    let sizing = sizing_of(&decision, &seen, observed);
    match before {
        Some(before) if same(before, &sizing) => before.clone(),
        _ => sizing,
    }
}

/// What is seen. The size that counts as the present one is the one last decided on: a StatefulSet
/// scaled by hand is drift, not a decision.
fn seen(before: Option<&SizingStatus>, observed: &Observed) -> Observation {
    let figures = observed.figures();
    let lag = observed.lag.as_ref().ok();
    Observation {
        now_seconds: observed.now.as_second(),
        current: before
            .and_then(|before| u32::try_from(before.replicas).ok())
            .or(figures.as_ref().map(|figures| figures.wanted)),
        ready: figures.as_ref().map_or(0, |figures| figures.ready),
        rollout_under_way: figures.as_ref().is_some_and(|it| judge(it) != Verdict::Complete),
        partitions: lag.map(|lag| lag.partitions),
        lag: lag.map(|lag| Lag {
            messages: lag.messages,
            within_bound: lag.within_bound,
            observed_seconds: lag.observed_at.as_second(),
        }),
    }
}

fn state_of(before: Option<&SizingStatus>) -> State {
    let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    before.map_or_else(State::default, |before| State {
        above_bound_since: second(&before.above_bound_since),
        idle_since: second(&before.idle_since),
        changed_at: second(&before.changed_at),
    })
}

fn sizing_of(decision: &Decision, seen: &Observation, observed: &Observed) -> SizingStatus {
    let time = |second: Option<i64>| second.and_then(at);
    SizingStatus {
        replicas: as_i32(decision.replicas),
        reason: decision.reason.as_str().to_owned(),
        message: message(decision, seen, observed),
        decided_at: at(observed.now.as_second()).unwrap_or(Time(observed.now)),
        partitions: seen.partitions.map(as_i32),
        above_bound_since: time(decision.state.above_bound_since),
        idle_since: time(decision.state.idle_since),
        changed_at: time(decision.state.changed_at),
    }
}

fn at(second: i64) -> Option<Time> {
    Timestamp::from_second(second).ok().map(Time)
}

/// Whether two decisions say the same but for when and with which figures they were made.
fn same(a: &SizingStatus, b: &SizingStatus) -> bool {
    let SizingStatus {
        replicas,
        reason,
        message: _,
        decided_at: _,
        partitions,
        above_bound_since,
        idle_since,
        changed_at,
    } = a;
    *replicas == b.replicas
        && *reason == b.reason
        && *partitions == b.partitions
        && *above_bound_since == b.above_bound_since
        && *idle_since == b.idle_since
        && *changed_at == b.changed_at
}

fn message(decision: &Decision, seen: &Observation, observed: &Observed) -> String {
    let from = seen.current.map_or_else(|| "none".to_owned(), |current| current.to_string());
    let what = match decision.reason {
        Reason::Fixed => "the size is set by spec.replicas; sizing by lag is off",
        Reason::Initial => "the pool starts at its smallest size",
        Reason::Bounds => "the size was outside minReplicas, maxReplicas or the partitions",
        Reason::LagAboveBound => "lag stayed above its bound: one step larger",
        Reason::Idle => "there was next to no lag for long: one step smaller",
        Reason::Steady => "nothing calls for another size",
        Reason::AtCeiling => {
            "lag is above its bound but the pool is at maxReplicas or its partitions; raise \
             maxReplicas, resources or partitions"
        }
        Reason::HoldWindow => "a change is called for once this has lasted long enough",
        Reason::HoldSettling => "the size was changed a short while ago; the group settles first",
        Reason::HoldRollout => "pods are being replaced or started",
        Reason::HoldSignalMissing => "the lag is not known, which is never taken for none",
    };
    let lag = match &observed.lag {
        Ok(lag) => format!(
            "{} messages waiting in {} partitions, {} the bound of {} s",
            lag.messages,
            lag.partitions,
            if lag.within_bound { "within" } else { "above" },
            observed.draft.lag.bound.as_secs()
        ),
        Err(_) => "lag unknown".to_owned(),
    };
    let earliest = decision
        .earliest_change_seconds
        .and_then(at)
        .map_or_else(String::new, |time| format!("; earliest change {}", time.0));
    format!("{from} -> {}: {what} ({lag}{earliest})", decision.replicas)
}
