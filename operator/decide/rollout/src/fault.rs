//! The faults of a new unit, with stable names, and the faults of one of its pods.

use std::fmt;

use crate::pod::{PodFigures, Trouble};

/// How long a pod may be in trouble before that counts, in seconds: a kubelet has tried to pull an
/// image three times by then (after 0, 10 and 30 s).
const TROUBLE_SECONDS: i64 = 45;
/// How long a pod may take to become ready, in seconds. A start takes seconds, and start-up probes
/// wait 60 s for a broker; with the interval of reconciles, a rollback begins within 3 minutes.
const NOT_READY_SECONDS_MAX: i64 = 150;
/// Restarts that are tolerated: one may be due to a broker that was not yet available.
const RESTARTS_MAX: u32 = 1;
/// The collector's exit code for settings that it can't use.
pub const EXIT_SETTINGS: i32 = 64;

/// What a person can do about a pod whose node doesn't answer.
pub const NODE_LOST_REMEDY: &str = "restore the node, or if it is powered off, delete the pod with \
                                    --force";

macro_rules! kinds {
    ($( $(#[doc = $doc:literal])+ $kind:ident, )+) => {
        /// The kinds of faults; their names are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultKind { $( $(#[doc = $doc])+ $kind, )+ }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$( Self::$kind, )+];

            /// Returns the stable name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$kind => stringify!($kind), )+ }
            }
        }
    };
}

kinds!(
    /// The image can't be pulled.
    ImagePullFailed,
    /// The pod or its container can't be created.
    PodCreationFailed,
    /// A pod used more memory than its limit.
    PodOutOfMemory,
    /// A pod ended repeatedly.
    PodCrashing,
    /// A pod fits on no node.
    PodUnschedulable,
    /// The collector refuses its configuration.
    ConfigurationRejected,
    /// A pod was not ready in time.
    PodsNotReady,
    /// Records are not accounted for.
    CanaryRecordsUnaccounted,
    /// Its rules drop nearly all records.
    CanaryDropsAll,
    /// It processes fewer records per CPU-second.
    CanarySlower,
    /// It uses more memory.
    CanaryMemoryHigher,
    /// Its inserts fail.
    CanaryInsertsFail,
    /// Its lag grows.
    CanaryLagGrows,
    /// It falls behind the nodes' logs.
    CanaryFallsBehind,
    /// It loses nodes' logs.
    CanaryLosesLogs,
    /// It reads nothing.
    CanaryReadsNothing,
);

impl FaultKind {
    /// Returns the kind with this name, if one exists.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a new unit failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFault {
    /// The kind.
    pub kind: FaultKind,
    /// The observation with its figures, for people.
    pub text: String,
}

impl UnitFault {
    /// Creates a fault.
    #[must_use]
    pub fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// A pod, with the figures that a rollout decides by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Why it does not run, if it doesn't.
    pub figures: PodFigures,
    /// Whether it runs the newest template.
    pub updated: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// How long it has been unready or missing, in seconds; 0 when it is ready.
    pub not_ready_seconds: i64,
    /// How often the kubelet ever restarted its container.
    pub restarts: u32,
    /// The last exit code of its container.
    pub exit_code: Option<i32>,
    /// The container's termination message, when it ended with an error.
    pub termination_message: String,
}

impl Member {
    /// Returns the fault that this pod alone shows, if any.
    #[must_use]
    pub fn find_fault(&self) -> Option<UnitFault> {
        let name = &self.figures.name;
        if self.exit_code == Some(EXIT_SETTINGS) {
            let words = if self.termination_message.is_empty() {
                "see its log"
            } else {
                &self.termination_message
            };
            let text = format!("pod {name}: the collector refuses its configuration: {words}");
            return Some(UnitFault::new(FaultKind::ConfigurationRejected, text));
        }
        if self.figures.missing {
            let text = format!(
                "pod {name} was not created within {NOT_READY_SECONDS_MAX} s: a quota or an \
                 admission rule refuses it; the workload's events name it"
            );
            let is_late = self.not_ready_seconds >= NOT_READY_SECONDS_MAX;
            return is_late.then(|| UnitFault::new(FaultKind::PodCreationFailed, text));
        }
        let out_of_memory = self.figures.last_ended.as_deref() == Some("OOMKilled");
        if out_of_memory && self.restarts > 0 {
            let text = format!("pod {name} exceeded its memory limit (OOMKilled)");
            return Some(UnitFault::new(FaultKind::PodOutOfMemory, text));
        }
        if self.restarts > RESTARTS_MAX {
            let words = &self.termination_message;
            let detail = if words.is_empty() { String::new() } else { format!(": {words}") };
            let text = format!("pod {name} restarted {} times{detail}", self.restarts);
            return Some(UnitFault::new(FaultKind::PodCrashing, text));
        }
        let trouble = self.figures.find_trouble();
        match trouble {
            // A node may still be added for it, or return; the time limit below catches the rest.
            None | Some(Trouble::Unschedulable | Trouble::NodeLost) => {}
            Some(trouble) if self.not_ready_seconds >= TROUBLE_SECONDS => {
                return Some(self.fault_of_trouble(trouble));
            }
            Some(_) => {}
        }
        if self.ready || self.not_ready_seconds < NOT_READY_SECONDS_MAX {
            return None;
        }
        Some(trouble.map_or_else(
            || {
                let text = format!("pod {name} is not ready after {NOT_READY_SECONDS_MAX} s");
                UnitFault::new(FaultKind::PodsNotReady, text)
            },
            |trouble| self.fault_of_trouble(trouble),
        ))
    }

    fn fault_of_trouble(&self, fault_of_trouble: Trouble) -> UnitFault {
        let PodFigures { name, message, .. } = &self.figures;
        let (kind, what) = match fault_of_trouble {
            Trouble::ImagePull => (FaultKind::ImagePullFailed, "its image can't be pulled"),
            Trouble::Configuration => {
                (FaultKind::PodCreationFailed, "its container can't be created")
            }
            Trouble::OutOfMemory => (FaultKind::PodOutOfMemory, "it exceeds its memory limit"),
            Trouble::CrashLoop => (FaultKind::PodCrashing, "it crashes repeatedly"),
            Trouble::NodeLost => {
                let text = format!("pod {name}: {message}; {NODE_LOST_REMEDY}");
                return UnitFault::new(FaultKind::PodsNotReady, text);
            }
            Trouble::Unschedulable => (FaultKind::PodUnschedulable, "no node fits it"),
        };
        let detail = [message, &self.termination_message].into_iter().find(|it| !it.is_empty());
        let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
        UnitFault::new(kind, format!("pod {name}: {what}{detail}"))
    }
}
