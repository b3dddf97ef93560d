//! Decides when an object is reconciled again without an event. Pure.

use std::time::Duration;

use kube::runtime::controller::Action;

use crate::hash::spread_by;

/// The time of an object's next reconcile without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Only when the object or one of its children changes.
    OnChange,
    /// After this time at the latest.
    After(Duration),
    /// After this time, or up to half of it earlier, by the object's name: this spreads objects
    /// that were created together, or read at one start.
    Within(Duration),
}

impl Next {
    /// Returns the controller's action.
    pub(super) fn to_action(self, key: &str) -> Action {
        match self {
            Self::OnChange => Action::await_change(),
            Self::After(delay) => Action::requeue(delay),
            Self::Within(delay) => Action::requeue(delay - spread_by(key, delay / 2)),
        }
    }
}
