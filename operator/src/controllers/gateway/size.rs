//! From observations to the sizing decision in the status. Pure.
//!
//! The rule itself is `millrace_autoscale`. What it must not forget is in the status, so that a
//! restarted operator continues; the rest is in memory. Figures in the status change only when they
//! say something new, so that a settled pool is not written again.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use millrace_autoscale as rule;
use millrace_autoscale::{Capacities, Capacity, Change, Memory, Mode, State, Transition};
use millrace_crds::v1alpha1::{
    GatewayPool, HotPartition, LearnedCapacity, SizingSignals, SizingStatus, SizingTerms,
};
use millrace_rollout::{Observation, Verdict, judge};

use super::resources;
use super::validate::Observed;
use crate::cache::sizing::Sizing;
use crate::cluster::{hash_of, is_paused};
use crate::pods::PodRates;
use crate::pool::status::as_i32;

/// Changed figures are written at most this often.
const FIGURES_REFRESH: SignedDuration = SignedDuration::from_secs(60);
/// A figure that moved by less than this share says nothing new.
const FIGURES_SHARE: f64 = 0.2;
/// Nothing shrinks before this part of the window: five minutes of thirty.
const SHRINK_MIN_SHARE: i64 = 6;
/// A pod's figures older than this count as missing: six samples, as in the rule.
pub(super) const STALE_SECONDS: i64 = 60;

/// Decides the size; returns the decision for the status and what to remember. An unchanged
/// decision keeps its old form.
pub(super) fn decide(pool: &GatewayPool, observed: &Observed) -> (SizingStatus, Sizing) {
    let before = pool.status.as_ref().and_then(|status| status.sizing.as_ref());
    let mut kept = observed.kept.clone();
    if let (true, Some(before)) = (is_paused(pool), before) {
        return (before.clone(), kept);
    }
    let last = kept.state.take().unwrap_or_else(|| remembered(before));
    let seen = seen(pool, before, observed);
    let decision = rule::decide(&seen, &policy(pool, observed), &last);
    let mut sizing = sizing_of(&decision, &seen, observed);
    resources::tell(&mut sizing, before, pool, &decision);
    kept.state = Some(decision.state);
    match before {
        Some(before) if says_the_same(before, &sizing) => (before.clone(), kept),
        _ => (sizing, kept),
    }
}

fn policy(pool: &GatewayPool, observed: &Observed) -> rule::Policy {
    let settings = &pool.spec.settings;
    let scaling = &settings.scaling;
    rule::Policy {
        mode: match (settings.replicas, observed.kept.sized_by()) {
            (Some(size), _) => Mode::Fixed(size),
            (None, Some(_)) => Mode::Recommend,
            (None, None) => Mode::Act,
        },
        lag_bound_seconds: f64::from(scaling.lag_bound_seconds),
        catch_up_seconds: f64::from(scaling.catch_up_seconds),
        shrink_after_seconds: i64::from(scaling.shrink_after_seconds),
        shrink_after_min_seconds: i64::from(scaling.shrink_after_seconds) / SHRINK_MIN_SHARE,
        stale_after_seconds: STALE_SECONDS,
        vertical: resources::policy(pool, observed),
        ..rule::Policy::between(scaling.min_replicas, scaling.max_replicas)
    }
}

/// The observation. The present size is the last decided one, since a StatefulSet scaled by hand is
/// drift; unless another autoscaler sizes it.
fn seen(
    pool: &GatewayPool,
    before: Option<&SizingStatus>,
    observed: &Observed,
) -> rule::Observation {
    let figures = observed.figures();
    let live = figures.as_ref().map(|figures| figures.wanted);
    let decided = before.and_then(|before| u32::try_from(before.replicas).ok());
    rule::Observation {
        now: observed.now.as_second(),
        current: if observed.kept.sized_by().is_some() { live } else { decided.or(live) },
        transition: match figures.as_ref().map_or(Transition::Settled, transition) {
            Transition::Settled | Transition::Scaling if observed.migrates => Transition::Migration,
            other => other,
        },
        capacity_key: capacity_key(pool, observed),
        // A lag question without an answer is missing, however recent the last answer.
        group: observed.kept.group().filter(|_| observed.lag.is_ok()),
        pods: observed.kept.pods.pods.clone(),
        sink: observed.kept.pods.sink.clone(),
    }
}

/// Pods added by a change of size are all of the newest revision.
fn transition(figures: &Observation) -> Transition {
    let same_template = figures.updated >= figures.existing
        && figures.observed_generation == Some(figures.generation);
    match judge(figures) {
        Verdict::Complete => Transition::Settled,
        Verdict::Moving(_) if same_template => Transition::Scaling,
        Verdict::Moving(_) | Verdict::Stuck(_) => Transition::Rollout,
    }
}

/// Whether no pod is being replaced, by the StatefulSet's status.
pub(super) fn is_settled(observed: &Observed) -> bool {
    observed.figures().is_some_and(|figures| transition(&figures) != Transition::Rollout)
}

/// What a pod's speed depends on, in one word.
fn capacity_key(pool: &GatewayPool, observed: &Observed) -> String {
    let resources = &pool.spec.settings.resources;
    let (memory, cpu) = (resources.memory.bytes(), resources.cpu.millicores());
    let allocator = pool.spec.collector.allocator;
    let mut text = format!(
        "{}|{allocator:?}|{memory:?}|{cpu:?}|{}",
        observed.draft.image, observed.draft.config
    );
    // Resized pods do more: use the slowest one's resources.
    let pods = &observed.kept.pods.pods;
    let in_force = pods.iter().filter_map(|pod| pod.value.cpu_limit_millicores).min();
    if let Some(limit) = in_force.filter(|limit| Some(*limit) != cpu.1) {
        text.push_str(&format!("|{limit}"));
    }
    hash_of(&text.into())
}

/// The status's memory; windows missing from it start again.
fn remembered(before: Option<&SizingStatus>) -> State {
    let Some(before) = before else { return State::default() };
    let second = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    let last_change = second(&before.changed_at).map(|at| Change {
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
    let memory = Memory {
        capacities: Capacities::restore(capacities.collect()),
        last_change,
        regrets: u32::try_from(before.regrets).unwrap_or(0),
        back_off_until: second(&before.back_off_until),
        vertical: resources::remembered(before),
        ..Memory::default()
    };
    State {
        over_since: second(&before.more_needed_since),
        idle_since: second(&before.idle_since),
        ..State::remembering(memory)
    }
}

fn sizing_of(
    decision: &rule::Decision,
    seen: &rule::Observation,
    observed: &Observed,
) -> SizingStatus {
    let time = |second: Option<i64>| second.and_then(at);
    let State { memory, over_since, idle_since, .. } = &decision.state;
    let partitions = seen.group.as_ref().map(|group| group.value.partitions.len());
    SizingStatus {
        replicas: as_i32(decision.replicas),
        wanted: as_i32(decision.wanted),
        reason: decision.reason.as_str().to_owned(),
        message: message(decision, observed),
        decided_at: at(observed.now.as_second()).unwrap_or(Time(observed.now)),
        earliest_change_at: time(decision.earliest_change),
        partitions: partitions.map(|count| i32::try_from(count).unwrap_or(i32::MAX)),
        sized_by: observed.kept.sized_by().map(ToOwned::to_owned),
        memory_limit: None,
        memory_request: None,
        cpu_limit: None,
        cpu_request: None,
        resources_reason: None,
        resize: None,
        signals: signals(observed),
        terms: decision.terms.as_ref().map(terms_of),
        hot_partition: decision.hot.as_ref().and_then(|hot| hot_of(hot, observed)),
        more_needed_since: time(*over_since),
        idle_since: time(*idle_since),
        changed_at: time(memory.last_change.map(|change| change.at)),
        changed_from: memory.last_change.map(|change| as_i32(change.from)),
        regrets: as_i32(memory.regrets),
        back_off_until: time(memory.back_off_until),
        capacities: memory.capacities.known().iter().map(learned).collect(),
    }
}

/// The pods' figures in whole percents; `None` when none was asked.
fn signals(observed: &Observed) -> Option<SizingSignals> {
    let PodRates { pods, sink, listed, metered, .. } = &observed.kept.pods;
    let percent = |share: f64| (share * 100.0).round() as i32;
    let most = |shares: &mut dyn Iterator<Item = f64>| shares.reduce(f64::max).map(percent);
    let now = observed.now.as_second();
    let told = pods.iter().filter_map(|pod| pod.fresh(now, STALE_SECONDS));
    let by_metrics = told.clone().filter(|pod| metered.contains(&pod.ordinal)).count();
    let memory = |pod: &rule::Pod| Some(pod.memory_bytes? as f64 / pod.memory_limit_bytes? as f64);
    (*listed > 0).then(|| SizingSignals {
        pods: i32::try_from(*listed).unwrap_or(i32::MAX),
        pods_told: i32::try_from(told.clone().count() - by_metrics).unwrap_or(i32::MAX),
        pods_metered: i32::try_from(by_metrics).ok().filter(|count| *count > 0),
        memory_percent: most(&mut told.clone().filter_map(memory)),
        cpu_percent: most(&mut told.clone().filter_map(|pod| pod.busy)),
        cpu_millicores: told
            .filter_map(|pod| pod.cpu_millicores)
            .reduce(f64::max)
            .map(|used| used.round() as i32),
        sink_refused_percent: sink
            .as_ref()
            .and_then(|sink| sink.fresh(now, STALE_SECONDS))
            .map(|sink| percent(sink.pressure)),
    })
}

fn terms_of(terms: &rule::Terms) -> SizingTerms {
    let whole = |rate: f64| rate.round() as i64;
    SizingTerms {
        arrival_per_second: whole(terms.arrival_per_second),
        expected_per_second: whole(terms.expected_per_second),
        backlog_messages: whole(terms.backlog_messages),
        backlog_per_second: whole(terms.backlog_per_second),
        pause_per_second: whole(terms.pause_per_second),
        needed_per_second: whole(terms.needed_per_second),
        capacity_per_second: whole(terms.capacity_per_second),
        capacity_measured: terms.capacity_measured,
        hottest_per_second: whole(terms.hottest_per_second),
        size_needed: as_i32(terms.size_needed),
    }
}

fn hot_of(hot: &rule::HotPartition, observed: &Observed) -> Option<HotPartition> {
    let which = observed.lag.as_ref().ok()?.offsets.get(hot.index)?;
    Some(HotPartition {
        topic: which.topic.clone(),
        partition: which.partition,
        arrival_per_second: hot.arrival_per_second.round() as i64,
        partitions_advised: as_i32(hot.partitions_advised),
    })
}

fn learned((key, capacity): &(String, Capacity)) -> LearnedCapacity {
    LearnedCapacity {
        key: key.clone(),
        // Never rounded to zero: a pod with few messages has a capacity too.
        messages_per_second: (capacity.messages_per_second.round() as i64).max(1),
        samples: as_i32(capacity.samples),
    }
}

fn at(second: i64) -> Option<Time> {
    Timestamp::from_second(second).ok().map(Time)
}

/// Whether a decision says nothing new. Reasons to wait that alternate with noise count as equal;
/// figures count if they changed and the last ones are old.
fn says_the_same(before: &SizingStatus, now: &SizingStatus) -> bool {
    let age = now.decided_at.0.duration_since(before.decided_at.0);
    let young = age >= SignedDuration::ZERO && age < FIGURES_REFRESH;
    let same = before.replicas == now.replicas
        && before.partitions == now.partitions
        && before.changed_at == now.changed_at
        && before.back_off_until == now.back_off_until
        && before.sized_by == now.sized_by
        && resources::same(before, now)
        && before.regrets == now.regrets;
    if !same {
        return false;
    }
    let same_words = before.reason == now.reason
        && before.wanted == now.wanted
        && before.more_needed_since == now.more_needed_since
        && before.idle_since == now.idle_since;
    if young {
        return before.reason == now.reason || (waits(&before.reason) && waits(&now.reason));
    }
    same_words
        && before.hot_partition.is_some() == now.hot_partition.is_some()
        && answers(before) == answers(now)
        && near(&figures(before), &figures(now))
}

/// Reasons to keep the size that come and go with noise.
fn waits(reason: &str) -> bool {
    [rule::Reason::Steady, rule::Reason::HoldWindow, rule::Reason::HoldSettling]
        .iter()
        .any(|calm| calm.as_str() == reason)
}

/// How many pods there are, and how many are known. A pool without load has no other figure:
/// without these its status would say for ever that no pod answers, as when it was made.
fn answers(sizing: &SizingStatus) -> Option<(i32, i32, Option<i32>)> {
    sizing.signals.as_ref().map(|it| (it.pods, it.pods_told, it.pods_metered))
}

fn figures(sizing: &SizingStatus) -> Vec<i64> {
    let terms = sizing.terms.iter().flat_map(|it| {
        [it.arrival_per_second, it.backlog_messages, it.needed_per_second, it.capacity_per_second]
    });
    terms.chain(sizing.capacities.iter().map(|it| it.messages_per_second)).collect()
}

fn near(before: &[i64], now: &[i64]) -> bool {
    let close = |(a, b): (&i64, &i64)| {
        let most = a.unsigned_abs().max(b.unsigned_abs()) as f64;
        a.abs_diff(*b) as f64 <= most * FIGURES_SHARE
    };
    before.len() == now.len() && before.iter().zip(now).all(close)
}

fn message(decision: &rule::Decision, observed: &Observed) -> String {
    let lag = match &observed.lag {
        Ok(lag) => format!(
            "{} messages waiting in {} partitions, {} the bound of {} s",
            lag.messages,
            lag.partitions,
            if lag.within_bound { "within" } else { "above" },
            observed.lag_query.bound.as_secs()
        ),
        Err(_) => "lag unknown".to_owned(),
    };
    let earliest = decision
        .earliest_change
        .and_then(at)
        .map_or_else(String::new, |time| format!("; earliest change {}", time.0));
    let only_told = observed
        .kept
        .sized_by()
        .map_or_else(String::new, |scaler| format!("only recommended, {scaler} sets the size: "));
    let pods = signals(observed).map_or_else(String::new, |it| pods_text(&it));
    let resources = resources::text(decision);
    format!("{only_told}{decision}; {lag}{pods}{resources}{earliest}")
}

fn pods_text(signals: &SizingSignals) -> String {
    let SizingSignals {
        pods,
        pods_told,
        pods_metered,
        memory_percent,
        cpu_percent,
        sink_refused_percent,
        ..
    } = signals;
    let figure = |what: &str, percent: &Option<i32>| {
        percent.map_or_else(String::new, |percent| format!(", {what} {percent} %"))
    };
    let metered = pods_metered
        .map_or_else(String::new, |count| format!(", {count} known by the metrics API"));
    format!(
        "; {pods_told} of {pods} pods told{metered}{}{}{}",
        figure("most memory", memory_percent),
        figure("most processor time", cpu_percent),
        figure("inserts refused", sink_refused_percent)
    )
}
