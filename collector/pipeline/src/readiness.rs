//! Whether the process can do its work, with one sentence for each part that can't.
//!
//! A part is registered before it starts and counts as not ready until it reports ready; the
//! process is ready when all its parts are. A part that works may have a note: something a person
//! should check although records flow. Reasons and notes are for people: no secrets, one line,
//! bounded length.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest reason or note kept, in bytes; the rest is cut.
const MAX_REASON_BYTES: usize = 512;

/// The readiness of all parts, shared by clones.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    parts: Arc<Mutex<Vec<PartState>>>,
}

#[derive(Debug)]
struct PartState {
    name: &'static str,
    /// Why it is not ready; none when it is.
    reason: Option<String>,
    /// What needs attention although it works.
    note: Option<String>,
}

/// One part's handle. Dropping it keeps the last state.
#[derive(Debug, Clone)]
pub struct Part {
    readiness: Readiness,
    index: usize,
}

impl Readiness {
    /// Adds a part, which is not ready for the reason that it is starting.
    #[must_use]
    pub fn part(&self, name: &'static str) -> Part {
        let mut parts = self.lock();
        parts.push(PartState { name, reason: Some("starting".to_owned()), note: None });
        Part { readiness: self.clone(), index: parts.len() - 1 }
    }

    /// What keeps the process from being ready, as `part: reason`; empty when it is ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter_map(|part| Some(format!("{}: {}", part.name, part.reason.as_ref()?)))
            .collect()
    }

    /// What needs attention although the process works, as `part: note`.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let parts = self.lock();
        let note = |part: &PartState| Some(format!("{}: {}", part.name, part.note.as_ref()?));
        parts.iter().filter_map(note).collect()
    }

    /// Whether all parts are ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().iter().all(|part| part.reason.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PartState>> {
        // Each writer replaces one whole value, so a poisoned lock still guards whole values.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// Sets that the part works. True when it changed.
    pub fn ready(&self) -> bool {
        self.set(None)
    }

    /// Sets why the part does not work. True when it changed.
    pub fn not_ready(&self, reason: impl std::fmt::Display) -> bool {
        self.set(Some(kept(&reason.to_string())))
    }

    /// Sets what needs attention although the part works; `None`: nothing any more. Readiness
    /// ignores it. True when it changed.
    pub fn note(&self, note: Option<String>) -> bool {
        let note = note.as_deref().map(kept);
        let mut parts = self.readiness.lock();
        let Some(part) = parts.get_mut(self.index) else { return false };
        let news = part.note != note;
        part.note = note;
        news
    }

    /// Whether this part is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness.lock().get(self.index).is_some_and(|part| part.reason.is_none())
    }

    fn set(&self, reason: Option<String>) -> bool {
        let mut parts = self.readiness.lock();
        let Some(part) = parts.get_mut(self.index) else {
            return false;
        };
        let news = part.reason != reason;
        part.reason = reason;
        news
    }
}

/// A text as it is kept: one line of bounded length.
fn kept(text: &str) -> String {
    let mut kept = String::new();
    for c in text.chars() {
        if kept.len() + c.len_utf8() > MAX_REASON_BYTES {
            break;
        }
        kept.push(if c.is_control() { ' ' } else { c });
    }
    kept
}

#[cfg(test)]
#[path = "../tests/unit/readiness.rs"]
mod tests;
