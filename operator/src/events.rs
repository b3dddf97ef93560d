//! Events on the user's objects: one per decision or change, never one per reconcile.
//!
//! The recorder joins repeated events into a series. An event that cannot be published is logged
//! and counted; it never fails a reconcile.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use millrace_crds::Reason;

use crate::error::{StepError, chain};
use crate::metrics::Metrics;

/// The name events are reported under.
const CONTROLLER: &str = "millrace-operator";
/// The API server refuses notes longer than 1 kB.
const NOTE_BYTES_MAX: usize = 1000;

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether a human should look at it.
    pub warning: bool,
    /// Stable, CamelCase, listed in the documentation.
    pub reason: String,
    /// What was being done, such as `Reconcile` or `Scale`.
    pub action: &'static str,
    /// What happened, where, and what to do next. No secret, no stack of causes over 1 kB.
    pub note: String,
}

impl Notice {
    /// Something went as it should.
    pub fn normal(
        reason: impl Into<String>,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self { warning: false, reason: reason.into(), action, note: note.into() }
    }

    /// Something a human should look at.
    pub fn warning(
        reason: impl Into<String>,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self { warning: true, reason: reason.into(), action, note: note.into() }
    }
}

impl Notice {
    /// Cleaning up outside Kubernetes was given up; `remains` says what is left behind.
    pub fn given_up(remains: &str, error: &StepError) -> Self {
        let note =
            format!("deletion was not possible and was given up: {remains}: {}", chain(error));
        Self::warning(Reason::DeletionGivenUp.as_str(), "Delete", note)
    }
}

/// Publishes events.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
    metrics: Metrics,
}

impl Events {
    /// Events reported by the replica `instance`.
    #[must_use]
    pub fn new(client: Client, instance: String, metrics: Metrics) -> Self {
        let reporter = Reporter { controller: CONTROLLER.into(), instance: Some(instance) };
        Self { recorder: Recorder::new(client, reporter), metrics }
    }

    /// Publishes `notice` about `regarding`.
    pub async fn publish(&self, regarding: &ObjectReference, notice: Notice) {
        let Notice { warning, reason, action, note } = notice;
        let event = Event {
            type_: if warning { EventType::Warning } else { EventType::Normal },
            reason,
            note: Some(cut(note)),
            action: action.into(),
            secondary: None,
        };
        let outcome = self.recorder.publish(&event, regarding).await;
        self.metrics.event(outcome.is_ok());
        if let Err(error) = outcome {
            tracing::warn!(
                object = regarding.name,
                reason = event.reason,
                %error,
                "an event could not be published"
            );
        }
    }
}

/// Cuts a note at a character boundary within the API server's limit.
fn cut(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        let mut end = NOTE_BYTES_MAX - "...".len();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a note of many two-byte letters. Guarantee: cut inside the limit, still text.
    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let note = cut("é".repeat(900));
        assert!(note.len() <= NOTE_BYTES_MAX && note.ends_with("..."));
        assert_eq!(cut("short".into()), "short");
    }
}
