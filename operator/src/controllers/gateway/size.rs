//! Turns observations into the sizing decision in the status. Pure.
//!
//! The rule itself is `millrace_autoscale`. The status stores its lasting state, so that a
//! restarted operator continues; all other state is in memory. Figures in the status change only if
//! they are news, so that a settled pool is not written again.

mod news;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_autoscale as rule;
use millrace_autoscale::{
    Capacities, Capacity, ScalingMemory, ScalingMode, ScalingState, SizeChange, Transition,
};
use millrace_crds::v1alpha1::{
    GatewayPool, HotPartition, LearnedCapacity, SizingSignals, SizingStatus, SizingTerms,
};
use millrace_rollout::{RolloutVerdict, WorkloadObservation, assess_rollout};

use self::news::{awaits_signals, is_same_decision};
use super::observed::Observed;
use super::resources::{self, STALE_SECONDS};
use crate::cache::sizing::Sizing;
use crate::cluster::is_paused;
use crate::hash::hash_of;
use crate::pods::PodRates;
use crate::pool::status::as_i32;
use crate::report::counts::format_count;

/// The divisor of the window before whose end nothing shrinks: five minutes of thirty.
const SHRINK_MIN_SHARE: i64 = 6;

/// Decides the size; returns the decision for the status and the state to store. An unchanged
/// decision retains its old form.
pub(super) fn decide_size(pool: &GatewayPool, observed: &Observed) -> (SizingStatus, Sizing) {
    let before = pool.status.as_ref().and_then(|status| status.sizing.as_ref());
    let mut memory = observed.memory.clone();
    if let (true, Some(before)) = (is_paused(pool), before) {
        return (before.clone(), memory);
    }
    let last = memory.state.take().unwrap_or_else(|| restore_state(before));
    let observation = sizing_observation(pool, before, observed, &last);
    let decision = rule::decide_size(&observation, &sizing_policy(pool, observed), &last);
    let mut sizing = sizing_of(&decision, &observation, observed);
    resources::report_resources(&mut sizing, before, pool, &decision);
    let awaits_signals = awaits_signals(observed, &decision.state, before);
    let same = before.filter(|before| is_same_decision(before, &sizing, awaits_signals));
    // No window ends because an operator started: the broker was not silent.
    let retains_state = same.is_some() && observed.awaits_lag();
    memory.state = Some(if retains_state { last } else { decision.state });
    (same.cloned().unwrap_or(sizing), memory)
}

fn sizing_policy(pool: &GatewayPool, observed: &Observed) -> rule::ScalingPolicy {
    let settings = &pool.spec.settings;
    let scaling = &settings.scaling;
    rule::ScalingPolicy {
        mode: match (settings.replicas, observed.memory.sized_by()) {
            (Some(size), _) => ScalingMode::Fixed(size),
            (None, Some(_)) => ScalingMode::Recommend,
            (None, None) => ScalingMode::Act,
        },
        lag_bound_seconds: f64::from(scaling.lag_bound_seconds),
        catch_up_seconds: f64::from(scaling.catch_up_seconds),
        shrink_after_seconds: i64::from(scaling.shrink_after_seconds),
        shrink_after_min_seconds: i64::from(scaling.shrink_after_seconds) / SHRINK_MIN_SHARE,
        stale_after_seconds: STALE_SECONDS,
        vertical: resources::vertical_policy(pool, observed),
        ..rule::ScalingPolicy::with_bounds(scaling.min_replicas, scaling.max_replicas)
    }
}

/// Returns the observation. The present size is the last decided one, since a manually scaled
/// StatefulSet is drift, unless another autoscaler sizes it.
fn sizing_observation(
    pool: &GatewayPool,
    before: Option<&SizingStatus>,
    observed: &Observed,
    last: &ScalingState,
) -> rule::Observation {
    let figures = observed.workload_figures();
    let live = figures.as_ref().map(|figures| figures.desired);
    let decided = before.and_then(|before| u32::try_from(before.replicas).ok());
    let decided = unreported_size(before, last).or(decided);
    rule::Observation {
        now: observed.now.as_second(),
        current: if observed.memory.sized_by().is_some() { live } else { decided.or(live) },
        transition: match figures.as_ref().map_or(Transition::Stable, transition_of) {
            Transition::Stable | Transition::Scaling if observed.migrates => Transition::Migration,
            other => other,
        },
        capacity_key: capacity_key(pool, observed),
        group: observed_group(before, observed),
        pods: observed.memory.pods.pods.clone(),
        sink: observed.memory.pods.sink.clone(),
    }
}

/// Returns the size of a change that the status lacks: the copy of the pool is older than the last
/// reconcile, and its size would undo the change.
fn unreported_size(before: Option<&SizingStatus>, last: &ScalingState) -> Option<u32> {
    let reported = before.and_then(|before| before.changed_at.as_ref()).map(|at| at.0.as_second());
    let change = last.memory.last_change?;
    reported.is_none_or(|reported| reported < change.at).then_some(change.to)
}

/// Returns the consumer group. A lag query without an answer counts as missing, however recent the
/// last answer; only the number of partitions, which bounds the size, remains known.
fn observed_group(
    before: Option<&SizingStatus>,
    observed: &Observed,
) -> Option<rule::Aged<rule::ConsumerGroup>> {
    let group = observed.memory.group_with_owners();
    if observed.lag.is_ok() {
        return group;
    }
    let reported = before.and_then(|before| usize::try_from(before.partitions?).ok());
    let count = group.map(|group| group.value.partitions.len()).or(reported)?;
    let partitions = vec![rule::PartitionLoad::default(); count];
    let value = rule::ConsumerGroup {
        partitions,
        lag_seconds: None,
        within_bound: true,
        bytes_per_message: None,
    };
    Some(rule::Aged { observed_at: i64::MIN, value })
}

/// Returns the pool's transition. Pods added by a change of size all have the newest revision.
fn transition_of(figures: &WorkloadObservation) -> Transition {
    let same_template = figures.updated >= figures.existing
        && figures.observed_generation == Some(figures.generation);
    match assess_rollout(figures) {
        RolloutVerdict::Complete => Transition::Stable,
        RolloutVerdict::Moving(_) if same_template => Transition::Scaling,
        RolloutVerdict::Moving(_) | RolloutVerdict::Stuck(_) => Transition::Rollout,
    }
}

/// Returns a hash of everything that a pod's speed depends on.
fn capacity_key(pool: &GatewayPool, observed: &Observed) -> String {
    let resources = &pool.spec.settings.resources;
    let (memory, cpu) = (resources.memory_bytes(), resources.cpu_millicores());
    let allocator = pool.spec.collector.allocator;
    let mut text = format!(
        "{}|{allocator:?}|{memory:?}|{cpu:?}|{}",
        observed.draft.image, observed.draft.config
    );
    // Resized pods do more, so the slowest one's resources count.
    let pods = &observed.memory.pods.pods;
    let in_force = pods.iter().filter_map(|pod| pod.value.cpu_limit_millicores).min();
    if let Some(limit) = in_force.filter(|limit| Some(*limit) != cpu.1) {
        text.push_str(&format!("|{limit}"));
    }
    hash_of(&text.into())
}

/// Returns the state in the status; windows missing from it start again.
fn restore_state(before: Option<&SizingStatus>) -> ScalingState {
    let Some(before) = before else { return ScalingState::default() };
    let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    let last_change = second(&before.changed_at).map(|at| SizeChange {
        at,
        from: before.changed_from.and_then(|from| u32::try_from(from).ok()).unwrap_or(0),
        to: u32::try_from(before.replicas).unwrap_or(0),
    });
    let capacities = before.capacities.iter().map(|it| {
        let capacity = Capacity {
            messages_per_second: it.messages_per_second as f64,
            bytes_per_second: None,
            samples: u32::try_from(it.samples).unwrap_or(0),
        };
        (it.key.clone(), capacity)
    });
    let memory = ScalingMemory {
        capacities: Capacities::restore(capacities.collect()),
        last_change,
        premature_shrinks: u32::try_from(before.premature_shrinks).unwrap_or(0),
        back_off_until: second(&before.back_off_until),
        vertical: resources::restore_state(before),
        ..ScalingMemory::default()
    };
    ScalingState {
        over_since: second(&before.more_needed_since),
        idle_since: second(&before.idle_since),
        ..ScalingState::from_memory(memory)
    }
}

fn sizing_of(
    decision: &rule::Decision,
    observation: &rule::Observation,
    observed: &Observed,
) -> SizingStatus {
    let time = |second: Option<i64>| second.and_then(status_time);
    let ScalingState { memory, over_since, idle_since, .. } = &decision.state;
    let partitions = observation.group.as_ref().map(|group| group.value.partitions.len());
    SizingStatus {
        replicas: as_i32(decision.replicas),
        proposed_replicas: as_i32(decision.proposed),
        reason: decision.reason.as_str().to_owned(),
        message: decision_message(decision, observed),
        decided_at: status_time(observed.now.as_second()).unwrap_or(Time(observed.now)),
        earliest_change_at: time(decision.earliest_change),
        partitions: partitions.map(as_i32),
        sized_by: observed.memory.sized_by().map(ToOwned::to_owned),
        memory_limit: None,
        memory_request: None,
        cpu_limit: None,
        cpu_request: None,
        resources_reason: None,
        signals: sizing_signals(observed),
        terms: decision.terms.as_ref().map(terms_of),
        hot_partition: decision.hot.as_ref().and_then(|hot| hot_of(hot, observed)),
        more_needed_since: time(*over_since),
        idle_since: time(*idle_since),
        changed_at: time(memory.last_change.map(|change| change.at)),
        changed_from: memory.last_change.map(|change| as_i32(change.from)),
        premature_shrinks: as_i32(memory.premature_shrinks),
        back_off_until: time(memory.back_off_until),
        capacities: memory.capacities.known().iter().map(learned_capacity).collect(),
    }
}

/// Returns the pods' figures in percent; `None` if no pod was queried.
fn sizing_signals(observed: &Observed) -> Option<SizingSignals> {
    let PodRates { pods, sink, listed, metered, .. } = &observed.memory.pods;
    let percent = |share: f64| (share * 100.0).round() as i32;
    let most = |shares: &mut dyn Iterator<Item = f64>| shares.reduce(f64::max).map(percent);
    let now = observed.now.as_second();
    let fresh_pods = pods.iter().filter_map(|pod| pod.if_fresh(now, STALE_SECONDS));
    let by_metrics = fresh_pods.clone().filter(|pod| metered.contains(&pod.ordinal)).count();
    let memory =
        |pod: &rule::PodReport| Some(pod.memory_bytes? as f64 / pod.memory_limit_bytes? as f64);
    (*listed > 0).then(|| SizingSignals {
        pods: as_i32(*listed),
        pods_reporting: as_i32(fresh_pods.clone().count() - by_metrics),
        pods_metered: i32::try_from(by_metrics).ok().filter(|count| *count > 0),
        memory_percent: most(&mut fresh_pods.clone().filter_map(memory)),
        cpu_percent: most(&mut fresh_pods.clone().filter_map(|pod| pod.busy)),
        cpu_millicores: fresh_pods
            .filter_map(|pod| pod.cpu_millicores)
            .reduce(f64::max)
            .map(|used| used.round() as i32),
        inserts_rejected_percent: sink
            .as_ref()
            .and_then(|sink| sink.if_fresh(now, STALE_SECONDS))
            .map(|sink| percent(sink.pressure)),
    })
}

fn terms_of(terms: &rule::Terms) -> SizingTerms {
    let rounded = |rate: f64| rate.round() as i64;
    SizingTerms {
        arrival_per_second: rounded(terms.arrival_per_second),
        expected_per_second: rounded(terms.expected_per_second),
        backlog_messages: rounded(terms.backlog_messages),
        backlog_per_second: rounded(terms.backlog_per_second),
        rebalance_per_second: rounded(terms.rebalance_per_second),
        needed_per_second: rounded(terms.needed_per_second),
        capacity_per_second: rounded(terms.capacity_per_second),
        capacity_measured: terms.capacity_measured,
        hottest_per_second: rounded(terms.hottest_per_second),
        size_needed: as_i32(terms.size_needed),
    }
}

fn hot_of(hot: &rule::HotPartition, observed: &Observed) -> Option<HotPartition> {
    let which = observed.lag.as_ref().ok()?.offsets.get(hot.index)?;
    Some(HotPartition {
        topic: which.topic.clone(),
        partition: which.partition,
        arrival_per_second: hot.arrival_per_second.round() as i64,
        recommended_partitions: as_i32(hot.recommended_partitions),
    })
}

fn learned_capacity((key, capacity): &(String, Capacity)) -> LearnedCapacity {
    LearnedCapacity {
        key: key.clone(),
        // The capacity is never rounded to zero: a pod with few messages has one too.
        messages_per_second: (capacity.messages_per_second.round() as i64).max(1),
        samples: as_i32(capacity.samples),
    }
}

fn status_time(second: i64) -> Option<Time> {
    Timestamp::from_second(second).ok().map(Time)
}

fn decision_message(decision: &rule::Decision, observed: &Observed) -> String {
    let lag = match &observed.lag {
        Ok(lag) => format!(
            "{} waiting in {}, {} the bound of {} s",
            format_count(lag.messages, "message"),
            format_count(lag.partitions, "partition"),
            if lag.within_bound { "within" } else { "above" },
            observed.lag_query.bound.as_secs()
        ),
        Err(_) => "lag unknown".to_owned(),
    };
    let earliest = decision
        .earliest_change
        .and_then(status_time)
        .map_or_else(String::new, |time| format!("; earliest change {}", time.0));
    let recommendation = observed.memory.sized_by().map_or_else(String::new, |scaler| {
        format!("recommendation only, {scaler} sets the size: ")
    });
    let pods = sizing_signals(observed).map_or_else(String::new, |it| pods_text(&it));
    let resources = resources::change_text(decision);
    format!("{recommendation}{decision}; {lag}{pods}{resources}{earliest}")
}

fn pods_text(signals: &SizingSignals) -> String {
    let SizingSignals {
        pods,
        pods_reporting,
        pods_metered,
        memory_percent,
        cpu_percent,
        inserts_rejected_percent,
        ..
    } = signals;
    let figure = |what: &str, percent: &Option<i32>| {
        percent.map_or_else(String::new, |percent| format!(", {what} {percent} %"))
    };
    let metered = pods_metered
        .map_or_else(String::new, |count| format!(", {count} known by the metrics API"));
    format!(
        "; {pods_reporting} of {pods} pods reported{metered}{}{}{}",
        figure("most memory", memory_percent),
        figure("most processor time", cpu_percent),
        figure("inserts refused", inserts_rejected_percent)
    )
}
