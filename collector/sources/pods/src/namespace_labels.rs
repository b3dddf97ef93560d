//! Watches the labels of namespaces, which the records of their pods get.
//!
//! Nothing waits for it: pods have no labels of their namespace before the first list, and retain
//! those that are known while the API server is away.
//!
//! Limits: [`NAMESPACES_MAX`] namespaces, and the memory of the table of pods.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use millrace_processing::enrich::PodAttributes;

use crate::api::{ApiEndpoint, ApiError, EVENT_BYTES_MAX, METADATA, WatchRequest};
use crate::event::Object;
use crate::identity_table::IdentityTable;
use crate::list_watch::{ListWatch, ObjectStore};
use crate::namespaces::{BACKOFF, LISTING, NAMESPACES_MAX, NamespaceWatchMetrics, PATH, RIGHT};
use crate::watch_loop::{self, WatchSource};

struct LabelWatch {
    listed: ListWatch,
    labels: NamespaceLabels,
}

/// Gives a table the labels of namespaces.
struct NamespaceLabels {
    /// The labels that become attributes.
    requested: Vec<String>,
    table: Arc<IdentityTable>,
    metrics: NamespaceWatchMetrics,
    /// The namespaces that the table has.
    names: HashSet<String>,
    /// The fault that was logged last.
    reported: Option<String>,
    has_reported_limit: bool,
}

/// Starts the watch as a task of the current runtime, which ends with it.
pub fn start_namespace_labels(
    endpoint: ApiEndpoint,
    requested: Vec<String>,
    table: Arc<IdentityTable>,
    metrics: NamespaceWatchMetrics,
) {
    let question = WatchRequest {
        path: PATH.to_owned(),
        selector: String::new(),
        form: METADATA,
        bytes_max: EVENT_BYTES_MAX,
        right: RIGHT,
    };
    let labels = NamespaceLabels {
        requested,
        table,
        metrics,
        names: HashSet::new(),
        reported: None,
        has_reported_limit: false,
    };
    let watch = LabelWatch { listed: ListWatch::new(endpoint, question, LISTING), labels };
    tokio::spawn(watch_loop::watch_forever(watch, BACKOFF));
}

impl WatchSource for LabelWatch {
    async fn watch_once(&mut self, duration: Duration) -> Result<(), ApiError> {
        self.listed.watch_once(&mut self.labels, duration).await
    }

    fn take_progress(&mut self) -> bool {
        self.listed.take_progress()
    }

    fn record_failure(&mut self, error: &ApiError) {
        self.labels.metrics.record_failure(error);
        if !self.listed.must_relist(error) {
            self.labels.report_failure(error);
        }
    }
}

impl ObjectStore for NamespaceLabels {
    type All = Vec<(String, PodAttributes)>;

    fn add_listed(&mut self, all: &mut Self::All, object: Object) {
        let attributes = self.select_labels(&object);
        all.push((object.metadata.name, attributes));
    }

    fn is_full(&self, all: &Self::All) -> bool {
        all.len() >= NAMESPACES_MAX
    }

    fn replace_all(&mut self, all: Self::All) {
        let mut gone = std::mem::take(&mut self.names);
        for (name, attributes) in all {
            gone.remove(&name);
            self.set_namespace(name, attributes);
        }
        gone.iter().for_each(|name| self.table.remove_namespace(name));
    }

    fn upsert_object(&mut self, object: Object) {
        let attributes = self.select_labels(&object);
        self.set_namespace(object.metadata.name, attributes);
    }

    fn remove_object(&mut self, name: &str) {
        if self.names.remove(name) {
            self.table.remove_namespace(name);
        }
    }

    fn record_answered(&mut self) {
        self.metrics.record_answered();
        if self.reported.take().is_some() {
            tracing::info!("the watch of namespaces works again");
        }
    }
}

impl NamespaceLabels {
    fn select_labels(&mut self, object: &Object) -> PodAttributes {
        let (attributes, omitted) = object.metadata.namespace_attributes(&self.requested);
        if omitted > 0 {
            self.report_limit(&object.metadata.name);
        }
        attributes
    }

    fn set_namespace(&mut self, name: String, attributes: PodAttributes) {
        let is_within = self.names.contains(&name) || self.names.len() < NAMESPACES_MAX;
        if !is_within || !self.table.set_namespace(&name, attributes) {
            self.report_limit(&name);
        }
        if is_within {
            self.names.insert(name);
        }
    }

    fn report_limit(&mut self, namespace: &str) {
        if !std::mem::replace(&mut self.has_reported_limit, true) {
            tracing::warn!(
                namespace,
                "the namespaces, or their labels, exceed the limit: some records get no labels of \
                 their namespace"
            );
        }
    }

    /// Logs a fault until it changes.
    fn report_failure(&mut self, error: &ApiError) {
        let text = error.to_string();
        if self.reported.as_ref() != Some(&text) {
            tracing::warn!(
                %error,
                "cannot watch namespaces: records of unknown ones are sent without their labels"
            );
            self.reported = Some(text);
        }
    }
}
