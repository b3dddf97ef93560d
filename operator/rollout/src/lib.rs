//! Rollouts, as pure functions. No clock, no I/O.
//!
//! [`step`] brings a new unit to a pool's pods in stages, judges it, and rolls it back; [`judge`]
//! decides whether a workload is complete, moving or stuck.
//!
//! The caller reads a Deployment, StatefulSet or DaemonSet and its pods, and passes the figures;
//! [`judge`] interprets them. A workload is `Complete` only when every wanted pod runs the newest
//! template and is available, no surplus pod is left, and the workload's own controller has
//! observed the newest generation. Numbers come before pod faults: a pod of an old revision that
//! crashes while it is replaced does not make a complete rollout incomplete.

mod fault;
mod machine;
mod pod;
mod trial;
mod unit;

pub use fault::{EXIT_SETTINGS, Fault, FaultKind, Member, NODE_LOST_REMEDY};
pub use machine::{
    Canary, Cause, EXTENSIONS_MAX, First, Plan, Point, Policy, STEP_SECONDS, Seen, Stage, State,
    Step, Wish, step,
};
pub use pod::{PodFigures, Trouble};
pub use trial::{FilesLoad, Judgement, Load, RECORDS_MIN, Sum, compare, reads_nothing};
pub use unit::Unit;

/// What was read of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// The generation of the workload's spec.
    pub generation: i64,
    /// The generation its controller has acted on, if any.
    pub observed_generation: Option<i64>,
    /// Pods wanted by the spec.
    pub wanted: u32,
    /// Pods there are, of any revision.
    pub existing: u32,
    /// Pods of the newest revision.
    pub updated: u32,
    /// Pods that are ready.
    pub ready: u32,
    /// Pods that are available: ready for as long as is asked for.
    pub available: u32,
    /// The workload's controller gave up (progress deadline).
    pub deadline_exceeded: bool,
    /// Why pods could not be made, in the API server's words, if so.
    pub creation_refused: Option<String>,
    /// The troubles of its pods; may be left empty when the numbers are complete.
    pub pods: Vec<PodFigures>,
}

/// What the figures mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every wanted pod runs the newest template and is available; nothing else is left.
    Complete,
    /// It goes on by itself.
    Moving(Moving),
    /// It does not go on without a change by a person.
    Stuck(Stuck),
}

/// Why a rollout is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moving {
    /// The workload's controller has not seen the newest spec.
    NotSeen,
    /// Fewer pods than wanted run the newest template.
    Updating {
        /// Pods that do.
        updated: u32,
        /// Pods wanted.
        wanted: u32,
    },
    /// Pods of an older template, or too many, are being ended.
    Ending {
        /// Pods left over.
        surplus: u32,
    },
    /// Pods are not available yet.
    Starting {
        /// Pods that are.
        available: u32,
        /// Pods wanted.
        wanted: u32,
    },
}

/// Why a rollout does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// A pod's trouble, and how many pods have it.
    Pods {
        /// The trouble of the worst kind.
        trouble: Trouble,
        /// A pod that has it.
        pod: String,
        /// What the node or scheduler said.
        message: String,
        /// Pods with this trouble.
        count: u32,
    },
    /// The API server refuses pods: a quota, a policy, a missing account.
    Refused {
        /// The API server's words.
        message: String,
    },
    /// Nothing got better for as long as the workload allows, and no pod says why.
    DeadlineExceeded,
}

/// Judges a rollout.
#[must_use]
pub fn judge(seen: &Observation) -> Verdict {
    if seen.observed_generation.is_none_or(|observed| observed < seen.generation) {
        return Verdict::Moving(Moving::NotSeen);
    }
    let moving = if seen.updated < seen.wanted {
        Moving::Updating { updated: seen.updated, wanted: seen.wanted }
    } else if seen.available < seen.wanted {
        Moving::Starting { available: seen.available, wanted: seen.wanted }
    } else if seen.existing > seen.wanted {
        Moving::Ending { surplus: seen.existing - seen.wanted }
    } else {
        return Verdict::Complete;
    };
    match stuck(seen) {
        Some(stuck) => Verdict::Stuck(stuck),
        None => Verdict::Moving(moving),
    }
}

/// What holds an incomplete rollout up, if anything does.
fn stuck(seen: &Observation) -> Option<Stuck> {
    let worst = seen.pods.iter().filter_map(|pod| Some((pod.trouble()?, pod)));
    if let Some((trouble, pod)) = worst.min_by_key(|(trouble, pod)| (*trouble, pod.name.clone())) {
        let count = seen.pods.iter().filter(|other| other.trouble() == Some(trouble)).count();
        return Some(Stuck::Pods {
            trouble,
            pod: pod.name.clone(),
            message: pod.message.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        });
    }
    if let Some(message) = &seen.creation_refused {
        return Some(Stuck::Refused { message: message.clone() });
    }
    seen.deadline_exceeded.then_some(Stuck::DeadlineExceeded)
}
