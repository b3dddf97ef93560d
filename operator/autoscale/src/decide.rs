//! The rule: from an observation, a policy and memory to a decision.
//!
//! Order: an explicit size; the known signals; the need; the holds; and only then a change. What an
//! observation teaches (capacity, whether the last growth helped) counts from the next one on, so
//! that within one observation more lag never means fewer pods.

use crate::capacity::Capacity;
use crate::decision::{Decision, HotPartition, Reason};
use crate::guard;
use crate::need::{Need, Terms};
use crate::observation::{Group, Observation, Pod, Sink, Transition};
use crate::policy::{Mode, Policy};
use crate::resources::Resources;
use crate::size::{Bounds, next_larger, next_smaller, sizes};
use crate::state::{Change, REGRET_MAX, State, Step};
use crate::vertical;

/// Next to no lag: at most this many messages per partition wait. A message read and not committed
/// yet counts as lag, so a pool that keeps up perfectly still shows a few.
const IDLE_MESSAGES_PER_PARTITION: u64 = 10;
/// A pool this close to its bound, as a share of it, keeps what it has.
const SHRINK_LAG_SHARE: f64 = 0.25;
/// Giving back less than this share of the pods waits this many times as long: it saves little and
/// costs a rebalance all the same.
const SMALL_STEP_SHARE: f64 = 0.25;
const SMALL_STEP_PATIENCE: i64 = 4;
/// A backlog that takes less than this share of what is needed is noise.
const BACKLOG_MIN_SHARE: f64 = 0.01;

/// Decides the size and the resources of a pool.
#[must_use]
pub fn decide(seen: &Observation, policy: &Policy, last: &State) -> Decision {
    let mut state = last.clone();
    state.not_after(seen.now);
    let look = Look::of(seen, policy);
    match (look.group, &seen.group) {
        (Some(_), Some(group)) => state.arrivals.note(group),
        _ => {
            state.arrivals.gap();
            state.over_since = None;
            state.idle_since = None;
        }
    }
    let mut verdict = judge(&look, &mut state);
    let resources = size_pods(&look, &verdict, &mut state);
    let grows = matches!(verdict.reason, Reason::NeedGrew | Reason::LagAboveBound);
    if grows && state.memory.vertical.cpu_grew_within(seen.now) {
        verdict = verdict.held(look.current, Reason::HoldVertical);
    }
    finish(&look, state, verdict, resources)
}

/// One look: what is fresh of the observation.
struct Look<'a> {
    seen: &'a Observation,
    policy: &'a Policy,
    bounds: Bounds,
    current: u32,
    group: Option<&'a Group>,
    pods: Vec<&'a Pod>,
    sink: Option<&'a Sink>,
}

impl<'a> Look<'a> {
    fn of(seen: &'a Observation, policy: &'a Policy) -> Self {
        let (now, age) = (seen.now, policy.stale_after_seconds);
        let group = seen.group.as_ref().and_then(|it| it.fresh(now, age));
        // How many partitions there are does not become untrue with age.
        let partitions = seen.group.as_ref().map(|it| it.value.partitions.len());
        let partitions = partitions.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        let bounds = Bounds::new(policy.min, policy.max, partitions);
        Self {
            seen,
            policy,
            bounds,
            current: seen.current.unwrap_or(bounds.floor),
            group,
            pods: seen.pods.iter().filter_map(|pod| pod.fresh(now, age)).collect(),
            sink: seen.sink.as_ref().and_then(|it| it.fresh(now, age)),
        }
    }

    fn sink_is_busy(&self) -> bool {
        self.sink.is_some_and(|sink| sink.pressure >= self.policy.sink_veto_pressure)
    }

    /// A pod that told about itself no longer does: what it would say is not known.
    fn a_pod_fell_silent(&self) -> bool {
        self.pods.len() < self.seen.pods.len()
    }

    fn memory_is_short(&self) -> bool {
        let share = |pod: &&Pod| Some(pod.memory_bytes? as f64 / pod.memory_limit_bytes? as f64);
        self.pods.iter().filter_map(share).any(|share| share > self.policy.memory_veto_share)
    }
}

/// What is found to be right, before anything is remembered of it.
#[derive(Clone, Debug)]
struct Verdict {
    to: u32,
    wanted: u32,
    reason: Reason,
    earliest: Option<i64>,
    terms: Option<Terms>,
    hot: Option<HotPartition>,
}

impl Verdict {
    fn of(to: u32, reason: Reason) -> Self {
        Self { to, wanted: to, reason, earliest: None, terms: None, hot: None }
    }

    fn held(self, current: u32, reason: Reason) -> Self {
        Self { to: current, reason, ..self }
    }

    fn due(self, earliest: i64) -> Self {
        Self { earliest: Some(earliest), ..self }
    }
}

fn judge(look: &Look<'_>, state: &mut State) -> Verdict {
    let Look { seen, policy, bounds, current, .. } = *look;
    if let Mode::Fixed(size) = policy.mode {
        return Verdict::of(size.max(1), Reason::Fixed);
    }
    if seen.current.is_none() {
        return Verdict::of(bounds.floor, Reason::Initial);
    }
    let clamped = bounds.clamp(current);
    if clamped != current {
        return Verdict::of(clamped, Reason::Bounds);
    }
    let Some(group) = look.group.filter(|group| !group.partitions.is_empty()) else {
        return Verdict::of(current, Reason::HoldSignalMissing);
    };
    let known = state.memory.capacities.of(&seen.capacity_key);
    match known.filter(|_| state.arrivals.is_known()) {
        Some(capacity) => by_need(look, group, &capacity, state),
        None => by_lag(look, group, state),
    }
}

/// The rule while capacity is known.
fn by_need(look: &Look<'_>, group: &Group, known: &Capacity, state: &mut State) -> Verdict {
    let Look { seen, policy, bounds, current, .. } = *look;
    let now = seen.now;
    let capacity = known.at(group.bytes_per_message).max(f64::MIN_POSITIVE);
    let arrivals = state.arrivals.clone();
    let need = Need { policy, arrivals: &arrivals, capacity };
    let terms = need.now(group, bounds, current, known.samples > 0);
    let hot = hot_partition(&need, group);
    let wanted = terms.size_needed;
    let verdict = |to, reason| Verdict {
        wanted: wanted.max(to),
        terms: Some(terms.clone()),
        hot,
        ..Verdict::of(to, reason)
    };
    state.idle_since = None;
    if wanted <= current {
        state.over_since = None;
        if terms.beyond_bounds {
            let why = if hot.is_some() { Reason::PartitionHot } else { Reason::AtCeiling };
            return verdict(current, why);
        }
        if hot.is_some() && !group.within_bound {
            return verdict(current, Reason::PartitionHot);
        }
        return smaller(look, group, &need, state, verdict(current, Reason::Steady));
    }
    let since = *state.over_since.get_or_insert(now);
    let urgent = is_urgent(look, group, &need, now - since);
    let found = verdict(wanted, if urgent { Reason::LagAboveBound } else { Reason::NeedGrew });
    let window = if urgent { 0 } else { policy.grow_after_seconds };
    let pause = (policy.reaction_seconds + policy.pause_seconds) as i64;
    // Even what is urgent waits until it is known whether the growth before it helped.
    let judged = state.step.map_or(0, |_| guard::JUDGE_SECONDS);
    let settle = if urgent { pause + judged } else { policy.settle_seconds };
    weigh_growth(look, state, found, since + window, settle, urgent)
}

/// Whether the bound is broken, or would be before the window is over and new pods work.
fn is_urgent(look: &Look<'_>, group: &Group, need: &Need<'_>, waited: i64) -> bool {
    let policy = look.policy;
    if !group.within_bound {
        return true;
    }
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    let arrival = need.arrivals.expected(policy.reaction_seconds);
    let falls_behind =
        1.0 - need.throughput(look.current, partitions) / arrival.max(f64::MIN_POSITIVE);
    let left = policy.lag_bound_seconds - group.lag_seconds.unwrap_or(0.0);
    let waiting = (policy.grow_after_seconds - waited).max(0) as f64;
    falls_behind > 0.0
        && left / falls_behind < waiting + policy.reaction_seconds + policy.pause_seconds
}

/// What speaks against more pods.
fn weigh_growth(
    look: &Look<'_>,
    state: &State,
    found: Verdict,
    due: i64,
    settle: i64,
    urgent: bool,
) -> Verdict {
    let (now, current) = (look.seen.now, look.current);
    if let Some(held) = in_transition(look, urgent) {
        return found.held(current, held);
    }
    if look.sink_is_busy() {
        return found.held(current, Reason::HoldSinkBusy);
    }
    if let Some(until) = state.memory.back_off_until.filter(|until| now < *until) {
        return found.held(current, Reason::HoldIneffective).due(until);
    }
    timed(look, state, found, due, settle)
}

/// What speaks against a change whatever its direction: windows, and how often there were some.
fn timed(look: &Look<'_>, state: &State, found: Verdict, due: i64, settle: i64) -> Verdict {
    let (now, current, policy) = (look.seen.now, look.current, look.policy);
    let settled = state.memory.last_change.map_or(now, |change| change.at + settle);
    let earliest = settled.max(due);
    if now < settled {
        return found.held(current, Reason::HoldSettling).due(earliest);
    }
    if now < due {
        return found.held(current, Reason::HoldWindow).due(earliest);
    }
    let recent = state.changes.iter().filter(|change| now - change.at < 3_600);
    let most = policy.changes_per_hour.max(1) as usize;
    let nth = recent.clone().rev().nth(most - 1).map(|change| change.at + 3_600);
    if let Some(free) = nth {
        return found.held(current, Reason::HoldRate).due(free);
    }
    found
}

/// What is under way that must end first. Pods that start because the pool grew hold nothing up
/// when even more are needed at once.
fn in_transition(look: &Look<'_>, urgent: bool) -> Option<Reason> {
    match look.seen.transition {
        Transition::Settled => None,
        Transition::Scaling => (!urgent).then_some(Reason::HoldSettling),
        Transition::Rollout => Some(Reason::HoldRollout),
        Transition::Migration => Some(Reason::HoldMigration),
    }
}

/// A smaller size that has sufficed for long enough, if there is one. The more is idle, the sooner:
/// the window for a size is the policy's, times that size over the present one.
fn smaller(
    look: &Look<'_>,
    group: &Group,
    need: &Need<'_>,
    state: &mut State,
    steady: Verdict,
) -> Verdict {
    let Look { seen, policy, bounds, current, .. } = *look;
    let lag_seconds = group.lag_seconds.unwrap_or(0.0);
    let near = lag_seconds > policy.lag_bound_seconds * SHRINK_LAG_SHARE;
    let behind = steady
        .terms
        .as_ref()
        .is_some_and(|it| it.backlog_per_second > BACKLOG_MIN_SHARE * it.needed_per_second);
    if !group.within_bound || near || behind {
        return steady;
    }
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    let patience = 1i64 << state.memory.regrets.min(REGRET_MAX);
    let candidates = sizes(partitions, bounds).take_while(|size| *size < current);
    let due = candidates.filter_map(|size| {
        let low_since = state.arrivals.at_most_since(need.level(size))?;
        let window = policy.shrink_after_seconds * i64::from(size) / i64::from(current);
        let small = f64::from(size) > f64::from(current) * (1.0 - SMALL_STEP_SHARE);
        let window = window.max(policy.shrink_after_min_seconds) * patience;
        let window = if small { window * SMALL_STEP_PATIENCE } else { window };
        // Present need counts too: a size that is too small right now has no window at all.
        (state.arrivals.present() <= need.level(size)).then_some((size, low_since + window))
    });
    let due: Vec<(u32, i64)> = due.collect();
    let now = seen.now;
    let ready = due.iter().find(|(_, due)| *due <= now);
    let Some((size, due)) = ready.or_else(|| due.iter().min_by_key(|(_, due)| *due)) else {
        return steady;
    };
    let found = Verdict { to: *size, wanted: *size, reason: Reason::NeedFell, ..steady };
    weigh_shrinking(look, state, found, *due)
}

/// What speaks against fewer pods.
fn weigh_shrinking(look: &Look<'_>, state: &State, found: Verdict, due: i64) -> Verdict {
    if let Some(held) = in_transition(look, false) {
        return found.held(look.current, held);
    }
    if look.memory_is_short() {
        return found.held(look.current, Reason::HoldMemory);
    }
    if look.a_pod_fell_silent() {
        return found.held(look.current, Reason::HoldSignalMissing);
    }
    // What was just added is given time to be of use.
    let policy = look.policy;
    let grew = state.memory.last_change.is_some_and(|change| change.to > change.from);
    let settle = if grew { 2 * policy.shrink_after_min_seconds } else { policy.settle_seconds };
    timed(look, state, found, due, settle)
}

/// The rule while nothing is known of a pod's capacity: one step up when lag stays above its bound,
/// one step down when there has been next to none for long.
fn by_lag(look: &Look<'_>, group: &Group, state: &mut State) -> Verdict {
    let Look { seen, policy, bounds, current, .. } = *look;
    let partitions = u32::try_from(group.partitions.len()).unwrap_or(u32::MAX);
    if !group.within_bound {
        state.idle_since = None;
        let since = *state.over_since.get_or_insert(seen.now);
        let Some(larger) = next_larger(current, partitions, bounds) else {
            return Verdict::of(current, Reason::AtCeiling);
        };
        let found = Verdict::of(larger, Reason::LagAboveBound);
        let due = since + policy.grow_after_seconds / 2;
        return weigh_growth(look, state, found, due, policy.settle_seconds, false);
    }
    state.over_since = None;
    let waiting: u64 = group.partitions.iter().map(|it| it.lag_messages).sum();
    if waiting > u64::from(partitions).saturating_mul(IDLE_MESSAGES_PER_PARTITION) {
        state.idle_since = None;
        return Verdict::of(current, Reason::Steady);
    }
    let since = *state.idle_since.get_or_insert(seen.now);
    let Some(size) = next_smaller(current, partitions, bounds) else {
        return Verdict::of(current, Reason::Steady);
    };
    let found = Verdict::of(size, Reason::Idle);
    weigh_shrinking(look, state, found, since + policy.shrink_after_seconds)
}

fn hot_partition(need: &Need<'_>, group: &Group) -> Option<HotPartition> {
    let rates = need.arrivals.partitions().iter().copied().enumerate();
    let (index, rate) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let times = (rate / (need.capacity * need.policy.utilisation)).ceil();
    (rate > need.capacity && group.partitions.len() > index).then(|| HotPartition {
        index,
        arrival_per_second: rate,
        partitions_advised: u32::try_from(group.partitions.len())
            .unwrap_or(u32::MAX)
            .saturating_mul(times.min(1_000.0) as u32),
    })
}

/// The resources of one pod; left alone while pods are replaced.
fn size_pods(
    look: &Look<'_>,
    verdict: &Verdict,
    state: &mut State,
) -> Option<(Resources, vertical::VerticalReason)> {
    let policy = look.policy.vertical.as_ref()?;
    if matches!(look.seen.transition, Transition::Rollout)
        && state.memory.vertical.resources.is_some()
    {
        return state.memory.vertical.resources.map(|it| (it, vertical::VerticalReason::Steady));
    }
    // A pool that may not grow is helped by larger pods alone.
    let at_its_end = matches!(verdict.reason, Reason::AtCeiling | Reason::PartitionHot);
    let more = (verdict.wanted > look.current || at_its_end) && !look.sink_is_busy();
    let (resources, why, next) =
        vertical::decide(policy, &look.pods, more, look.seen.now, &state.memory.vertical);
    state.memory.vertical = next;
    Some((resources, why))
}

/// Writes down what was decided, and what this look teaches for the next.
fn finish(
    look: &Look<'_>,
    mut state: State,
    verdict: Verdict,
    resources: Option<(Resources, vertical::VerticalReason)>,
) -> Decision {
    let Look { seen, policy, current, .. } = *look;
    let Verdict { to, wanted, reason, earliest, terms, hot } = verdict;
    learn(look, &mut state);
    let only_told = policy.mode == Mode::Recommend && seen.current.is_some();
    let replicas = if only_told { current } else { to };
    if !only_told && seen.current != Some(to) {
        let change = Change { at: seen.now, from: seen.current.unwrap_or(0), to };
        guard::regret(policy, &mut state, change);
        let gain = terms.as_ref().map_or(0.0, |it| it.capacity_per_second * f64::from(to))
            - state.arrivals.committed();
        let behind = look.group.is_some_and(|group| !group.within_bound);
        state.step = (to > current && behind && gain > 0.0).then(|| Step {
            at: seen.now,
            before_per_second: state.arrivals.committed(),
            predicted_per_second: gain,
        });
        state.changed(change);
    }
    Decision {
        replicas,
        wanted: if only_told { to } else { wanted },
        from: seen.current,
        reason,
        terms,
        hot,
        resources,
        earliest_change: earliest,
        state,
    }
}

/// Capacity, and whether the last growth helped. A pool in transition or held back by its sink
/// shows neither.
fn learn(look: &Look<'_>, state: &mut State) {
    let Some(group) = look.group else { return };
    let now = look.seen.now;
    let pause = look.policy.reaction_seconds + look.policy.pause_seconds;
    let settled = state.memory.last_change.is_none_or(|it| now - it.at >= pause as i64);
    if look.seen.transition != Transition::Settled || look.sink_is_busy() || !settled {
        return;
    }
    state.memory.capacities.learn(&look.seen.capacity_key, group, &look.pods, look.current);
    guard::did_it_help(state, now - pause as i64, !group.within_bound);
}
