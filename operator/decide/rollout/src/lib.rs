//! Rollouts, as pure functions. No clock, no I/O.
//!
//! [`step_rollout`] brings a new unit to a pool's pods in stages, analyzes it, and rolls it back;
//! [`assess_rollout`] decides whether a workload is complete, moving or stuck.
//!
//! The caller reads a Deployment, StatefulSet or DaemonSet and its pods, and passes the figures. A
//! workload is `Complete` only when every wanted pod runs the newest template and is available, no
//! surplus pod is left, and the workload's own controller has observed the newest generation.
//! Numbers come before pod faults: a pod of an old revision that crashes while it is replaced does
//! not make a complete rollout incomplete.

mod canary_analysis;
mod fault;
mod machine;
mod pod;
mod unit;

pub use canary_analysis::{
    CanaryVerdict, FilesLoad, LoadFigures, LoadSum, RECORDS_MIN, compare_loads, reads_nothing,
};
pub use fault::{EXIT_SETTINGS, FaultKind, Member, NODE_LOST_REMEDY, UnitFault};
pub use machine::{
    Canary, Cause, EXTENSIONS_MAX, Precondition, RolloutObservation, RolloutPlan, RolloutPolicy,
    RolloutProgress, RolloutState, RolloutStep, STEP_SECONDS, Stage, Wish, step_rollout,
};
pub use pod::{PodFigures, Trouble};
pub use unit::Unit;

/// The figures of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadObservation {
    /// The generation of the workload's spec.
    pub generation: i64,
    /// The generation its controller has acted on, if any.
    pub observed_generation: Option<i64>,
    /// Pods wanted by the spec.
    pub desired: u32,
    /// Existing pods, of any revision.
    pub existing: u32,
    /// Pods of the newest revision.
    pub updated: u32,
    /// Pods that are ready.
    pub ready: u32,
    /// Pods that are available: ready for `minReadySeconds`.
    pub available: u32,
    /// The workload's controller gave up (progress deadline).
    pub deadline_exceeded: bool,
    /// The API server's message when it refused to create pods.
    pub creation_refused: Option<String>,
    /// Its pods; may be empty when the numbers are complete.
    pub pods: Vec<PodFigures>,
}

/// The state that the figures show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutVerdict {
    /// Every wanted pod runs the newest template and is available, and no other pod is left.
    Complete,
    /// The rollout continues automatically.
    Moving(Moving),
    /// The rollout does not continue until a person changes something.
    Stuck(Stuck),
}

/// Why a rollout is not complete yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moving {
    /// The workload's controller has not observed the newest spec.
    NotObserved,
    /// Fewer pods than wanted run the newest template.
    Updating {
        /// Pods of the newest template.
        updated: u32,
        /// Pods wanted.
        desired: u32,
    },
    /// Pods of an older template, or surplus pods, are ending.
    Ending {
        /// The surplus.
        surplus: u32,
    },
    /// Pods are not available yet.
    Starting {
        /// Available pods.
        available: u32,
        /// Pods wanted.
        desired: u32,
    },
}

/// Why a rollout does not continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Pods have a trouble.
    Pods {
        /// The worst trouble.
        trouble: Trouble,
        /// A pod that has it.
        pod: String,
        /// The message of the node or the scheduler.
        message: String,
        /// Pods with this trouble.
        count: u32,
    },
    /// The API server refuses pods: a quota, a policy, a missing account.
    Refused {
        /// The API server's message.
        message: String,
    },
    /// Nothing improved until the workload's deadline, and no pod shows a reason.
    DeadlineExceeded,
}

/// Assesses a workload.
#[must_use]
pub fn assess_rollout(observation: &WorkloadObservation) -> RolloutVerdict {
    if observation.observed_generation.is_none_or(|observed| observed < observation.generation) {
        return RolloutVerdict::Moving(Moving::NotObserved);
    }
    let moving = if observation.updated < observation.desired {
        Moving::Updating { updated: observation.updated, desired: observation.desired }
    } else if observation.available < observation.desired {
        Moving::Starting { available: observation.available, desired: observation.desired }
    } else if observation.existing > observation.desired {
        Moving::Ending { surplus: observation.existing - observation.desired }
    } else {
        return RolloutVerdict::Complete;
    };
    match stuck_reason(observation) {
        Some(stuck) => RolloutVerdict::Stuck(stuck),
        None => RolloutVerdict::Moving(moving),
    }
}

/// Returns what blocks an incomplete rollout, if anything does.
fn stuck_reason(observation: &WorkloadObservation) -> Option<Stuck> {
    let worst = observation.pods.iter().filter_map(|pod| Some((pod.lasting_trouble()?, pod)));
    if let Some((trouble, pod)) = worst.min_by_key(|(trouble, pod)| (*trouble, pod.name.clone())) {
        let count = observation
            .pods
            .iter()
            .filter(|other| other.lasting_trouble() == Some(trouble))
            .count();
        return Some(Stuck::Pods {
            trouble,
            pod: pod.name.clone(),
            message: pod.message.clone(),
            count: u32::try_from(count).unwrap_or(u32::MAX),
        });
    }
    if let Some(message) = &observation.creation_refused {
        return Some(Stuck::Refused { message: message.clone() });
    }
    observation.deadline_exceeded.then_some(Stuck::DeadlineExceeded)
}
