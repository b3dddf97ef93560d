//! Watches the names of the namespaces that a label selector chooses, by their metadata.
//!
//! The API server applies the selector, so a namespace that gains or loses a label is added or
//! removed. A file records the choice for a process that starts while the API server is away.
//! Without a record, no namespace is known until the API server answers. Later failures leave the
//! known namespaces unchanged.
//!
//! Limits: [`NAMESPACES_MAX`] namespaces; a page of the list has [`LIST_BYTES_MAX`].

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use millrace_config::{LabelSelector, push_encoded};
use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::pods::Namespaces;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use prometheus::{IntCounter, IntGauge};
use serde::{Deserialize, Serialize};

use crate::api::event::Object;
use crate::api::list_watch::{ListWatch, ObjectStore};
use crate::api::reported_fault::ReportedFault;
use crate::api::watch_loop;
use crate::api::{ApiEndpoint, ApiError, EVENT_BYTES_MAX, ListQuery, METADATA, WatchRequest};

/// The most namespaces that are known: Kubernetes is tested with 10,000. With 100 bytes each they
/// take 1.6 MB, and as much again while they are recorded.
pub const NAMESPACES_MAX: usize = 16_384;

/// The longest page of the list. API servers answer from memory in one page, whatever limit is
/// requested: 16,384 namespaces with 1 KiB of metadata.
const LIST_BYTES_MAX: usize = 16 << 20;

/// Lists from the API server's memory; in pages, if it supports them.
const LISTING: ListQuery = ListQuery {
    form: HeaderValue::from_static(
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ),
    bytes_max: LIST_BYTES_MAX,
    first: "limit=500&resourceVersion=0",
    next: "limit=500",
};

/// Waits between attempts: a new namespace is read within seconds of the API server's return.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// The metrics of all watches of namespaces.
#[derive(Clone, Debug)]
pub struct NamespaceWatchMetrics {
    failed: IntCounter,
    refused: IntGauge,
}

/// The chosen namespaces.
struct NamespaceSelection {
    record: SelectionFile,
    chosen: IntGauge,
    metrics: NamespaceWatchMetrics,
    published: Arc<Namespaces>,
    names: HashSet<String>,
    reported: ReportedFault,
    has_reported_limit: bool,
}

/// The file that records the last choice.
struct SelectionFile {
    path: PathBuf,
    selector: String,
    has_failed: bool,
}

/// The content of a record.
#[derive(Serialize, Deserialize)]
struct RecordContent {
    /// The selector of the choice. Another selector's record is ignored.
    selector: String,
    namespaces: HashSet<String>,
}

/// Starts the watch as a task of the current runtime, which ends with it. `record` is a file for
/// this process only, which survives it.
///
/// # Errors
/// The metrics are registered already.
pub fn start_namespaces(
    endpoint: ApiEndpoint,
    selector: &LabelSelector,
    record: PathBuf,
    telemetry: &Telemetry,
    metrics: NamespaceWatchMetrics,
) -> Result<Arc<Namespaces>, TelemetryError> {
    let chosen = telemetry.gauge(
        "millrace_namespaces_selected",
        "Namespaces that namespaceSelector matches; 0 while that is unknown.",
    )?;
    let text = selector.to_string();
    let mut parameter = "labelSelector=".to_owned();
    push_encoded(&mut parameter, &text);
    let published = Arc::new(Namespaces::default());
    let choice = NamespaceSelection {
        record: SelectionFile { path: record, selector: text, has_failed: false },
        chosen,
        metrics,
        published: Arc::clone(&published),
        names: HashSet::new(),
        reported: ReportedFault::default(),
        has_reported_limit: false,
    };
    watch_namespaces(endpoint, parameter, choice);
    Ok(published)
}

/// Starts a watch of the namespaces that a parameter selects, or of all, as a task of the current
/// runtime.
pub(crate) fn watch_namespaces(
    endpoint: ApiEndpoint,
    selector: String,
    store: impl ObjectStore + 'static,
) {
    let question = WatchRequest {
        path: "/api/v1/namespaces".to_owned(),
        selector,
        form: METADATA,
        bytes_max: EVENT_BYTES_MAX,
        right: "a ClusterRole that allows list and watch on namespaces",
    };
    let watch = ListWatch::new(endpoint, question, LISTING, store);
    tokio::spawn(watch_loop::watch_forever(watch, BACKOFF));
}

impl ObjectStore for NamespaceSelection {
    type All = HashSet<String>;

    fn add_listed(&mut self, all: &mut Self::All, object: Object) {
        self.insert(all, object);
    }

    fn replace_all(&mut self, all: Self::All) {
        let is_new = self.published.chosen().is_none_or(|known| *known != all);
        self.names = all;
        if is_new {
            self.publish_names();
            self.save_record();
        }
    }

    fn upsert_object(&mut self, object: Object) {
        let mut names = std::mem::take(&mut self.names);
        let has_changed = self.insert(&mut names, object);
        self.names = names;
        if has_changed {
            self.publish_names();
            self.save_record();
        }
    }

    fn remove_object(&mut self, name: &str) {
        if self.names.remove(name) {
            self.publish_names();
            self.save_record();
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

    /// Logs a fault until it changes. At a start, this loads the record.
    fn report_failure(&mut self, error: &ApiError) {
        if self.published.chosen().is_none()
            && let Some(namespaces) = self.record.read()
        {
            tracing::warn!(
                namespaces = namespaces.len(),
                "cannot query namespaces from the API server: using the last selection"
            );
            self.names = namespaces;
            self.publish_names();
        }
        if self.reported.record_failure(error) {
            let consequence = match self.published.chosen() {
                Some(_) => "the last selection stays in use",
                None => "no container logs are read until the API server answers",
            };
            tracing::warn!(%error, consequence, "cannot watch namespaces");
        }
    }
}

impl NamespaceSelection {
    /// Inserts a namespace. Returns whether it is new.
    fn insert(&mut self, names: &mut HashSet<String>, object: Object) -> bool {
        let name = object.metadata.name;
        if names.len() < NAMESPACES_MAX || names.contains(&name) {
            return names.insert(name);
        }
        if !std::mem::replace(&mut self.has_reported_limit, true) {
            tracing::error!(
                namespace = name,
                "namespaceSelector matches more than {NAMESPACES_MAX} namespaces: some are not read"
            );
        }
        false
    }

    fn publish_names(&self) {
        self.chosen.set(i64::try_from(self.names.len()).unwrap_or(i64::MAX));
        self.published.set_chosen(self.names.clone());
    }

    fn save_record(&mut self) {
        self.record.save_names(&self.names);
    }
}

impl SelectionFile {
    /// Returns the last choice of this selector, if it was recorded.
    fn read(&self) -> Option<HashSet<String>> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "cannot read the stored selection of namespaces");
                return None;
            }
        };
        match serde_json::from_slice::<RecordContent>(&text) {
            Ok(recorded) => (recorded.selector == self.selector).then_some(recorded.namespaces),
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the stored selection of namespaces is corrupt");
                None
            }
        }
    }

    /// Replaces the record. A failure is logged once: the next change tries again.
    fn save_names(&mut self, namespaces: &HashSet<String>) {
        let recorded =
            RecordContent { selector: self.selector.clone(), namespaces: namespaces.clone() };
        let text = serde_json::to_vec(&recorded).unwrap_or_default();
        let failed = replace_file(&self.path, &text).err();
        if let Some(error) = &failed
            && !self.has_failed
        {
            let path = self.path.display();
            tracing::error!(
                %path,
                %error,
                "cannot store the selection of namespaces: after a restart, no container logs \
                 would be read until the API server answers"
            );
        }
        self.has_failed = failed.is_some();
    }
}

/// Replaces a file atomically: readers, also after a crash, find either the old or the new content.
fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(next, path)?;
    File::open(folder)?.sync_all()
}

impl NamespaceWatchMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// They are registered already.
    pub fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        Ok(Self {
            failed: telemetry.counter(
                "millrace_namespaces_watch_failed_total",
                "Times that the API server could not be queried for namespaces, or that its answer \
                 could not be read.",
            )?,
            refused: telemetry.gauge(
                "millrace_namespaces_watch_forbidden",
                "1 while the API server denies the watch of namespaces for lack of a permission.",
            )?,
        })
    }

    pub(crate) fn record_failure(&self, error: &ApiError) {
        self.failed.inc();
        if matches!(error, ApiError::Forbidden { .. }) {
            self.refused.set(1);
        }
    }

    pub(crate) fn record_answered(&self) {
        self.refused.set(0);
    }
}
