//! Reports on pods, for both kinds of pools. Pure.

pub mod process_counts;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use millrace_crds::{Condition, ConditionStatus, ConditionType, Reason, find_condition};
use millrace_rollout::{
    Moving, NODE_LOST_REMEDY, RolloutVerdict, Stuck, Trouble, WorkloadObservation,
};

use crate::error::{Invalid, StepError};
use crate::report::conditions::{Conditions, RETRIES};
use crate::report::counts::format_count;

/// The state of a workload's rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Assessed from the live workload that has the spec.
    Evaluated(RolloutVerdict),
    /// The workload could not be updated to the spec, so it proves nothing.
    NotApplied {
        /// The reason.
        reason: Reason,
        /// The message.
        message: String,
        /// A retry without a change would be refused again.
        stalled: bool,
    },
    /// The API server failed, which proves nothing about the workload.
    NotObserved {
        /// The reason.
        reason: Reason,
        /// The message.
        message: String,
    },
    /// Not all pods have the spec; the rollout reports the reason.
    Reported {
        /// The reason.
        reason: Reason,
        /// The message.
        message: String,
        /// The rollout proceeds without a person.
        progressing: bool,
        /// The rollout needs a change by a person.
        stalled: bool,
    },
}

impl Rollout {
    /// Returns the assessed rollout, unless the pool differs from its spec because it is paused.
    #[must_use]
    pub fn from_verdict(verdict: &RolloutVerdict, withheld: bool) -> Self {
        if withheld {
            let message = "the pool differs from its spec and is paused".to_owned();
            let reason = Reason::PausedBySpec;
            return Self::NotApplied { reason, message, stalled: false };
        }
        Self::Evaluated(verdict.clone())
    }

    /// Returns a rollout that could not be applied.
    #[must_use]
    pub fn from_error(error: &StepError) -> Self {
        let (reason, message) = (error.reason, error.cause());
        match error.category.needs_a_person() {
            true => Self::NotApplied { reason, message, stalled: true },
            false => Self::NotObserved { reason, message },
        }
    }

    /// Returns a rollout that did not begin because the spec is invalid.
    #[must_use]
    pub fn from_invalid(invalid: &Invalid) -> Self {
        let (reason, message) = (invalid.reason, invalid.message.clone());
        let stalled = matches!(reason, Reason::SpecInvalid | Reason::HeldByAnother);
        Self::NotApplied { reason, message, stalled }
    }
}

/// The bounds of an invalid pool's resync delay, which equals the time that it has not been ready.
/// A repair by a person is thus observed soon, and a pool that stays invalid costs next to nothing.
/// A change of the spec doesn't wait for it.
const INVALID_RESYNC: (SignedDuration, SignedDuration) =
    (SignedDuration::from_secs(5), SignedDuration::from_secs(120));

/// Returns the delay until an invalid pool is reconciled again, from its last conditions.
#[must_use]
pub fn invalid_resync(conditions: &[Condition], now: Timestamp) -> Duration {
    let (least, most) = INVALID_RESYNC;
    let last = find_condition(conditions, ConditionType::PodsReady);
    let since = last.filter(|it| it.status == ConditionStatus::False);
    let lasts = since.map_or(least, |it| now.duration_since(it.last_transition_time.0));
    lasts.clamp(least, most).unsigned_abs()
}

/// The result of the steps before the status; `A` is a kind's observation after applying.
#[derive(Debug)]
pub enum PoolOutcome<A> {
    /// Nothing was applied: the spec cannot work as written, or not yet.
    Invalid {
        /// The reason.
        invalid: Invalid,
        /// The workload's figures, if it exists.
        live: Option<WorkloadObservation>,
    },
    /// Applying failed after some writes.
    Failed(StepError),
    /// Everything was applied, so pods have or will have the declared state.
    Applied(Box<A>),
}

impl<A> From<Result<A, StepError>> for PoolOutcome<A> {
    /// A failure becomes part of the outcome, so that the status can report it.
    fn from(applied: Result<A, StepError>) -> Self {
        applied.map_or_else(Self::Failed, |applied| Self::Applied(Box::new(applied)))
    }
}

impl<A> PoolOutcome<A> {
    /// Returns the failure to retry, if any, after the status reports it.
    pub fn into_failure(self) -> Option<StepError> {
        match self {
            Self::Failed(error) => Some(error.mark_reported()),
            Self::Invalid { .. } | Self::Applied(_) => None,
        }
    }
}

/// Sets PodsReady, Progressing and Stalled.
pub fn state_pods(
    conditions: &mut Conditions,
    rollout: &Rollout,
    observation: Option<&WorkloadObservation>,
) {
    use ConditionType::PodsReady;
    match rollout {
        Rollout::Evaluated(RolloutVerdict::Complete) => {
            let pods = observation.map_or(0, |seen| seen.desired);
            conditions.set_true(
                PodsReady,
                Reason::Reconciled,
                format!("{} updated and available", format_count(pods, "pod")),
            );
            conditions.set_idle();
        }
        Rollout::Evaluated(RolloutVerdict::Moving(moving)) => {
            conditions.set_moving(PodsReady, Reason::PodsNotReady, &moving_text(moving));
        }
        Rollout::Evaluated(RolloutVerdict::Stuck(stuck)) => {
            let (reason, message) = stuck_text(stuck);
            conditions.set_stuck(PodsReady, reason, &message);
        }
        Rollout::Reported { reason, message, progressing, stalled } => {
            conditions.set_false(PodsReady, *reason, message.as_str());
            conditions.set_progress((*progressing, *stalled), *reason, message);
        }
        Rollout::NotApplied { reason, message, stalled } => {
            conditions.set_false(PodsReady, *reason, message.as_str());
            conditions.set_progress((false, *stalled), *reason, message);
        }
        Rollout::NotObserved { reason, message } => {
            conditions.set_unknown(PodsReady, *reason, message.as_str());
            conditions.set_progress((true, false), *reason, RETRIES);
        }
    }
}

fn moving_text(moving: &Moving) -> String {
    match moving {
        Moving::NotObserved => "the newest revision has not been observed yet".into(),
        Moving::Updating { updated, desired: wanted } => {
            format!("{updated} of {wanted} pods updated")
        }
        Moving::Starting { available, desired: wanted } => {
            format!("{available} of {wanted} pods available")
        }
        Moving::Ending { surplus } => format!("{} terminating", format_count(surplus, "old pod")),
    }
}

/// Returns why a rollout is stuck: reason and message.
#[must_use]
pub fn stuck_text(stuck: &Stuck) -> (Reason, String) {
    match stuck {
        Stuck::Pods { trouble, pod, message, count } => {
            // The kubelet's messages about images and crashes contain ports, times and back-offs
            // that vary; the pod's events show them.
            let remedy = NODE_LOST_REMEDY.to_owned();
            let (reason, what, said) = match trouble {
                Trouble::ImagePull => {
                    (Reason::ImagePullFailed, "its image can't be pulled; see its events", None)
                }
                Trouble::Configuration => {
                    (Reason::PodCreationFailed, "its container can't be created", Some(message))
                }
                Trouble::OutOfMemory => {
                    let what = "it was OOM-killed: it exceeded its memory limit";
                    (Reason::PodOutOfMemory, what, None)
                }
                Trouble::CrashLoop => {
                    (Reason::PodCrashing, "it crashes repeatedly; see its log", None)
                }
                Trouble::NodeLost => (Reason::PodsNotReady, message.as_str(), Some(&remedy)),
                Trouble::Unschedulable => {
                    (Reason::PodUnschedulable, "no node has room for it", Some(message))
                }
            };
            let more = match count {
                0 | 1 => String::new(),
                more => format!(" (and {} more)", more - 1),
            };
            let said = said.filter(|said| !said.is_empty());
            let said = said.map_or_else(String::new, |said| format!(": {said}"));
            (reason, format!("pod {pod}{more}: {what}{said}"))
        }
        Stuck::Refused { message } => {
            (Reason::PodCreationFailed, format!("pods can't be created: {message}"))
        }
        Stuck::DeadlineExceeded => (
            Reason::RolloutDeadlineExceeded,
            "no progress within the workload's deadline; see its events".into(),
        ),
    }
}

/// Sets SecretsFound from a validation error about Secrets.
pub fn state_secrets(conditions: &mut Conditions, invalid: Option<&Invalid>) {
    match invalid {
        Some(invalid)
            if matches!(invalid.reason, Reason::SecretMissing | Reason::SecretKeyMissing) =>
        {
            conditions.set_false(
                ConditionType::SecretsFound,
                invalid.reason,
                invalid.message.as_str(),
            );
        }
        _ => conditions.set_true(
            ConditionType::SecretsFound,
            Reason::Reconciled,
            "every Secret exists",
        ),
    }
}

/// Returns ready and desired pods, as text.
#[must_use]
pub fn pods_text(observation: Option<&WorkloadObservation>) -> String {
    observation.map_or_else(|| "0/0".into(), |seen| format!("{}/{}", seen.ready, seen.desired))
}

/// The longest message in a status.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// Cuts a message for a status, at a character boundary.
#[must_use]
pub fn cut_message(mut text: String) -> String {
    millrace_crds::truncate_text(&mut text, MESSAGE_BYTES_MAX);
    text
}

/// Converts a count to Kubernetes' type.
#[must_use]
pub fn as_i32(count: impl TryInto<i32>) -> i32 {
    count.try_into().unwrap_or(i32::MAX)
}

/// As [`as_i32`], for larger counts.
#[must_use]
pub fn as_i64(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
