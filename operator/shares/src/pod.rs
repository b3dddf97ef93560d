//! Pods as the decision sees them, and what they count as by what was last heard of them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A pod's name, used for one pod and never again. Where a StatefulSet gives a name to the next pod
/// too, the caller adds the pod's uid: otherwise the new pod would take up the old one's document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct PodName(Arc<str>);

impl PodName {
    /// Of this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for PodName {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<PodName> for String {
    fn from(name: PodName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl Borrow<str> for PodName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a pod counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It has not reported yet: it gets no targets.
    Starting,
    /// It works.
    Ready,
    /// It works, and is about to end: its targets are handed over, and it gets none.
    Leaving,
    /// It doesn't answer and is taken for dead. Nobody waits for it.
    Gone,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// What it counts as.
    pub state: PodState,
    /// Where it runs, if that is known.
    pub zone: Option<String>,
}

/// What was seen of a pod. Times are seconds on the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its object is deleted, so its process is too.
    pub deleted: bool,
    /// It has been asked to end.
    pub terminating: bool,
    /// When it was last heard, or first looked for: a new operator counts from its own start.
    pub heard_at: i64,
    /// The version of its share that it last reported to have taken up; none yet: it starts.
    pub reported: Option<u64>,
}

/// What a pod counts as, at `now`.
#[must_use]
pub fn state(seen: &Seen, now: i64, silent_seconds: i64) -> PodState {
    let silent = now.saturating_sub(seen.heard_at) >= silent_seconds;
    match seen {
        Seen { deleted: true, .. } => PodState::Gone,
        // One that never reported may hold targets all the same: the operator may be new.
        _ if silent => PodState::Gone,
        Seen { terminating: true, .. } => PodState::Leaving,
        Seen { reported: None, .. } => PodState::Starting,
        Seen { .. } => PodState::Ready,
    }
}
