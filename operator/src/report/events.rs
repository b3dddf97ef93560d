//! Events on the user's objects: one per decision or change, never one per reconcile.
//!
//! The same text about the same object within some minutes becomes a series; another text is a
//! separate event (kube's recorder joins by reason only and would lose later notes). An event that
//! can't be published is logged and counted; it never fails a reconcile.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};

use millrace_autoscale as rule;
use millrace_crds::{EventReason, Reason};

use crate::error::{StepError, error_chain};
use crate::telemetry::metrics::{Counter, Metrics};

/// The name of the reporting controller in events.
const CONTROLLER: &str = "millrace-operator";
/// The API server refuses notes longer than 1 kB.
const NOTE_BYTES_MAX: usize = 1000;
/// A repeat after this long is a new event, as in Kubernetes' own components.
const SERIES_GAP: Duration = Duration::from_secs(360);
/// Maximum number of events remembered for series. Each takes about 1 KiB: 512 KiB at most.
const REMEMBERED_MAX: usize = 512;

/// Why an event is published: a stable word from the list in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeReason {
    /// A reason that no condition has.
    Event(EventReason),
    /// A reason that conditions have, or could have.
    Condition(Reason),
    /// A change of the number of gateways.
    Sized(rule::ScalingReason),
}

impl From<EventReason> for NoticeReason {
    fn from(reason: EventReason) -> Self {
        Self::Event(reason)
    }
}

impl From<Reason> for NoticeReason {
    fn from(reason: Reason) -> Self {
        Self::Condition(reason)
    }
}

impl fmt::Display for NoticeReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(reason) => formatter.write_str(reason.as_str()),
            Self::Condition(reason) => formatter.write_str(reason.as_str()),
            Self::Sized(reason) => write!(formatter, "Sized{}", reason.as_str()),
        }
    }
}

/// The content of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether a human should act on it.
    pub warning: bool,
    /// Why it is published.
    pub reason: NoticeReason,
    /// The action, for example `Reconcile` or `Scale`.
    pub action: &'static str,
    /// What happened, where, and what to do next. No secret, no chain of causes over 1 kB.
    pub note: String,
}

impl Notice {
    /// Creates a normal event.
    pub fn normal(
        reason: impl Into<NoticeReason>,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self { warning: false, reason: reason.into(), action, note: note.into() }
    }

    /// Creates a warning.
    pub fn warning(
        reason: impl Into<NoticeReason>,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self { warning: true, reason: reason.into(), action, note: note.into() }
    }

    /// Warns that cleanup outside Kubernetes was abandoned; `remains` states what was not deleted.
    pub fn deletion_abandoned(remains: &str, error: &StepError) -> Self {
        let note = format!("deletion failed and was abandoned: {remains}: {}", error_chain(error));
        Self::warning(Reason::DeletionFailed, "Delete", note)
    }

    /// Warns that deletion outside Kubernetes was skipped, because another object uses the same
    /// thing.
    pub fn deletion_skipped(remains: &str, another: &str) -> Self {
        let note = format!("{remains}: {another}");
        Self::warning(Reason::HeldByAnother, "Delete", note)
    }
}

/// Publishes events; clones share the remembered events.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
    metrics: Metrics,
    recent: Arc<Mutex<HashMap<EventKey, Recent>>>,
}

const PUBLISHED: Counter<1> =
    Counter::new("millrace_operator_events_total", "Events published, by result.", ["result"]);

/// Identifies an event by object, reason and text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    uid: Option<String>,
    reason: NoticeReason,
    note: String,
}

#[derive(Clone, Debug)]
struct Recent {
    name: String,
    count: i32,
    at: Instant,
}

impl Events {
    /// Creates a publisher for the replica `instance`.
    #[must_use]
    pub fn new(client: Client, instance: String, metrics: Metrics) -> Self {
        Self { client, instance, metrics, recent: Arc::default() }
    }

    /// Publishes `notice` about `regarding`.
    pub async fn publish(&self, regarding: &ObjectReference, mut notice: Notice) {
        notice.note = cut_note(notice.note);
        let reason = notice.reason;
        let outcome = self.send_event(regarding, notice).await;
        let result = if outcome.is_ok() { "ok" } else { "failed" };
        self.metrics.count(&PUBLISHED, [result]);
        if let Err(error) = outcome {
            let object = regarding.name.as_deref().unwrap_or_default();
            tracing::warn!(object, %reason, %error, "an event could not be published");
        }
    }

    async fn send_event(
        &self,
        regarding: &ObjectReference,
        notice: Notice,
    ) -> Result<(), kube::Error> {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let key = EventKey {
            uid: regarding.uid.clone(),
            reason: notice.reason,
            note: notice.note.clone(),
        };
        if let Some(recent) = self.count_repeat(&key) {
            let series = EventSeries {
                count: recent.count,
                last_observed_time: MicroTime(Timestamp::now()),
            };
            let patch = Patch::Merge(serde_json::json!({ "series": series }));
            match api.patch(&recent.name, &PatchParams::default(), &patch).await {
                // Events live for at most an hour; an expired one is published again.
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                other => return other.map(|_| ()),
            }
        }
        let event = self.build_event(regarding, notice);
        let name = event.name_any();
        api.create(&PostParams::default(), &event).await?;
        self.record_recent(key, name);
        Ok(())
    }

    fn build_event(&self, regarding: &ObjectReference, notice: Notice) -> Event {
        let Notice { warning, reason, action, note } = notice;
        let now = Timestamp::now();
        let object = regarding.name.as_deref().unwrap_or(CONTROLLER);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{object}.{:x}", now.as_nanosecond())),
                namespace: regarding.namespace.clone(),
                ..ObjectMeta::default()
            },
            action: Some(action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(note),
            reason: Some(reason.to_string()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        }
    }

    /// Returns the event with this key, counted once more, if it is recent enough for a series.
    fn count_repeat(&self, key: &EventKey) -> Option<Recent> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent.get_mut(key).filter(|known| known.at.elapsed() < SERIES_GAP)?;
        known.count = known.count.saturating_add(1);
        known.at = Instant::now();
        Some(known.clone())
    }

    fn record_recent(&self, key: EventKey, name: String) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|_, known| known.at.elapsed() < SERIES_GAP);
        if recent.len() >= REMEMBERED_MAX {
            let oldest = recent.iter().min_by_key(|(_, known)| known.at);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                recent.remove(&oldest);
            }
        }
        recent.insert(key, Recent { name, count: 1, at: Instant::now() });
    }
}

/// Truncates a note at a character boundary within the API server's limit.
fn cut_note(mut note: String) -> String {
    if note.len() > NOTE_BYTES_MAX {
        millrace_crds::truncate_text(&mut note, NOTE_BYTES_MAX - "...".len());
        note.push_str("...");
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a note of many two-byte characters. Guarantee: it is truncated within the limit,
    /// and is still valid text.
    #[test]
    fn a_long_note_is_cut_at_a_character() {
        let note = cut_note("é".repeat(900));
        assert!(note.len() <= NOTE_BYTES_MAX && note.ends_with("..."));
        assert_eq!(cut_note("short".into()), "short");
    }
}
