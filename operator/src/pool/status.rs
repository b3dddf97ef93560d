//! What both kinds of pools report about their pods. Pure.

use millrace_crds::{ConditionType, Reason};
use millrace_rollout::{Moving, NODE_LOST_REMEDY, Observation, Stuck, Trouble, Verdict};

use crate::error::{Invalid, StepError};
use crate::report::conditions::Conditions;

/// The state of a workload's rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Judged from the live workload that has the spec.
    Judged(Verdict),
    /// The workload could not be brought to the spec, so it proves nothing.
    NotApplied {
        /// Why.
        reason: Reason,
        /// The message.
        message: String,
        /// The same again would be refused again.
        stalled: bool,
    },
    /// The API server failed, which says nothing about the workload.
    NotSeen {
        /// Why.
        reason: Reason,
        /// The message.
        message: String,
    },
    /// Not all pods have the spec, and the rollout says why.
    Told {
        /// Why.
        reason: Reason,
        /// The message.
        message: String,
        /// It proceeds without a person.
        progressing: bool,
        /// It needs a change by a person.
        stalled: bool,
    },
}

impl Rollout {
    /// The judged rollout, unless the pool differs from its spec because it is paused.
    #[must_use]
    pub fn of(verdict: &Verdict, withheld: bool) -> Self {
        if withheld {
            let message = "the pool differs from its spec and is paused".to_owned();
            let reason = Reason::PausedByAnnotation;
            return Self::NotApplied { reason, message, stalled: false };
        }
        Self::Judged(verdict.clone())
    }

    /// A rollout that could not be applied.
    #[must_use]
    pub fn failed(error: &StepError) -> Self {
        let (reason, message) = (error.reason, error.cause());
        match error.category.needs_a_person() {
            true => Self::NotApplied { reason, message, stalled: true },
            false => Self::NotSeen { reason, message },
        }
    }

    /// A rollout that did not begin because the spec is invalid.
    #[must_use]
    pub fn invalid(invalid: &Invalid) -> Self {
        let (reason, message) = (invalid.reason, invalid.message.clone());
        let stalled = matches!(reason, Reason::SpecInvalid | Reason::HeldByAnother);
        Self::NotApplied { reason, message, stalled }
    }
}

/// How the steps before the status ended; `A` is what a kind found after applying.
#[derive(Debug)]
pub enum Outcome<A> {
    /// Nothing was applied: the spec cannot work as written, or not yet.
    Invalid {
        /// Why.
        invalid: Invalid,
        /// The workload's figures, if it exists.
        live: Option<Observation>,
    },
    /// Applying failed part of the way.
    Failed(StepError),
    /// Everything is as declared, or on its way there.
    Applied(Box<A>),
}

impl<A> Outcome<A> {
    /// The failure to retry, if there was one, once the status reports it.
    pub fn into_failure(self) -> Option<StepError> {
        match self {
            Self::Failed(error) => Some(error.told()),
            Self::Invalid { .. } | Self::Applied(_) => None,
        }
    }
}

/// States PodsReady, Progressing and Stalled.
pub fn state_pods(conditions: &mut Conditions, rollout: &Rollout, seen: Option<&Observation>) {
    use ConditionType::{PodsReady, Progressing, Stalled};
    match rollout {
        Rollout::Judged(Verdict::Complete) => {
            let pods = seen.map_or(0, |seen| seen.wanted);
            conditions.holds(
                PodsReady,
                Reason::AsAsked,
                format!("{pods} pods updated and available"),
            );
            conditions.fails(Progressing, Reason::Settled, "no change is under way");
            conditions.fails(Stalled, Reason::Settled, "nothing is stuck");
        }
        Rollout::Judged(Verdict::Moving(moving)) => {
            let message = moving_text(moving);
            conditions.fails(PodsReady, Reason::PodsNotReady, message.as_str());
            conditions.holds(Progressing, Reason::Applying, message.as_str());
            conditions.fails(Stalled, Reason::Applying, "the change goes on by itself");
        }
        Rollout::Judged(Verdict::Stuck(stuck)) => {
            let (reason, message) = stuck_text(stuck);
            conditions.fails(PodsReady, reason, message.as_str());
            conditions.fails(Progressing, reason, message.as_str());
            conditions.holds(Stalled, reason, message.as_str());
        }
        Rollout::Told { reason, message, progressing, stalled } => {
            conditions.fails(PodsReady, *reason, message.as_str());
            for (fact, holds) in [(Progressing, *progressing), (Stalled, *stalled)] {
                match holds {
                    true => conditions.holds(fact, *reason, message.as_str()),
                    false => conditions.fails(fact, *reason, message.as_str()),
                }
            }
        }
        Rollout::NotApplied { reason, message, stalled } => {
            conditions.fails(PodsReady, *reason, message.as_str());
            conditions.fails(Progressing, *reason, message.as_str());
            if *stalled {
                conditions.holds(Stalled, *reason, message.as_str());
            } else {
                conditions.fails(Stalled, *reason, message.as_str());
            }
        }
        Rollout::NotSeen { reason, message } => {
            conditions.unknown(PodsReady, *reason, message.as_str());
            conditions.holds(Progressing, *reason, "tried again by itself");
            conditions.fails(Stalled, *reason, "tried again by itself");
        }
    }
}

fn moving_text(moving: &Moving) -> String {
    match moving {
        Moving::NotSeen => "the newest revision has not been taken up yet".into(),
        Moving::Updating { updated, wanted } => format!("{updated} of {wanted} pods updated"),
        Moving::Starting { available, wanted } => format!("{available} of {wanted} pods available"),
        Moving::Ending { surplus } => format!("{surplus} old pods still end"),
    }
}

/// Why a rollout is stuck: reason and message.
#[must_use]
pub fn stuck_text(stuck: &Stuck) -> (Reason, String) {
    match stuck {
        Stuck::Pods { trouble, pod, message, count } => {
            // The kubelet's messages about images and crashes contain ports, times and back-offs
            // that vary; they are in the pod's events.
            let remedy = NODE_LOST_REMEDY.to_owned();
            let (reason, what, said) = match trouble {
                Trouble::ImagePull => {
                    (Reason::ImagePullFailed, "its image can't be pulled; see its events", None)
                }
                Trouble::Configuration => {
                    (Reason::PodsRefused, "its container can't be made", Some(message))
                }
                Trouble::OutOfMemory => {
                    let what = "it was ended for using more memory than its limit";
                    (Reason::PodOutOfMemory, what, None)
                }
                Trouble::CrashLoop => {
                    (Reason::PodCrashing, "it ends again and again; see its log", None)
                }
                Trouble::NodeLost => (Reason::PodsNotReady, message.as_str(), Some(&remedy)),
                Trouble::Unschedulable => {
                    (Reason::PodUnschedulable, "it fits on no node", Some(message))
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
            (Reason::PodsRefused, format!("pods can't be made: {message}"))
        }
        Stuck::DeadlineExceeded => (
            Reason::RolloutDeadlineExceeded,
            "no progress within the workload's deadline; see its events".into(),
        ),
    }
}

/// States SecretsFound from a validation error about Secrets.
pub fn state_secrets(conditions: &mut Conditions, invalid: Option<&Invalid>) {
    match invalid {
        Some(invalid)
            if matches!(invalid.reason, Reason::SecretMissing | Reason::SecretKeyMissing) =>
        {
            conditions.fails(ConditionType::SecretsFound, invalid.reason, invalid.message.as_str());
        }
        _ => {
            conditions.holds(ConditionType::SecretsFound, Reason::AsAsked, "every Secret is there")
        }
    }
}

/// Ready pods of desired pods, as text.
#[must_use]
pub fn pods_text(seen: Option<&Observation>) -> String {
    seen.map_or_else(|| "0/0".into(), |seen| format!("{}/{}", seen.ready, seen.wanted))
}

/// Messages in a status are at most this long.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// Cuts a message for a status, at a character.
#[must_use]
pub fn cut(mut text: String) -> String {
    millrace_crds::cut(&mut text, MESSAGE_BYTES_MAX);
    text
}

/// A count as Kubernetes types carry it.
#[must_use]
pub fn as_i32(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
