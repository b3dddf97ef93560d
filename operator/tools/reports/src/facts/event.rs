//! Events of a pipeline's objects and pods.

use k8s_openapi::api::events::v1::Event;

use super::Facts;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    /// When it last happened, in seconds since 1970.
    pub at_second: i64,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The kind of its object.
    pub kind: String,
    /// The name of its object.
    pub name: String,
    /// The reason, as a stable word.
    pub reason: String,
    /// What happened.
    pub note: String,
    /// How often.
    pub count: i32,
}

impl EventFacts {
    /// Reads an event of the API server; `None` if it has no object or no time.
    #[must_use]
    pub fn from_event(event: &Event) -> Option<Self> {
        let object = event.regarding.as_ref()?;
        let series = event.series.as_ref();
        let last = series.map(|it| it.last_observed_time.0.as_second());
        let last = last.or_else(|| Some(event.deprecated_last_timestamp.as_ref()?.0.as_second()));
        let last = last.or_else(|| Some(event.event_time.as_ref()?.0.as_second()));
        let created = || Some(event.metadata.creation_timestamp.as_ref()?.0.as_second());
        Some(Self {
            at_second: last.or_else(created)?,
            is_warning: event.type_.as_deref() == Some("Warning"),
            kind: object.kind.clone()?,
            name: object.name.clone()?,
            reason: event.reason.clone().unwrap_or_default(),
            note: event.note.clone().unwrap_or_default(),
            count: series.map(|it| it.count).or(event.deprecated_count).unwrap_or(1).max(1),
        })
    }
}

impl Facts {
    /// Returns whether an event is about the pipeline, one of its objects or one of their pods,
    /// including pods that no longer exist.
    #[must_use]
    pub fn has_object_of(&self, event: &EventFacts) -> bool {
        let is_named = |name: &Option<String>| name.as_deref() == Some(&*event.name);
        let edges = || self.edges.iter().map(|it| &it.metadata.name);
        let gateways = || self.gateways.iter().map(|it| &it.metadata.name);
        match &*event.kind {
            "TelemetryPipeline" => is_named(&self.pipeline.metadata.name),
            "TelemetryTopic" => self.topics.iter().any(|it| is_named(&it.metadata.name)),
            "TelemetrySchema" => self.schemas.iter().any(|it| is_named(&it.metadata.name)),
            "EdgePool" => edges().any(is_named),
            "GatewayPool" => gateways().any(is_named),
            "Pod" => {
                let is_of = |pool: &Option<String>, role: &str| {
                    let rest = pool.as_deref().and_then(|pool| event.name.strip_prefix(pool));
                    rest.is_some_and(|rest| rest.starts_with(role))
                };
                self.pods.iter().any(|pod| pod.name == event.name)
                    || edges().any(|pool| is_of(pool, "-edge-"))
                    || gateways().any(|pool| is_of(pool, "-gateway-"))
            }
            _ => false,
        }
    }
}
