//! The stages of a rollout and the steps between them: (last state, observation, policy) -> (state,
//! plan). No clock: the observation has the time. No I/O.
//!
//! Pods of a StatefulSet are replaced from the highest ordinal down; the plan has their number. A
//! step never gives more pods the new unit while any check fails, and a unit that was rolled back
//! is not tried again until the spec changes. Trouble of the nodes or the broker rolls nothing
//! back: the rollout waits and reports it. Limits: the machine knows only the pods that the caller
//! passes; a unit that degrades only after its last step is not rolled back.

use crate::canary_analysis::{CanaryVerdict, LoadFigures, compare_loads, reads_nothing};
use crate::fault::{FaultKind, Member, UnitFault};
use crate::pod::Trouble;
use crate::unit::Unit;

/// How often the analysis is extended for lack of records before it decides with those it has.
pub const EXTENSIONS_MAX: i64 = 3;
/// How long each promotion step is watched before the next, in seconds: a pod that fails under its
/// partitions' load does so within its first batches, which are some seconds old at most.
pub const STEP_SECONDS: i64 = 30;
/// How long pods of the new unit may take to appear, in seconds: the longest drain (600), what the
/// kubelet waits beyond it, and some minutes for a slow control plane.
const MADE_SECONDS_MAX: i64 = 900;

/// What the user has to check when pods of both units aren't ready.
const ELSEWHERE: &str = "most other pods are not ready either, or the broker does not answer: \
                         check Kafka";

/// What the user wants of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Continue.
    #[default]
    Continue,
    /// Stay at the current point.
    Pause,
    /// Roll back.
    Abort,
}

/// How changes are rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutPolicy {
    /// The canary; `None` replaces all pods one after another, without an analysis.
    pub canary: Option<Canary>,
    /// Whether a failed unit is rolled back automatically; else the rollout stops and waits for a
    /// person.
    pub rolls_back: bool,
}

/// How a canary is analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canary {
    /// The number of pods, at least 1.
    pub pods: u32,
    /// How long the pods are watched, in seconds.
    pub analysis_seconds: i64,
}

/// What must be done before the first pod changes: migrating the tables, and a trial with the
/// unit's own image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// It is not done yet.
    #[default]
    Waits,
    /// It is done.
    Done,
    /// It showed that the unit cannot run.
    Failed(UnitFault),
}

/// What the caller observed in one reconcile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutObservation {
    /// The time, in seconds.
    pub now: i64,
    /// The declared unit.
    pub declared: Unit,
    /// Identifies the declared spec: another key is another attempt.
    pub key: String,
    /// The unit that ran before a state existed; `None` for a new pool.
    pub running: Option<Unit>,
    /// What the user wants.
    pub wish: Wish,
    /// The progress of the precondition.
    pub first: Precondition,
    /// The declared number of pods.
    pub size: u32,
    /// The workload's controller has acted on the last written spec.
    pub is_spec_observed: bool,
    /// All pods have the newest template and are available.
    pub complete: bool,
    /// How many pods, from the highest ordinal down, the last written spec lets have the newest
    /// template.
    pub allowed: u32,
    /// The pods.
    pub members: Vec<Member>,
    /// Why a pod that should have ended long ago still exists; no other can be created before it
    /// ends.
    pub stays: Option<UnitFault>,
    /// The broker does not answer the operator either, with settings that old pods have too.
    pub broker_away: bool,
    /// The loads of the new unit's pods since the analysis began.
    pub new_loads: Vec<LoadFigures>,
    /// The loads of the old unit's pods in that time, or earlier when none are left.
    pub old_loads: Vec<LoadFigures>,
}

/// How far a change has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutProgress {
    /// Not begun: the precondition is not done.
    Waiting,
    /// The first pods get the new unit.
    Canary,
    /// The first pods are watched.
    Analyzing,
    /// A growing number of pods gets the new unit.
    Promoting {
        /// The number of pods, from the highest ordinal down.
        pods: u32,
    },
}

/// Why a unit was rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A check failed.
    Failed(UnitFault),
    /// The user aborted the rollout.
    Aborted,
}

/// The stage of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No change is under way: all pods run `after`, or are about to.
    Stable,
    /// Pods change from `before` to `after`.
    Moving(RolloutProgress),
    /// The same, paused by the user.
    Paused(RolloutProgress),
    /// All pods return to `before`.
    RollingBack(Cause),
    /// All pods run `before` again; `after` is not tried again.
    RolledBack(Cause),
}

/// The stored state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutState {
    /// The stage.
    pub stage: Stage,
    /// When the stage began, in seconds.
    pub since: i64,
    /// The unit that a rollback restores.
    pub before: Option<Unit>,
    /// The unit that is rolled out, or runs.
    pub after: Unit,
    /// The key of the declared spec, to detect a change.
    pub key: String,
    /// Attempts since all pods last ran one unit.
    pub attempts: u32,
}

/// Which template the workload holds, and how many pods may run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutPlan {
    /// The declared template, for all pods.
    All,
    /// The declared template, for `pods` pods from the highest ordinal down.
    Split {
        /// The number of pods.
        pods: u32,
    },
    /// The template that ran before, for all pods.
    Previous,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStep {
    /// The state to store.
    pub state: RolloutState,
    /// The plan to write.
    pub plan: RolloutPlan,
    /// The fault of the new unit, when the policy does not roll it back.
    pub held: Option<UnitFault>,
    /// The fault that blocks the change or the rollback and isn't the new unit's: a person must fix
    /// it.
    pub waits: Option<UnitFault>,
    /// The verdict of the analysis, when this step ended it.
    pub judgement: Option<CanaryVerdict>,
}

/// Computes the next state and plan.
#[must_use]
pub fn step_rollout(
    last: Option<&RolloutState>,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> RolloutStep {
    let mut held = None;
    let mut judgement = None;
    let state = match rollout_origin(last, observation) {
        RolloutOrigin::Stable => stable_state(last, observation),
        RolloutOrigin::Begin { before, attempts } => {
            let stage = match observation.wish {
                Wish::Continue => Stage::Moving(RolloutProgress::Waiting),
                Wish::Pause => Stage::Paused(RolloutProgress::Waiting),
                Wish::Abort => Stage::RolledBack(Cause::Aborted),
            };
            let mut state = RolloutState {
                stage,
                since: observation.now,
                before: Some(before),
                after: observation.declared.clone(),
                key: observation.key.clone(),
                attempts,
            };
            if state.stage == Stage::Moving(RolloutProgress::Waiting) {
                (state.stage, held) = begin_change(observation, policy);
            }
            state
        }
        RolloutOrigin::Continue(state) => {
            let (stage, fault) = continue_rollout(state, observation, policy, &mut judgement);
            held = fault;
            let begins = stage != state.stage || waits_for_termination(state, observation);
            let since = if begins { observation.now } else { state.since };
            RolloutState { stage, since, ..state.clone() }
        }
    };
    let waits = waiting_fault(last, &state, observation);
    // A rollback is written once its stage is stored. Whoever decides again from the older state
    // would find the previous template in the workload, and write the failed one again.
    let is_back = |state: &RolloutState| matches!(state.stage, Stage::RollingBack(_));
    let stored = last.filter(|last| is_back(&state) && !is_back(last)).unwrap_or(&state);
    RolloutStep { plan: template_plan(stored, observation, policy), state, held, waits, judgement }
}

/// Returns what blocks the pods, in a stage that has waited for them before.
fn waiting_fault(
    last: Option<&RolloutState>,
    state: &RolloutState,
    observation: &RolloutObservation,
) -> Option<UnitFault> {
    let moves = match state.stage {
        Stage::Moving(point) => point != RolloutProgress::Waiting,
        Stage::RollingBack(_) => false,
        Stage::Stable | Stage::Paused(_) | Stage::RolledBack(_) => return None,
    };
    // Until the controller has acted, the newest template is another one.
    if !observation.is_spec_observed || last.is_none_or(|last| last.stage != state.stage) {
        return observation.stays.clone();
    }
    let fault = |member: &Member| {
        let fault = member.find_fault()?;
        let is_elsewhere =
            moves && member.figures.find_trouble().is_none() && is_elsewhere(observation);
        Some(match fault.kind {
            FaultKind::PodsNotReady if is_elsewhere => {
                UnitFault::new(fault.kind, format!("{}; {ELSEWHERE}", fault.text))
            }
            _ => fault,
        })
    };
    observation.stays.clone().or_else(|| updated_members(observation).find_map(fault))
}

fn updated_members(observation: &RolloutObservation) -> impl Iterator<Item = &Member> {
    observation.members.iter().filter(|member| member.updated)
}

/// Returns whether unready pods of the new unit prove nothing about it: most of the others aren't
/// ready either or, without others, the broker is away.
fn is_elsewhere(observation: &RolloutObservation) -> bool {
    let mut old = observation.members.iter().filter(|member| !member.updated).peekable();
    if old.peek().is_none() {
        return observation.broker_away;
    }
    let (ready, not): (Vec<_>, Vec<_>) = old.partition(|member| member.ready);
    ready.len() <= not.len()
}

/// Returns whether the new unit causes a fault; trouble of nodes and brokers does not count.
fn is_the_units(member: &Member, fault: &UnitFault, observation: &RolloutObservation) -> bool {
    let is_the_clusters = member.figures.find_trouble().is_some_and(Trouble::is_the_clusters);
    let of_others = fault.kind == FaultKind::PodsNotReady && is_elsewhere(observation);
    match fault.kind {
        FaultKind::PodsNotReady | FaultKind::PodUnschedulable => !is_the_clusters && !of_others,
        _ => true,
    }
}

enum RolloutOrigin<'a> {
    Stable,
    Begin { before: Unit, attempts: u32 },
    Continue(&'a RolloutState),
}

/// Returns whether the first pods can't be created until another ends. Their time then starts
/// again, so that it isn't nearly over when a slot is free.
fn waits_for_termination(state: &RolloutState, observation: &RolloutObservation) -> bool {
    let elapsed = observation.now.saturating_sub(state.since);
    let is_first = state.stage == Stage::Moving(RolloutProgress::Canary);
    is_first && observation.stays.is_some() && elapsed >= MADE_SECONDS_MAX / 2
}

/// Returns whether there is a change to roll out, and from which unit.
fn rollout_origin<'a>(
    last: Option<&'a RolloutState>,
    observation: &RolloutObservation,
) -> RolloutOrigin<'a> {
    let Some(last) = last else {
        return match &observation.running {
            Some(running) if !running.runs_as(&observation.declared) => {
                RolloutOrigin::Begin { before: running.clone(), attempts: 1 }
            }
            _ => RolloutOrigin::Stable,
        };
    };
    let (before, attempts) = match (&last.stage, &last.before) {
        (Stage::Stable, _) | (_, None) => (&last.after, 1),
        (_, Some(before)) => (before, last.attempts.saturating_add(1)),
    };
    if before.runs_as(&observation.declared) {
        // Nothing differs, or the unit that was being rolled out is no longer declared.
        return RolloutOrigin::Stable;
    }
    match last.stage {
        Stage::Stable => RolloutOrigin::Begin { before: before.clone(), attempts },
        _ if last.before.is_none() || last.key != observation.key => {
            RolloutOrigin::Begin { before: before.clone(), attempts }
        }
        _ => RolloutOrigin::Continue(last),
    }
}

/// Returns the state in which all pods are to run the declared unit; unchanged except for its key
/// if it was stable before.
fn stable_state(last: Option<&RolloutState>, observation: &RolloutObservation) -> RolloutState {
    match last {
        Some(last) if last.stage == Stage::Stable => {
            RolloutState { key: observation.key.clone(), ..last.clone() }
        }
        _ => RolloutState {
            stage: Stage::Stable,
            since: observation.now,
            before: None,
            after: observation.declared.clone(),
            key: observation.key.clone(),
            attempts: 0,
        },
    }
}

/// The stage of a change that may begin, and the fault if it can't. A unit that failed before any
/// pod had it needs no rollback.
fn begin_change(
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> (Stage, Option<UnitFault>) {
    match &observation.first {
        Precondition::Waits => (Stage::Moving(RolloutProgress::Waiting), None),
        Precondition::Done => (Stage::Moving(first_point(observation, policy)), None),
        Precondition::Failed(fault) if policy.rolls_back => {
            (Stage::RolledBack(Cause::Failed(fault.clone())), None)
        }
        Precondition::Failed(fault) => {
            (Stage::Moving(RolloutProgress::Waiting), Some(fault.clone()))
        }
    }
}

fn first_point(observation: &RolloutObservation, policy: &RolloutPolicy) -> RolloutProgress {
    match policy.canary {
        Some(_) => RolloutProgress::Canary,
        None => RolloutProgress::Promoting { pods: observation.size.max(1) },
    }
}

/// The next stage of a change that is under way, and the fault if it isn't rolled back.
fn continue_rollout(
    state: &RolloutState,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
    judgement: &mut Option<CanaryVerdict>,
) -> (Stage, Option<UnitFault>) {
    let stays = || (state.stage.clone(), None);
    match (&state.stage, observation.wish) {
        (Stage::Stable | Stage::RolledBack(_), _) => stays(),
        (Stage::RollingBack(cause), _) => {
            let back = observation.is_spec_observed && observation.complete;
            if back { (Stage::RolledBack(cause.clone()), None) } else { stays() }
        }
        (
            Stage::Moving(RolloutProgress::Waiting) | Stage::Paused(RolloutProgress::Waiting),
            Wish::Abort,
        ) => (Stage::RolledBack(Cause::Aborted), None),
        (Stage::Moving(_) | Stage::Paused(_), Wish::Abort) => {
            (Stage::RollingBack(Cause::Aborted), None)
        }
        (Stage::Moving(point) | Stage::Paused(point), Wish::Pause) => (Stage::Paused(*point), None),
        // Time under a pause doesn't count: the point's time starts again.
        (Stage::Paused(point), Wish::Continue) => (Stage::Moving(*point), None),
        (Stage::Moving(RolloutProgress::Waiting), Wish::Continue) => {
            begin_change(observation, policy)
        }
        (Stage::Moving(point), Wish::Continue) => {
            match advance_point(*point, state.since, observation, policy) {
                Advance::To(stage) => (stage, None),
                Advance::Analyzed(stage, verdict) => {
                    *judgement = Some(verdict);
                    (stage, None)
                }
                Advance::Fails(fault, verdict) => {
                    *judgement = verdict;
                    match policy.rolls_back {
                        true => (Stage::RollingBack(Cause::Failed(fault)), None),
                        false => (state.stage.clone(), Some(fault)),
                    }
                }
            }
        }
    }
}

enum Advance {
    To(Stage),
    Analyzed(Stage, CanaryVerdict),
    Fails(UnitFault, Option<CanaryVerdict>),
}

fn advance_point(
    point: RolloutProgress,
    since: i64,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> Advance {
    let stay = Advance::To(Stage::Moving(point));
    let to = |point| Advance::To(Stage::Moving(point));
    // Figures from before the controller acted on the newest template are about other pods.
    if !observation.is_spec_observed {
        return stay;
    }
    let elapsed = observation.now.saturating_sub(since);
    let required = pods_of(point, observation, policy);
    let updated: Vec<&Member> = updated_members(observation).collect();
    let faults = updated.iter().filter_map(|member| Some((*member, member.find_fault()?)));
    let faults: Vec<(&Member, UnitFault)> = faults.collect();
    if let Some((_, fault)) = faults.iter().find(|(it, fault)| is_the_units(it, fault, observation))
    {
        return Advance::Fails(fault.clone(), None);
    }
    if !faults.is_empty() {
        return stay;
    }
    let ready = updated.iter().filter(|member| member.ready).count();
    let ready = u32::try_from(ready).unwrap_or(u32::MAX);
    match point {
        RolloutProgress::Waiting => stay,
        RolloutProgress::Canary if ready >= required => to(RolloutProgress::Analyzing),
        // No pod can be created in the place of one that doesn't end.
        RolloutProgress::Canary if observation.stays.is_some() => stay,
        RolloutProgress::Canary if updated.is_empty() && elapsed >= MADE_SECONDS_MAX => {
            let text = format!("no pod of the new unit was created within {MADE_SECONDS_MAX} s");
            Advance::Fails(UnitFault::new(FaultKind::PodCreationFailed, text), None)
        }
        RolloutProgress::Canary => stay,
        // A missing pod is not judged; one that stays missing is a separate fault.
        RolloutProgress::Analyzing if ready < required => stay,
        RolloutProgress::Analyzing => advance_analysis(required, elapsed, observation, policy),
        RolloutProgress::Promoting { .. } if required >= observation.size => {
            if observation.complete { Advance::To(Stage::Stable) } else { stay }
        }
        RolloutProgress::Promoting { .. } if ready < required || elapsed < STEP_SECONDS => stay,
        RolloutProgress::Promoting { .. } => {
            match compare_loads(&observation.new_loads, &observation.old_loads) {
                CanaryVerdict::Failed(fault) => {
                    Advance::Fails(fault.clone(), Some(CanaryVerdict::Failed(fault)))
                }
                CanaryVerdict::Passed | CanaryVerdict::TooFew { .. } => {
                    to(next_step(required, observation.size))
                }
            }
        }
    }
}

fn advance_analysis(
    required: u32,
    elapsed: i64,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> Advance {
    let seconds = policy.canary.map_or(0, |canary| canary.analysis_seconds);
    let stays = Stage::Moving(RolloutProgress::Analyzing);
    if elapsed < seconds {
        return Advance::To(stays);
    }
    let promoting = Stage::Moving(next_step(required, observation.size));
    let judgement = compare_loads(&observation.new_loads, &observation.old_loads);
    match judgement {
        CanaryVerdict::Failed(fault) => {
            Advance::Fails(fault.clone(), Some(CanaryVerdict::Failed(fault)))
        }
        CanaryVerdict::Passed => Advance::Analyzed(promoting, judgement),
        CanaryVerdict::TooFew { .. } if elapsed < seconds.saturating_mul(EXTENSIONS_MAX) => {
            Advance::To(stays)
        }
        CanaryVerdict::TooFew { .. } => {
            match reads_nothing(&observation.new_loads, &observation.old_loads) {
                Some(fault) => Advance::Fails(fault.clone(), Some(CanaryVerdict::Failed(fault))),
                None => Advance::Analyzed(promoting, judgement),
            }
        }
    }
}

/// Doubles the pods at each step: a large pool takes few steps, and more than half of it never
/// changes untried.
fn next_step(pods: u32, size: u32) -> RolloutProgress {
    RolloutProgress::Promoting { pods: pods.saturating_mul(2).clamp(1, size.max(1)) }
}

/// The number of pods that may have the new unit at this point.
fn pods_of(
    point: RolloutProgress,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> u32 {
    let size = observation.size.max(1);
    match point {
        RolloutProgress::Waiting => 0,
        RolloutProgress::Canary | RolloutProgress::Analyzing => {
            policy.canary.map_or(1, |it| it.pods).clamp(1, size)
        }
        RolloutProgress::Promoting { pods } => pods.clamp(1, size),
    }
}

fn template_plan(
    state: &RolloutState,
    observation: &RolloutObservation,
    policy: &RolloutPolicy,
) -> RolloutPlan {
    match &state.stage {
        Stage::Stable => RolloutPlan::All,
        Stage::Moving(RolloutProgress::Waiting) | Stage::Paused(RolloutProgress::Waiting) => {
            RolloutPlan::Previous
        }
        Stage::Moving(point) => RolloutPlan::Split { pods: pods_of(*point, observation, policy) },
        Stage::Paused(point) => {
            let most = pods_of(*point, observation, policy);
            RolloutPlan::Split { pods: most.min(paused_pods(observation)) }
        }
        Stage::RollingBack(_) | Stage::RolledBack(_) => RolloutPlan::Previous,
    }
}

/// The number of pods that retain the new unit in a pause: those that have it, and never more than
/// at the observation before. The workload's controller would replace all that it may.
fn paused_pods(observation: &RolloutObservation) -> u32 {
    if !observation.is_spec_observed {
        return observation.allowed;
    }
    let existing = updated_members(observation).filter(|member| !member.figures.missing);
    observation.allowed.min(u32::try_from(existing.count()).unwrap_or(u32::MAX))
}
