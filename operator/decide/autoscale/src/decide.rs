//! The rule: from an observation, a policy and state to a decision.
//!
//! Order: an explicit size; the known signals; the need; the holds; and only then a change. What an
//! observation teaches (capacity, whether the last growth helped) counts from the next one on, so
//! that within one observation more lag never means fewer pods.

mod guard;
pub(crate) mod need;
pub(crate) mod size;

use crate::capacity::Capacity;
use crate::decide::need::{Need, Terms};
use crate::decide::size::{Bounds, next_larger, next_smaller, useful_sizes};
use crate::decision::{Decision, HotPartition, ScalingReason};
use crate::observation::{ConsumerGroup, Observation, PodReport, SinkReport, Transition};
use crate::policy::{ScalingMode, ScalingPolicy};
use crate::resources::Resources;
use crate::state::{GrowthStep, REGRET_MAX, ScalingState, SizeChange};
use crate::vertical;

/// Next to no lag: at most this many messages per partition wait. A message read and not committed
/// yet counts as lag, so a pool that keeps up perfectly still shows a few.
const IDLE_MESSAGES_PER_PARTITION: u64 = 10;
/// A pool whose lag exceeds this share of its bound does not shrink.
const SHRINK_LAG_SHARE: f64 = 0.25;
/// A shrink by less than this share of the pods waits this many times as long: it saves little and
/// still costs a rebalance.
const SMALL_STEP_SHARE: f64 = 0.25;
const SMALL_STEP_PATIENCE: i64 = 4;
/// A backlog below this share of the need is noise.
const BACKLOG_MIN_SHARE: f64 = 0.01;

/// Decides the size and the resources of a pool.
#[must_use]
pub fn decide_size(
    observation: &Observation,
    policy: &ScalingPolicy,
    last: &ScalingState,
) -> Decision {
    let mut state = last.clone();
    state.cap_times(observation.now);
    let signals = FreshSignals::from_observation(observation, policy);
    match (signals.group, &observation.group) {
        (Some(_), Some(group)) => state.arrivals.record_rates(group),
        _ => {
            state.arrivals.record_gap();
            state.over_since = None;
            state.idle_since = None;
        }
    }
    let mut proposal = propose_size(&signals, &mut state);
    let resources = size_pods(&signals, &proposal, &mut state);
    let grows = matches!(proposal.reason, ScalingReason::LoadGrew | ScalingReason::LagAboveBound);
    if grows && state.memory.vertical.cpu_grew_within(observation.now) {
        proposal = proposal.hold_at(signals.current, ScalingReason::HoldVertical);
    }
    build_decision(&signals, state, proposal, resources)
}

/// The fresh signals of one observation.
struct FreshSignals<'a> {
    observation: &'a Observation,
    policy: &'a ScalingPolicy,
    bounds: Bounds,
    current: u32,
    group: Option<&'a ConsumerGroup>,
    pods: Vec<&'a PodReport>,
    sink: Option<&'a SinkReport>,
}

impl<'a> FreshSignals<'a> {
    fn from_observation(observation: &'a Observation, policy: &'a ScalingPolicy) -> Self {
        let (now, age) = (observation.now, policy.stale_after_seconds);
        let group = observation.group.as_ref().and_then(|it| it.if_fresh(now, age));
        // A number of partitions does not become invalid with age.
        let partitions = observation.group.as_ref().map(|it| it.value.partitions.len());
        let partitions = partitions.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let bounds = Bounds::new(policy.min, policy.max, partitions);
        Self {
            observation,
            policy,
            bounds,
            current: observation.current.unwrap_or(bounds.floor),
            group,
            pods: observation.pods.iter().filter_map(|pod| pod.if_fresh(now, age)).collect(),
            sink: observation.sink.as_ref().and_then(|it| it.if_fresh(now, age)),
        }
    }

    fn sink_is_busy(&self) -> bool {
        self.sink.is_some_and(|sink| sink.pressure >= self.policy.sink_veto_pressure)
    }

    /// Returns whether a pod that once reported no longer does: its figures are unknown.
    fn a_pod_fell_silent(&self) -> bool {
        self.pods.len() < self.observation.pods.len()
    }

    fn memory_is_short(&self) -> bool {
        let share =
            |pod: &&PodReport| Some(pod.memory_bytes? as f64 / pod.memory_limit_bytes? as f64);
        self.pods.iter().filter_map(share).any(|share| share > self.policy.memory_veto_share)
    }
}

/// The rule's result, before any state changes.
#[derive(Clone, Debug)]
struct SizeProposal {
    to: u32,
    proposed: u32,
    reason: ScalingReason,
    earliest: Option<i64>,
    terms: Option<Terms>,
    hot: Option<HotPartition>,
}

impl SizeProposal {
    fn new(to: u32, reason: ScalingReason) -> Self {
        Self { to, proposed: to, reason, earliest: None, terms: None, hot: None }
    }

    fn hold_at(self, current: u32, reason: ScalingReason) -> Self {
        Self { to: current, reason, ..self }
    }

    fn with_earliest(self, earliest: i64) -> Self {
        Self { earliest: Some(earliest), ..self }
    }
}

fn propose_size(signals: &FreshSignals<'_>, state: &mut ScalingState) -> SizeProposal {
    let FreshSignals { observation, policy, bounds, current, .. } = *signals;
    if let ScalingMode::Fixed(size) = policy.mode {
        return SizeProposal::new(size.max(1), ScalingReason::Fixed);
    }
    if observation.current.is_none() {
        return SizeProposal::new(bounds.floor, ScalingReason::Initial);
    }
    let clamped = bounds.clamp(current);
    if clamped != current {
        return SizeProposal::new(clamped, ScalingReason::Bounds);
    }
    let Some(group) = signals.group.filter(|group| !group.partitions.is_empty()) else {
        return SizeProposal::new(current, ScalingReason::HoldSignalMissing);
    };
    let known = state.memory.capacities.for_key(&observation.capacity_key);
    match known.filter(|_| state.arrivals.is_known()) {
        Some(capacity) => by_need(signals, group, &capacity, state),
        None => by_lag(signals, group, state),
    }
}

/// Applies the rule while capacity is known.
fn by_need(
    signals: &FreshSignals<'_>,
    group: &ConsumerGroup,
    known: &Capacity,
    state: &mut ScalingState,
) -> SizeProposal {
    let FreshSignals { observation, policy, bounds, current, .. } = *signals;
    let now = observation.now;
    let capacity = known.rate_for_size(group.bytes_per_message).max(f64::MIN_POSITIVE);
    let arrivals = state.arrivals.clone();
    let need = Need { policy, arrivals: &arrivals, capacity };
    let terms = need.compute_terms(group, bounds, current, known.samples > 0);
    let hot = hot_partition(&need, group);
    let needed = terms.size_needed;
    let verdict = |to, reason| SizeProposal {
        proposed: needed.max(to),
        terms: Some(terms.clone()),
        hot,
        ..SizeProposal::new(to, reason)
    };
    state.idle_since = None;
    if needed <= current {
        state.over_since = None;
        if terms.beyond_bounds {
            let why = if hot.is_some() {
                ScalingReason::PartitionHot
            } else {
                ScalingReason::MaxReplicasReached
            };
            return verdict(current, why);
        }
        if hot.is_some() && !group.within_bound {
            return verdict(current, ScalingReason::PartitionHot);
        }
        return propose_smaller(
            signals,
            group,
            &need,
            state,
            verdict(current, ScalingReason::Steady),
        );
    }
    let since = *state.over_since.get_or_insert(now);
    let urgent = is_urgent(signals, group, &need, now - since);
    let found = verdict(
        needed,
        if urgent { ScalingReason::LagAboveBound } else { ScalingReason::LoadGrew },
    );
    let window = if urgent { 0 } else { policy.grow_after_seconds };
    let pause = (policy.reaction_seconds + policy.pause_seconds) as i64;
    // Even an urgent growth waits until the effect of the previous one is known.
    let judged = state.step.map_or(0, |_| guard::EVALUATION_SECONDS);
    let settle = if urgent { pause + judged } else { policy.stabilization_seconds };
    weigh_growth(signals, state, found, since + window, settle, urgent)
}

/// Returns whether the bound is exceeded, or would be before the window ends and new pods work.
fn is_urgent(
    signals: &FreshSignals<'_>,
    group: &ConsumerGroup,
    need: &Need<'_>,
    waited: i64,
) -> bool {
    let policy = signals.policy;
    if !group.within_bound {
        return true;
    }
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    let arrival = need.arrivals.expected_rate(policy.reaction_seconds);
    let falls_behind =
        1.0 - need.throughput(signals.current, partitions) / arrival.max(f64::MIN_POSITIVE);
    let left = policy.lag_bound_seconds - group.lag_seconds.unwrap_or(0.0);
    let waiting = (policy.grow_after_seconds - waited).max(0) as f64;
    falls_behind > 0.0
        && left / falls_behind < waiting + policy.reaction_seconds + policy.pause_seconds
}

/// Returns what blocks growth, if anything does.
fn weigh_growth(
    signals: &FreshSignals<'_>,
    state: &ScalingState,
    proposal: SizeProposal,
    due: i64,
    stabilization: i64,
    urgent: bool,
) -> SizeProposal {
    let (now, current) = (signals.observation.now, signals.current);
    if let Some(held) = in_transition(signals, urgent) {
        return proposal.hold_at(current, held);
    }
    if signals.sink_is_busy() {
        return proposal.hold_at(current, ScalingReason::HoldSinkBusy);
    }
    if let Some(until) = state.memory.back_off_until.filter(|until| now < *until) {
        return proposal.hold_at(current, ScalingReason::HoldIneffective).with_earliest(until);
    }
    check_windows(signals, state, proposal, due, stabilization)
}

/// Returns the window or rate limit that blocks any change, if one does.
fn check_windows(
    signals: &FreshSignals<'_>,
    state: &ScalingState,
    proposal: SizeProposal,
    due: i64,
    stabilization: i64,
) -> SizeProposal {
    let (now, current, policy) = (signals.observation.now, signals.current, signals.policy);
    let settled = state.memory.last_change.map_or(now, |change| change.at + stabilization);
    let earliest = settled.max(due);
    if now < settled {
        return proposal.hold_at(current, ScalingReason::HoldSettling).with_earliest(earliest);
    }
    if now < due {
        return proposal.hold_at(current, ScalingReason::HoldWindow).with_earliest(earliest);
    }
    let recent = state.changes.iter().filter(|change| now - change.at < 3_600);
    let most = policy.changes_per_hour.max(1) as usize;
    let nth = recent.clone().rev().nth(most - 1).map(|change| change.at + 3_600);
    if let Some(free) = nth {
        return proposal.hold_at(current, ScalingReason::HoldRate).with_earliest(free);
    }
    proposal
}

/// Returns the transition that must end first. Pods that start because the pool grew block neither
/// an urgent growth nor a shrink.
fn in_transition(signals: &FreshSignals<'_>, ignores_starting: bool) -> Option<ScalingReason> {
    match signals.observation.transition {
        Transition::Stable => None,
        Transition::Scaling => (!ignores_starting).then_some(ScalingReason::HoldSettling),
        Transition::Rollout => Some(ScalingReason::HoldRollout),
        Transition::Migration => Some(ScalingReason::HoldMigration),
    }
}

/// Returns a smaller size that has sufficed for long enough, if one exists. The more is idle, the
/// sooner: the window for a size is the policy's, times that size over the present one.
fn propose_smaller(
    signals: &FreshSignals<'_>,
    group: &ConsumerGroup,
    need: &Need<'_>,
    state: &mut ScalingState,
    unchanged: SizeProposal,
) -> SizeProposal {
    let FreshSignals { observation, policy, bounds, current, .. } = *signals;
    let lag_seconds = group.lag_seconds.unwrap_or(0.0);
    let near = lag_seconds > policy.lag_bound_seconds * SHRINK_LAG_SHARE;
    let behind = unchanged
        .terms
        .as_ref()
        .is_some_and(|it| it.backlog_per_second > BACKLOG_MIN_SHARE * it.needed_per_second);
    if !group.within_bound || near || behind {
        return unchanged;
    }
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    let patience = 1i64 << state.memory.premature_shrinks.min(REGRET_MAX);
    let candidates = useful_sizes(partitions, bounds).take_while(|size| *size < current);
    let due = candidates.filter_map(|size| {
        let low_since = state.arrivals.at_most_since(need.max_arrivals(size))?;
        let window = policy.shrink_after_seconds * i64::from(size) / i64::from(current);
        let small = f64::from(size) > f64::from(current) * (1.0 - SMALL_STEP_SHARE);
        let window = window.max(policy.shrink_after_min_seconds) * patience;
        let window = if small { window * SMALL_STEP_PATIENCE } else { window };
        // Present need counts too: a size that is too small right now has no window at all.
        (state.arrivals.current_rate() <= need.max_arrivals(size))
            .then_some((size, low_since + window))
    });
    let due: Vec<(u32, i64)> = due.collect();
    let now = observation.now;
    let ready = due.iter().find(|(_, due)| *due <= now);
    let Some((size, due)) = ready.or_else(|| due.iter().min_by_key(|(_, due)| *due)) else {
        return unchanged;
    };
    let found =
        SizeProposal { to: *size, proposed: *size, reason: ScalingReason::LoadFell, ..unchanged };
    weigh_shrinking(signals, state, found, *due)
}

/// Returns what blocks shrinking, if anything does. Pods that don't start block nothing: one that
/// finds no node may never start.
fn weigh_shrinking(
    signals: &FreshSignals<'_>,
    state: &ScalingState,
    proposal: SizeProposal,
    due: i64,
) -> SizeProposal {
    if let Some(held) = in_transition(signals, true) {
        return proposal.hold_at(signals.current, held);
    }
    if signals.memory_is_short() {
        return proposal.hold_at(signals.current, ScalingReason::HoldMemory);
    }
    if signals.a_pod_fell_silent() {
        return proposal.hold_at(signals.current, ScalingReason::HoldSignalMissing);
    }
    // New pods get time to have an effect.
    let policy = signals.policy;
    let grew = state.memory.last_change.is_some_and(|change| change.to > change.from);
    let settle =
        if grew { 2 * policy.shrink_after_min_seconds } else { policy.stabilization_seconds };
    check_windows(signals, state, proposal, due, settle)
}

/// Applies the rule while a pod's capacity is unknown: one step up when lag stays above its bound,
/// one step down when there has been next to none for long.
fn by_lag(
    signals: &FreshSignals<'_>,
    group: &ConsumerGroup,
    state: &mut ScalingState,
) -> SizeProposal {
    let FreshSignals { observation, policy, bounds, current, .. } = *signals;
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    if !group.within_bound {
        state.idle_since = None;
        let since = *state.over_since.get_or_insert(observation.now);
        let Some(larger) = next_larger(current, partitions, bounds) else {
            return SizeProposal::new(current, ScalingReason::MaxReplicasReached);
        };
        let found = SizeProposal::new(larger, ScalingReason::LagAboveBound);
        let due = since + policy.grow_after_seconds / 2;
        return weigh_growth(signals, state, found, due, policy.stabilization_seconds, false);
    }
    state.over_since = None;
    let waiting: u64 = group.partitions.iter().map(|it| it.lag_messages).sum();
    if waiting > u64::from(partitions).saturating_mul(IDLE_MESSAGES_PER_PARTITION) {
        state.idle_since = None;
        return SizeProposal::new(current, ScalingReason::Steady);
    }
    let since = *state.idle_since.get_or_insert(observation.now);
    let Some(size) = next_smaller(current, partitions, bounds) else {
        return SizeProposal::new(current, ScalingReason::Steady);
    };
    let found = SizeProposal::new(size, ScalingReason::Idle);
    weigh_shrinking(signals, state, found, since + policy.shrink_after_seconds)
}

fn hot_partition(need: &Need<'_>, group: &ConsumerGroup) -> Option<HotPartition> {
    let rates = need.arrivals.partition_rates().iter().copied().enumerate();
    let (index, rate) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let times = (rate / (need.capacity * need.policy.utilisation)).ceil();
    (rate > need.capacity && group.partitions.len() > index).then(|| HotPartition {
        index,
        arrival_per_second: rate,
        recommended_partitions: u32::try_from(group.partitions.len())
            .unwrap_or(u32::MAX)
            .saturating_mul(times.min(1_000.0) as u32),
    })
}

/// Returns the resources of one pod; unchanged while pods are replaced.
fn size_pods(
    signals: &FreshSignals<'_>,
    proposal: &SizeProposal,
    state: &mut ScalingState,
) -> Option<(Resources, vertical::VerticalReason)> {
    let policy = signals.policy.vertical.as_ref()?;
    if matches!(signals.observation.transition, Transition::Rollout)
        && state.memory.vertical.resources.is_some()
    {
        return state.memory.vertical.resources.map(|it| (it, vertical::VerticalReason::Steady));
    }
    // Only larger pods can help a pool that may not grow.
    let at_its_end =
        matches!(proposal.reason, ScalingReason::MaxReplicasReached | ScalingReason::PartitionHot);
    let more = (proposal.proposed > signals.current || at_its_end) && !signals.sink_is_busy();
    let (resources, why, next) = vertical::decide_resources(
        policy,
        &signals.pods,
        more,
        signals.observation.now,
        &state.memory.vertical,
    );
    state.memory.vertical = next;
    Some((resources, why))
}

/// Builds the decision and its state, including what this observation teaches for the next.
fn build_decision(
    signals: &FreshSignals<'_>,
    mut state: ScalingState,
    proposal: SizeProposal,
    resources: Option<(Resources, vertical::VerticalReason)>,
) -> Decision {
    let FreshSignals { observation, policy, current, .. } = *signals;
    let SizeProposal { to, proposed, reason, earliest, terms, hot } = proposal;
    learn_from_signals(signals, &mut state);
    let only_recommends = policy.mode == ScalingMode::Recommend && observation.current.is_some();
    let replicas = if only_recommends { current } else { to };
    if !only_recommends && observation.current != Some(to) {
        let change = SizeChange { at: observation.now, from: observation.current.unwrap_or(0), to };
        guard::record_regret(policy, &mut state, change);
        let gain = terms.as_ref().map_or(0.0, |it| it.capacity_per_second * f64::from(to))
            - state.arrivals.commit_rate();
        let behind = signals.group.is_some_and(|group| !group.within_bound);
        state.step = (to > current && behind && gain > 0.0).then(|| GrowthStep {
            at: observation.now,
            before_per_second: state.arrivals.commit_rate(),
            predicted_per_second: gain,
        });
        state.record_change(change);
    }
    Decision {
        replicas,
        proposed: if only_recommends { to } else { proposed },
        from: observation.current,
        reason,
        terms,
        hot,
        resources,
        earliest_change: earliest,
        state,
    }
}

/// Learns capacity, and whether the last growth helped. A pool in transition or limited by its sink
/// shows neither.
fn learn_from_signals(signals: &FreshSignals<'_>, state: &mut ScalingState) {
    let Some(group) = signals.group else { return };
    let now = signals.observation.now;
    let pause = signals.policy.reaction_seconds + signals.policy.pause_seconds;
    let settled = state.memory.last_change.is_none_or(|it| now - it.at >= pause as i64);
    if signals.observation.transition != Transition::Stable || signals.sink_is_busy() || !settled {
        return;
    }
    state.memory.capacities.learn_sample(
        &signals.observation.capacity_key,
        group,
        &signals.pods,
        signals.current,
    );
    guard::evaluate_growth(state, now - pause as i64, !group.within_bound);
}
