//! Whether the process can do its work, with one sentence for each part that can't.
//!
//! A part is registered before it starts and counts as not ready until it reports ready; the
//! process is ready when all its parts are. A working part may have a note that a person should
//! check although records flow. Reasons and notes are for people: no secrets, one line, bounded
//! length.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest reason or note stored, in bytes; longer ones are cut.
const MAX_REASON_BYTES: usize = 512;

/// The readiness of all parts, shared by clones.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    parts: Arc<Mutex<Vec<PartState>>>,
}

#[derive(Debug)]
struct PartState {
    name: &'static str,
    /// Why the part is not ready; `None` when it is.
    reason: Option<String>,
    /// What needs attention although the part works.
    warning: Option<String>,
}

/// One part's handle. Dropping it retains the last state.
#[derive(Debug, Clone)]
pub struct ReadinessPart {
    readiness: Readiness,
    index: usize,
}

impl Readiness {
    /// Adds a part, which is not ready because it is starting.
    #[must_use]
    pub fn add_part(&self, name: &'static str) -> ReadinessPart {
        let mut parts = self.lock();
        parts.push(PartState { name, reason: Some("starting".to_owned()), warning: None });
        ReadinessPart { readiness: self.clone(), index: parts.len() - 1 }
    }

    /// Returns why the process isn't ready, as `part: reason`; empty when it is ready.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter_map(|part| Some(format!("{}: {}", part.name, part.reason.as_ref()?)))
            .collect()
    }

    /// Returns what needs attention although the process works, as `part: note`.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let parts = self.lock();
        let note = |part: &PartState| Some(format!("{}: {}", part.name, part.warning.as_ref()?));
        parts.iter().filter_map(note).collect()
    }

    /// Whether all parts are ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.lock().iter().all(|part| part.reason.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PartState>> {
        // Each writer replaces a complete value, so a poisoned lock still guards complete values.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadinessPart {
    /// Reports that the part works. Returns whether that changed.
    pub fn set_ready(&self) -> bool {
        self.set_reason(None)
    }

    /// Reports why the part does not work. Returns whether that changed.
    pub fn set_not_ready(&self, reason: impl std::fmt::Display) -> bool {
        self.set_reason(Some(bounded_line(&reason.to_string())))
    }

    /// Sets what needs attention although the part works; `None` clears it. Readiness ignores it.
    /// Returns whether it changed.
    pub fn set_warning(&self, note: Option<String>) -> bool {
        let note = note.as_deref().map(bounded_line);
        let mut parts = self.readiness.lock();
        let Some(part) = parts.get_mut(self.index) else { return false };
        let news = part.warning != note;
        part.warning = note;
        news
    }

    /// Whether this part is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness.lock().get(self.index).is_some_and(|part| part.reason.is_none())
    }

    fn set_reason(&self, reason: Option<String>) -> bool {
        let mut parts = self.readiness.lock();
        let Some(part) = parts.get_mut(self.index) else {
            return false;
        };
        let news = part.reason != reason;
        part.reason = reason;
        news
    }
}

/// Returns a text as it is stored: one line of bounded length.
fn bounded_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if line.len() + c.len_utf8() > MAX_REASON_BYTES {
            break;
        }
        line.push(if c.is_control() { ' ' } else { c });
    }
    line
}

#[cfg(test)]
mod tests;
