//! Watches the labels of namespaces, which the records of their pods get.
//!
//! Nothing waits for it: pods have no labels of their namespace before the first list, and retain
//! those that are known while the API server is away.
//!
//! Limits: [`NAMESPACES_MAX`] namespaces, and the memory of the table of pods.

use std::collections::HashSet;
use std::sync::Arc;

use millrace_processing::enrich::PodAttributes;

use crate::api::event::Object;
use crate::api::list_watch::ObjectStore;
use crate::api::reported_fault::ReportedFault;
use crate::api::{ApiEndpoint, ApiError};
use crate::identity_table::IdentityTable;
use crate::namespaces::{NAMESPACES_MAX, NamespaceWatchMetrics, watch_namespaces};

/// Gives a table the labels of namespaces.
struct NamespaceLabels {
    /// The labels that become attributes.
    requested: Vec<String>,
    table: Arc<IdentityTable>,
    metrics: NamespaceWatchMetrics,
    /// The namespaces that the table has.
    names: HashSet<String>,
    reported: ReportedFault,
    has_reported_limit: bool,
}

/// Starts the watch as a task of the current runtime, which ends with it.
pub fn start_namespace_labels(
    endpoint: ApiEndpoint,
    requested: Vec<String>,
    table: Arc<IdentityTable>,
    metrics: NamespaceWatchMetrics,
) {
    let labels = NamespaceLabels {
        requested,
        table,
        metrics,
        names: HashSet::new(),
        reported: ReportedFault::default(),
        has_reported_limit: false,
    };
    watch_namespaces(endpoint, String::new(), labels);
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
        let mut missing = std::mem::take(&mut self.names);
        for (name, attributes) in all {
            missing.remove(&name);
            self.set_namespace(name, attributes);
        }
        missing.iter().for_each(|name| self.table.remove_namespace(name));
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
        if self.reported.end_fault() {
            tracing::info!("the watch of namespaces works again");
        }
    }

    fn count_failure(&mut self, error: &ApiError) {
        self.metrics.record_failure(error);
    }

    /// Logs a fault until it changes.
    fn report_failure(&mut self, error: &ApiError) {
        if self.reported.record_failure(error) {
            tracing::warn!(
                %error,
                "cannot watch namespaces: records of unknown ones are sent without their labels"
            );
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
}
