//! How many gateways, and why: a pure function. No clock, no I/O.
//!
//! [`decide`] takes what was observed, the policy and what it remembered, and gives the size, the
//! reason and what to remember. It is the first, conservative rule: grow one step after the lag
//! stayed above its bound for a while, shrink one step after there was next to none for long, and
//! hold whenever a signal is missing, old, or a rollout is under way. A missing signal never means
//! zero. Sizes move in steps that lower (or raise) the largest number of partitions a pod reads:
//! with 12 partitions 4 and 5 pods are as fast as each other, so 5 is never chosen.
//!
//! Time is handed in as seconds on the caller's clock. Limits: sizes are at least 1.

mod size;

pub use size::{Bounds, next_larger, next_smaller};

/// What was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Now, in seconds on the caller's clock.
    pub now_seconds: i64,
    /// Pods wanted at the moment; `None` before the pool was ever made.
    pub current: Option<u32>,
    /// Pods that are ready.
    pub ready: u32,
    /// Pods are being replaced or started, so figures are not those of a settled pool.
    pub rollout_under_way: bool,
    /// Partitions of all topics read; `None` when the broker did not tell.
    pub partitions: Option<u32>,
    /// The lag; `None` when the broker did not tell.
    pub lag: Option<Lag>,
}

/// How far the pool is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// Messages not committed yet.
    pub messages: u64,
    /// Whether everything older than the bound is committed.
    pub within_bound: bool,
    /// When it was observed, in seconds on the caller's clock.
    pub observed_seconds: i64,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A size set by a person or another autoscaler: sizing is off.
    pub fixed: Option<u32>,
    /// Fewest pods, at least 1.
    pub min: u32,
    /// Most pods.
    pub max: u32,
    /// Lag must stay above its bound for this long before the pool grows.
    pub grow_after_seconds: i64,
    /// There must be next to no lag for this long before the pool shrinks.
    pub shrink_after_seconds: i64,
    /// After a change of size nothing is changed for this long: the group must settle first.
    pub settle_seconds: i64,
    /// An observation older than this counts as missing.
    pub stale_after_seconds: i64,
}

impl Policy {
    /// A policy with the given bounds and this crate's windows.
    ///
    /// Growing waits one minute (a rebalance costs some seconds of consumption, so it must not
    /// follow every spike), shrinking half an hour (research: minutes up, hours down; a pod too
    /// many for half an hour is cheap), settling three minutes (rebalance plus catching up with
    /// it).
    #[must_use]
    pub fn with_bounds(fixed: Option<u32>, min: u32, max: u32) -> Self {
        Self {
            fixed,
            min: min.max(1),
            max: max.max(1),
            grow_after_seconds: 60,
            shrink_after_seconds: 30 * 60,
            settle_seconds: 180,
            stale_after_seconds: 60,
        }
    }
}

/// What is remembered between decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Since when lag has been above its bound without a break.
    pub above_bound_since: Option<i64>,
    /// Since when there has been next to no lag without a break.
    pub idle_since: Option<i64>,
    /// When the size was last changed.
    pub changed_at: Option<i64>,
}

/// Why the size is what it is. Stable words: they stand in status, metrics and docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The size is set by a person or another autoscaler.
    Fixed,
    /// The pool starts at its smallest size.
    Initial,
    /// The size was outside its bounds and is put inside.
    Bounds,
    /// Lag stayed above its bound: one step larger.
    LagAboveBound,
    /// There was next to no lag for long: one step smaller.
    Idle,
    /// Nothing calls for a change.
    Steady,
    /// Lag is above its bound, but the pool is as large as it may be or as partitions allow.
    AtCeiling,
    /// Held: a change is called for, but its window is not over yet.
    HoldWindow,
    /// Held: the size was changed a short while ago.
    HoldSettling,
    /// Held: pods are being replaced or started.
    HoldRollout,
    /// Held: a signal is missing or old.
    HoldSignalMissing,
}

impl Reason {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "Fixed",
            Self::Initial => "Initial",
            Self::Bounds => "Bounds",
            Self::LagAboveBound => "LagAboveBound",
            Self::Idle => "Idle",
            Self::Steady => "Steady",
            Self::AtCeiling => "AtCeiling",
            Self::HoldWindow => "HoldWindow",
            Self::HoldSettling => "HoldSettling",
            Self::HoldRollout => "HoldRollout",
            Self::HoldSignalMissing => "HoldSignalMissing",
        }
    }
}

/// A decision, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Pods to want.
    pub replicas: u32,
    /// Why.
    pub reason: Reason,
    /// What to remember for the next decision.
    pub state: State,
    /// When a change could come at the earliest, in seconds on the caller's clock, if a window
    /// runs.
    pub earliest_change_seconds: Option<i64>,
}

/// Decides the size of a pool.
#[must_use]
pub fn decide(seen: &Observation, policy: &Policy, last: &State) -> Decision {
    let state = remember(seen, policy, last);
    let hold =
        |replicas, reason| Decision { replicas, reason, state, earliest_change_seconds: None };
    if let Some(fixed) = policy.fixed {
        return hold(fixed.max(1), Reason::Fixed);
    }
    let bounds = Bounds::new(policy.min, policy.max, seen.partitions);
    let Some(current) = seen.current else {
        return changed(seen, bounds.floor, Reason::Initial);
    };
    let clamped = bounds.clamp(current);
    if clamped != current {
        return changed(seen, clamped, Reason::Bounds);
    }
    let (Some(lag), Some(partitions)) = (fresh(seen, policy), seen.partitions) else {
        return hold(current, Reason::HoldSignalMissing);
    };
    let step = if !lag.within_bound {
        match next_larger(current, partitions, bounds) {
            Some(larger) => Step {
                to: larger,
                reason: Reason::LagAboveBound,
                due: state.above_bound_since.map(|since| since + policy.grow_after_seconds),
            },
            None => return hold(current, Reason::AtCeiling),
        }
    } else if let (Some(idle), Some(smaller)) =
        (state.idle_since, next_smaller(current, partitions, bounds))
    {
        Step { to: smaller, reason: Reason::Idle, due: Some(idle + policy.shrink_after_seconds) }
    } else {
        return hold(current, Reason::Steady);
    };
    weigh(seen, policy, state, current, &step)
}

/// A change that is called for, and when its window is over.
struct Step {
    to: u32,
    reason: Reason,
    due: Option<i64>,
}

/// Takes the step, or holds while a rollout, the settling time or the step's window runs.
fn weigh(seen: &Observation, policy: &Policy, state: State, current: u32, step: &Step) -> Decision {
    let now = seen.now_seconds;
    let settled = state.changed_at.map(|at| at + policy.settle_seconds);
    let due = step.due.unwrap_or(now);
    let earliest = settled.map_or(due, |settled| settled.max(due));
    let reason = if seen.rollout_under_way {
        Reason::HoldRollout
    } else if settled.is_some_and(|settled| now < settled) {
        Reason::HoldSettling
    } else if now < due {
        Reason::HoldWindow
    } else {
        return changed(seen, step.to, step.reason);
    };
    Decision { replicas: current, reason, state, earliest_change_seconds: Some(earliest) }
}

/// A decision that changes the size: the windows start again.
fn changed(seen: &Observation, replicas: u32, reason: Reason) -> Decision {
    let state =
        State { above_bound_since: None, idle_since: None, changed_at: Some(seen.now_seconds) };
    Decision { replicas, reason, state, earliest_change_seconds: None }
}

/// The lag, unless it is too old to act on.
fn fresh(seen: &Observation, policy: &Policy) -> Option<Lag> {
    let lag = seen.lag?;
    let age = seen.now_seconds.saturating_sub(lag.observed_seconds);
    (age <= policy.stale_after_seconds).then_some(lag)
}

/// How long the lag has been above its bound, or next to none. A missing signal breaks neither
/// window's history into the other's favour: both start again, so nothing is done for lack of news.
fn remember(seen: &Observation, policy: &Policy, last: &State) -> State {
    let now = seen.now_seconds;
    // A clock that went backwards must not make a window look longer than it was.
    let since = |start: Option<i64>| Some(start.filter(|start| *start <= now).unwrap_or(now));
    let changed_at = last.changed_at.map(|at| at.min(now));
    match fresh(seen, policy) {
        None => State { above_bound_since: None, idle_since: None, changed_at },
        Some(lag) if !lag.within_bound => {
            State { above_bound_since: since(last.above_bound_since), idle_since: None, changed_at }
        }
        Some(lag) if is_idle(lag, seen) => {
            State { above_bound_since: None, idle_since: since(last.idle_since), changed_at }
        }
        Some(_) => State { above_bound_since: None, idle_since: None, changed_at },
    }
}

/// Next to no lag: at most this many messages per partition wait. A message read and not committed
/// yet counts as lag, so a pool that keeps up perfectly still shows a few.
const IDLE_MESSAGES_PER_PARTITION: u64 = 10;

fn is_idle(lag: Lag, seen: &Observation) -> bool {
    let partitions = u64::from(seen.partitions.unwrap_or(0));
    lag.messages <= partitions.saturating_mul(IDLE_MESSAGES_PER_PARTITION)
}
