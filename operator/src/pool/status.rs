//! Reports on pods, for both kinds of pools. Pure.

pub mod process_counts;

use millrace_crds::{ConditionType, Reason};
use millrace_rollout::{
    Moving, NODE_LOST_REMEDY, RolloutVerdict, Stuck, Trouble, WorkloadObservation,
};

use crate::error::{ReconcileStep, StepError};
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

    /// Returns a rollout that did not begin because the spec cannot work as written, or not yet,
    /// or that could not be applied.
    #[must_use]
    pub fn from_error(error: &StepError) -> Self {
        let (reason, message) = (error.reason, error.cause());
        let stalled = error.category.needs_a_person() || error.reason == Reason::HeldByAnother;
        match stalled || error.step == ReconcileStep::Validate {
            true => Self::NotApplied { reason, message, stalled },
            false => Self::NotObserved { reason, message },
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
            let pods = observation.map_or(0, |workload| workload.desired);
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
        Moving::Updating { updated, desired } => {
            format!("{updated} of {desired} pods updated")
        }
        Moving::Starting { available, desired } => {
            format!("{available} of {desired} pods available")
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
            let (reason, what, detail) = match trouble {
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
            let detail = detail.filter(|detail| !detail.is_empty());
            let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
            (reason, format!("pod {pod}{more}: {what}{detail}"))
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

/// Returns ready and desired pods, as text.
#[must_use]
pub fn pods_text(observation: Option<&WorkloadObservation>) -> String {
    observation
        .map_or_else(|| "0/0".into(), |workload| format!("{}/{}", workload.ready, workload.desired))
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
