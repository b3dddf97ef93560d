//! The stages of a rollout and the steps between them: (last state, observation, policy) -> (state,
//! plan). No clock: the observation has the time. No I/O.
//!
//! Pods of a StatefulSet are replaced from the highest ordinal down; the plan has their number. A
//! step never lets more pods have the new unit while any check fails, and a unit that was rolled
//! back stays out until the spec changes. Trouble of the nodes or the broker rolls nothing back:
//! the rollout waits and reports it. Limits: sees the pods that the caller gives; a unit that only
//! gets worse after its last step is not rolled back.

use crate::fault::{Fault, FaultKind, Member};
use crate::pod::Trouble;
use crate::trial::{Judgement, Load, compare, reads_nothing};
use crate::unit::Unit;

/// How often the time of judging is put in front of too few records before they must do.
pub const EXTENSIONS_MAX: i64 = 3;
/// How long each step of promoting is watched before the next, in seconds: a pod that fails under
/// its partitions' load does so within its first batches, which are some seconds old at most.
pub const STEP_SECONDS: i64 = 30;
/// How long it may take until pods of the new unit exist, in seconds: the longest drain (600), what
/// the kubelet waits beyond it, and some minutes for a slow control plane.
const MADE_SECONDS_MAX: i64 = 900;

/// What is to be seen to where not only new pods aren't ready.
const ELSEWHERE: &str = "nor are most of the others, or the broker doesn't answer: see to Kafka";

/// What the user asks of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Go on.
    #[default]
    Go,
    /// Stay where it is.
    Pause,
    /// Take it back.
    Abort,
}

/// How changes are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Pods that get a change first and are judged; `None`: all, one after another, not judged.
    pub canary: Option<Canary>,
    /// Take a unit back by oneself; else stop and wait for a person.
    pub rolls_back: bool,
}

/// How a canary is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Pods, 1 at least.
    pub pods: u32,
    /// How long they are watched, in seconds.
    pub judge_seconds: i64,
}

/// What must come before the first pod changes: the tables, and a try with the unit's own image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum First {
    /// It has not come yet.
    #[default]
    Waits,
    /// It has come.
    Done,
    /// It showed that the unit can't run.
    Failed(Fault),
}

/// What is seen at one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// The time, in seconds.
    pub now: i64,
    /// The unit asked for.
    pub wanted: Unit,
    /// What tells one thing asked for from another: any change is another try.
    pub key: String,
    /// The unit that ran before there was a state; `None` for a new pool.
    pub running: Option<Unit>,
    /// What the user asks.
    pub wish: Wish,
    /// How what must come first stands.
    pub first: First,
    /// Pods there are to be.
    pub size: u32,
    /// What was last written has been taken up by the workload's controller.
    pub taken_up: bool,
    /// All pods are of the newest template and available.
    pub complete: bool,
    /// The pods.
    pub members: Vec<Member>,
    /// A pod that should have ended long ago, and why it hasn't; another can't be made before.
    pub stays: Option<Fault>,
    /// The broker doesn't answer the operator either, by settings that old pods have too.
    pub broker_away: bool,
    /// What the pods of the new unit did since they are watched.
    pub new_loads: Vec<Load>,
    /// What the pods of the old one did in that time, or before if there are none left.
    pub old_loads: Vec<Load>,
}

/// How far a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Not begun: something must come first.
    Waiting,
    /// The first pods get it.
    Canary,
    /// They are watched.
    Judging,
    /// So many pods may have it.
    Promoting {
        /// Pods, from the highest ordinal down.
        pods: u32,
    },
}

/// Why a unit was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is not good enough.
    Failed(Fault),
    /// The user asked for it.
    Aborted,
}

/// The stage of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is under way: `after` is what all pods run, or come to run.
    Stable,
    /// Pods are brought from `before` to `after`.
    Moving(Point),
    /// The same, held by the user.
    Paused(Point),
    /// All pods are brought back to `before`.
    Returning(Cause),
    /// All pods are back at `before`; `after` is not tried again.
    Returned(Cause),
}

/// What a rollout remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The stage.
    pub stage: Stage,
    /// Since when, in seconds.
    pub since: i64,
    /// What is gone back to.
    pub before: Option<Unit>,
    /// What is on its way, or runs.
    pub after: Unit,
    /// What was asked for, to tell a change.
    pub key: String,
    /// Tries since all pods last ran one unit.
    pub attempts: u32,
}

/// Which template the workload holds, and how many pods may run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// What is asked for, in all pods.
    Whole,
    /// What is asked for, in so many pods from the highest ordinal down.
    Split {
        /// Pods.
        pods: u32,
    },
    /// What ran before, in all pods.
    Old,
}

/// What a look leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What to remember.
    pub state: State,
    /// What to write.
    pub plan: Plan,
    /// What speaks against the new unit while nothing is done about it.
    pub held: Option<Fault>,
    /// What keeps the change, or the way back, from going on, and isn't the new unit's: a person
    /// must see to it.
    pub waits: Option<Fault>,
    /// What judging came to, when it was done at this look.
    pub judgement: Option<Judgement>,
}

/// Decides what a look leads to.
#[must_use]
pub fn step(last: Option<&State>, seen: &Seen, policy: &Policy) -> Step {
    let mut held = None;
    let mut judgement = None;
    let state = match whence(last, seen) {
        Whence::Stable => stable(last, seen),
        Whence::Begin { before, attempts } => {
            let stage = match seen.wish {
                Wish::Go => Stage::Moving(Point::Waiting),
                Wish::Pause => Stage::Paused(Point::Waiting),
                Wish::Abort => Stage::Returned(Cause::Aborted),
            };
            let mut state = State {
                stage,
                since: seen.now,
                before: Some(before),
                after: seen.wanted.clone(),
                key: seen.key.clone(),
                attempts,
            };
            if state.stage == Stage::Moving(Point::Waiting) {
                (state.stage, held) = begin(seen, policy);
            }
            state
        }
        Whence::GoOn(state) => {
            let (stage, fault) = go_on(state, seen, policy, &mut judgement);
            held = fault;
            let begins = stage != state.stage || waits_for_room(state, seen);
            let since = if begins { seen.now } else { state.since };
            State { stage, since, ..state.clone() }
        }
    };
    let waits = waits(last, &state, seen);
    Step { plan: plan(&state, seen, policy), state, held, waits, judgement }
}

/// What keeps pods from becoming what they are to be, in a stage that has waited for them before.
fn waits(last: Option<&State>, state: &State, seen: &Seen) -> Option<Fault> {
    let moves = match state.stage {
        Stage::Moving(point) => point != Point::Waiting,
        Stage::Returning(_) => false,
        Stage::Stable | Stage::Paused(_) | Stage::Returned(_) => return None,
    };
    // Before that, the newest template is another one.
    if !seen.taken_up || last.is_none_or(|last| last.stage != state.stage) {
        return seen.stays.clone();
    }
    let fault = |member: &Member| {
        let fault = member.fault()?;
        let is_elsewhere = moves && member.figures.trouble().is_none() && is_elsewhere(seen);
        Some(match fault.kind {
            FaultKind::PodsNotReady if is_elsewhere => {
                Fault::new(fault.kind, format!("{}; {ELSEWHERE}", fault.text))
            }
            _ => fault,
        })
    };
    seen.stays.clone().or_else(|| updated(seen).find_map(fault))
}

fn updated(seen: &Seen) -> impl Iterator<Item = &Member> {
    seen.members.iter().filter(|member| member.updated)
}

/// Whether that pods of the new unit aren't ready says nothing about it: most of the others aren't
/// either or, where there are none, the broker is away.
fn is_elsewhere(seen: &Seen) -> bool {
    let mut old = seen.members.iter().filter(|member| !member.updated).peekable();
    if old.peek().is_none() {
        return seen.broker_away;
    }
    let (ready, not): (Vec<_>, Vec<_>) = old.partition(|member| member.ready);
    ready.len() <= not.len()
}

/// Whether a fault speaks against the new unit: what nodes and brokers are in trouble with doesn't.
fn is_the_units(member: &Member, fault: &Fault, seen: &Seen) -> bool {
    let is_the_clusters = member.figures.trouble().is_some_and(Trouble::is_the_clusters);
    let of_others = fault.kind == FaultKind::PodsNotReady && is_elsewhere(seen);
    match fault.kind {
        FaultKind::PodsNotReady | FaultKind::PodUnschedulable => !is_the_clusters && !of_others,
        _ => true,
    }
}

enum Whence<'a> {
    Stable,
    Begin { before: Unit, attempts: u32 },
    GoOn(&'a State),
}

/// Whether the first pods can't be made before another has ended: the time for that begins anew,
/// and isn't nearly over when there is room.
fn waits_for_room(state: &State, seen: &Seen) -> bool {
    let elapsed = seen.now.saturating_sub(state.since);
    let is_first = state.stage == Stage::Moving(Point::Canary);
    is_first && seen.stays.is_some() && elapsed >= MADE_SECONDS_MAX / 2
}

/// Whether there is something to roll out, and from what.
fn whence<'a>(last: Option<&'a State>, seen: &Seen) -> Whence<'a> {
    let Some(last) = last else {
        return match &seen.running {
            Some(running) if !running.runs_as(&seen.wanted) => {
                Whence::Begin { before: running.clone(), attempts: 1 }
            }
            _ => Whence::Stable,
        };
    };
    let (before, attempts) = match (&last.stage, &last.before) {
        (Stage::Stable, _) | (_, None) => (&last.after, 1),
        (_, Some(before)) => (before, last.attempts.saturating_add(1)),
    };
    if before.runs_as(&seen.wanted) {
        // Nothing differs, or what was on its way is no longer asked for.
        return Whence::Stable;
    }
    match last.stage {
        Stage::Stable => Whence::Begin { before: before.clone(), attempts },
        _ if last.before.is_none() || last.key != seen.key => {
            Whence::Begin { before: before.clone(), attempts }
        }
        _ => Whence::GoOn(last),
    }
}

/// All pods are to run what is asked for. Says what it said before if that still holds.
fn stable(last: Option<&State>, seen: &Seen) -> State {
    match last {
        Some(last) if last.stage == Stage::Stable => {
            State { key: seen.key.clone(), ..last.clone() }
        }
        _ => State {
            stage: Stage::Stable,
            since: seen.now,
            before: None,
            after: seen.wanted.clone(),
            key: seen.key.clone(),
            attempts: 0,
        },
    }
}

/// The stage of a change that may begin, and what speaks against it if it stays where it is. A unit
/// that failed before any pod had it needs no bringing back.
fn begin(seen: &Seen, policy: &Policy) -> (Stage, Option<Fault>) {
    match &seen.first {
        First::Waits => (Stage::Moving(Point::Waiting), None),
        First::Done => (Stage::Moving(first_point(seen, policy)), None),
        First::Failed(fault) if policy.rolls_back => {
            (Stage::Returned(Cause::Failed(fault.clone())), None)
        }
        First::Failed(fault) => (Stage::Moving(Point::Waiting), Some(fault.clone())),
    }
}

fn first_point(seen: &Seen, policy: &Policy) -> Point {
    match policy.canary {
        Some(_) => Point::Canary,
        None => Point::Promoting { pods: seen.size.max(1) },
    }
}

/// The next stage of a change that is under way, and what speaks against it if nothing is done.
fn go_on(
    state: &State,
    seen: &Seen,
    policy: &Policy,
    judgement: &mut Option<Judgement>,
) -> (Stage, Option<Fault>) {
    let stays = || (state.stage.clone(), None);
    match (&state.stage, seen.wish) {
        (Stage::Stable | Stage::Returned(_), _) => stays(),
        (Stage::Returning(cause), _) => {
            let back = seen.taken_up && seen.complete;
            if back { (Stage::Returned(cause.clone()), None) } else { stays() }
        }
        (Stage::Moving(Point::Waiting) | Stage::Paused(Point::Waiting), Wish::Abort) => {
            (Stage::Returned(Cause::Aborted), None)
        }
        (Stage::Moving(_) | Stage::Paused(_), Wish::Abort) => {
            (Stage::Returning(Cause::Aborted), None)
        }
        (Stage::Moving(point) | Stage::Paused(point), Wish::Pause) => (Stage::Paused(*point), None),
        // What went on while it was held counts for nothing: the point's time begins anew.
        (Stage::Paused(point), Wish::Go) => (Stage::Moving(*point), None),
        (Stage::Moving(Point::Waiting), Wish::Go) => begin(seen, policy),
        (Stage::Moving(point), Wish::Go) => match advance(*point, state.since, seen, policy) {
            Advance::To(stage) => (stage, None),
            Advance::Judged(stage, verdict) => {
                *judgement = Some(verdict);
                (stage, None)
            }
            Advance::Fails(fault, verdict) => {
                *judgement = verdict;
                match policy.rolls_back {
                    true => (Stage::Returning(Cause::Failed(fault)), None),
                    false => (state.stage.clone(), Some(fault)),
                }
            }
        },
    }
}

enum Advance {
    To(Stage),
    Judged(Stage, Judgement),
    Fails(Fault, Option<Judgement>),
}

fn advance(point: Point, since: i64, seen: &Seen, policy: &Policy) -> Advance {
    let stay = Advance::To(Stage::Moving(point));
    let to = |point| Advance::To(Stage::Moving(point));
    // Figures from before the newest template was taken up are about other pods.
    if !seen.taken_up {
        return stay;
    }
    let elapsed = seen.now.saturating_sub(since);
    let asked = pods_of(point, seen, policy);
    let updated: Vec<&Member> = updated(seen).collect();
    let faults = updated.iter().filter_map(|member| Some((*member, member.fault()?)));
    let faults: Vec<(&Member, Fault)> = faults.collect();
    if let Some((_, fault)) = faults.iter().find(|(it, fault)| is_the_units(it, fault, seen)) {
        return Advance::Fails(fault.clone(), None);
    }
    if !faults.is_empty() {
        return stay;
    }
    let ready = updated.iter().filter(|member| member.ready).count();
    let ready = u32::try_from(ready).unwrap_or(u32::MAX);
    match point {
        Point::Waiting => stay,
        Point::Canary if ready >= asked => to(Point::Judging),
        // Nothing can be made in the place of a pod that doesn't end.
        Point::Canary if seen.stays.is_some() => stay,
        Point::Canary if updated.is_empty() && elapsed >= MADE_SECONDS_MAX => {
            let text = format!("no pod of the new unit was made within {MADE_SECONDS_MAX} s");
            Advance::Fails(Fault::new(FaultKind::PodsRefused, text), None)
        }
        Point::Canary => stay,
        // Who is not there is not judged; a pod that stays away is a fault of its own.
        Point::Judging if ready < asked => stay,
        Point::Judging => judging(asked, elapsed, seen, policy),
        Point::Promoting { .. } if asked >= seen.size => {
            if seen.complete {
                Advance::To(Stage::Stable)
            } else {
                stay
            }
        }
        Point::Promoting { .. } if ready < asked || elapsed < STEP_SECONDS => stay,
        Point::Promoting { .. } => match compare(&seen.new_loads, &seen.old_loads) {
            Judgement::Failed(fault) => {
                Advance::Fails(fault.clone(), Some(Judgement::Failed(fault)))
            }
            Judgement::Passed | Judgement::TooFew { .. } => to(next_step(asked, seen.size)),
        },
    }
}

fn judging(asked: u32, elapsed: i64, seen: &Seen, policy: &Policy) -> Advance {
    let seconds = policy.canary.map_or(0, |canary| canary.judge_seconds);
    let stays = Stage::Moving(Point::Judging);
    if elapsed < seconds {
        return Advance::To(stays);
    }
    let promoting = Stage::Moving(next_step(asked, seen.size));
    let judgement = compare(&seen.new_loads, &seen.old_loads);
    match judgement {
        Judgement::Failed(fault) => Advance::Fails(fault.clone(), Some(Judgement::Failed(fault))),
        Judgement::Passed => Advance::Judged(promoting, judgement),
        Judgement::TooFew { .. } if elapsed < seconds.saturating_mul(EXTENSIONS_MAX) => {
            Advance::To(stays)
        }
        Judgement::TooFew { .. } => match reads_nothing(&seen.new_loads, &seen.old_loads) {
            Some(fault) => Advance::Fails(fault.clone(), Some(Judgement::Failed(fault))),
            None => Advance::Judged(promoting, judgement),
        },
    }
}

/// Twice as many pods at each step: a large pool takes few steps, and never half of it untried.
fn next_step(pods: u32, size: u32) -> Point {
    Point::Promoting { pods: pods.saturating_mul(2).clamp(1, size.max(1)) }
}

/// Pods that may have the new unit at this point.
fn pods_of(point: Point, seen: &Seen, policy: &Policy) -> u32 {
    let size = seen.size.max(1);
    match point {
        Point::Waiting => 0,
        Point::Canary | Point::Judging => policy.canary.map_or(1, |it| it.pods).clamp(1, size),
        Point::Promoting { pods } => pods.clamp(1, size),
    }
}

fn plan(state: &State, seen: &Seen, policy: &Policy) -> Plan {
    match &state.stage {
        Stage::Stable => Plan::Whole,
        Stage::Moving(Point::Waiting) | Stage::Paused(Point::Waiting) => Plan::Old,
        Stage::Moving(point) | Stage::Paused(point) => {
            Plan::Split { pods: pods_of(*point, seen, policy) }
        }
        Stage::Returning(_) | Stage::Returned(_) => Plan::Old,
    }
}
