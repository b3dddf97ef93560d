//! Why a new unit fails, in stable words; and the faults of one of its pods.

use std::fmt;

use crate::pod::{PodFigures, Trouble};

/// How long a pod may be in trouble before that counts, in seconds: a kubelet has tried to pull an
/// image three times by then (after 0, 10 and 30 s).
const TROUBLE_SECONDS: i64 = 45;
/// How long a pod may take to become ready, in seconds. A start takes seconds, and start-up probes
/// wait 60 s for a broker; with the looks in between, a rollback begins within 3 minutes.
const NOT_READY_SECONDS_MAX: i64 = 150;
/// Restarts that pass: one may be a broker that was not there yet.
const RESTARTS_MAX: u32 = 1;
/// The collector's exit code for settings that it can't use.
pub const EXIT_SETTINGS: i32 = 64;

/// What a person can do about a pod whose node doesn't answer.
pub const NODE_LOST_REMEDY: &str = "bring the node back or, once it is surely off, delete the pod \
                                    with --force, so that another is made";

macro_rules! kinds {
    ($( $(#[doc = $doc:literal])+ $kind:ident, )+) => {
        /// The kinds of faults; the words are stable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultKind { $( $(#[doc = $doc])+ $kind, )+ }

        impl FaultKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$kind, )+];

            /// The stable word.
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
    /// The container can't be made.
    PodsRefused,
    /// A pod used more memory than its limit.
    PodOutOfMemory,
    /// A pod ended again and again.
    PodCrashing,
    /// A pod fits on no node.
    PodUnschedulable,
    /// The collector refuses its configuration.
    SettingsRefused,
    /// A pod was not ready in time.
    PodsNotReady,
    /// Records are not accounted for.
    CanaryUnaccounted,
    /// Fewer records per CPU-second.
    CanarySlower,
    /// More memory.
    CanaryMemory,
    /// Inserts fail.
    CanaryInsertsFail,
    /// Lag grows.
    CanaryLagGrows,
    /// Logs of nodes fall behind.
    CanaryFallsBehind,
    /// Logs of nodes go unread.
    CanaryLosesLogs,
    /// Nothing is read.
    CanaryReadsNothing,
);

impl FaultKind {
    /// The kind of this word, if there is one.
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

/// Why a new unit is not good enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// What was seen, for people, with the figures.
    pub text: String,
}

impl Fault {
    /// A fault.
    #[must_use]
    pub fn new(kind: FaultKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

/// A pod as a rollout sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// What keeps it from running, if anything.
    pub figures: PodFigures,
    /// It runs the newest template.
    pub updated: bool,
    /// It is ready.
    pub ready: bool,
    /// Since when it is not ready, in seconds; 0 when it is.
    pub not_ready_seconds: i64,
    /// How often its container was started again, ever.
    pub restarts: u32,
    /// The exit code its container ended with last.
    pub exit_code: Option<i32>,
    /// The container's last words, when it ended with an error.
    pub last_words: String,
}

impl Member {
    /// What speaks against this pod's unit by itself, if anything does.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        let name = &self.figures.name;
        if self.exit_code == Some(EXIT_SETTINGS) {
            let words = if self.last_words.is_empty() { "see its log" } else { &self.last_words };
            let text = format!("pod {name}: the collector refuses its configuration: {words}");
            return Some(Fault::new(FaultKind::SettingsRefused, text));
        }
        let out_of_memory = self.figures.last_ended.as_deref() == Some("OOMKilled");
        if out_of_memory && self.restarts > 0 {
            let text = format!("pod {name} was ended for using more memory than its limit");
            return Some(Fault::new(FaultKind::PodOutOfMemory, text));
        }
        if self.restarts > RESTARTS_MAX {
            let words = &self.last_words;
            let said = if words.is_empty() { String::new() } else { format!(": {words}") };
            let text = format!("pod {name} was started again {} times{said}", self.restarts);
            return Some(Fault::new(FaultKind::PodCrashing, text));
        }
        let trouble = self.figures.trouble();
        match trouble {
            // A node may still be made for it, or come back; that it takes too long is caught
            // below.
            None | Some(Trouble::Unschedulable | Trouble::NodeLost) => {}
            Some(trouble) if self.not_ready_seconds >= TROUBLE_SECONDS => {
                return Some(self.trouble(trouble));
            }
            Some(_) => {}
        }
        if self.ready || self.not_ready_seconds < NOT_READY_SECONDS_MAX {
            return None;
        }
        Some(trouble.map_or_else(
            || {
                let text = format!("pod {name} is not ready after {NOT_READY_SECONDS_MAX} s");
                Fault::new(FaultKind::PodsNotReady, text)
            },
            |trouble| self.trouble(trouble),
        ))
    }

    fn trouble(&self, trouble: Trouble) -> Fault {
        let PodFigures { name, message, .. } = &self.figures;
        let (kind, what) = match trouble {
            Trouble::ImagePull => (FaultKind::ImagePullFailed, "its image can't be pulled"),
            Trouble::Configuration => (FaultKind::PodsRefused, "its container can't be made"),
            Trouble::OutOfMemory => {
                (FaultKind::PodOutOfMemory, "it uses more memory than its limit")
            }
            Trouble::CrashLoop => (FaultKind::PodCrashing, "it ends again and again"),
            Trouble::NodeLost => {
                let text = format!("pod {name}: {message}; {NODE_LOST_REMEDY}");
                return Fault::new(FaultKind::PodsNotReady, text);
            }
            Trouble::Unschedulable => (FaultKind::PodUnschedulable, "it fits on no node"),
        };
        let said = [message, &self.last_words].into_iter().find(|it| !it.is_empty());
        let said = said.map_or_else(String::new, |said| format!(": {said}"));
        Fault::new(kind, format!("pod {name}: {what}{said}"))
    }
}
