//! Watches the namespaces that a label selector chooses: their names, of their metadata alone.
//!
//! The API server applies the selector, so a namespace that gets or loses a label comes or goes.
//! What is chosen is recorded in a file, for a process that starts while the API server is away: it
//! goes by the record then. Without one, nothing is known until the API server answers. Whatever
//! goes wrong later, what is known stands.
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

use crate::again::{self, Watched};
use crate::api::{ApiError, EVENT_BYTES_MAX, Endpoint, Listing, METADATA, Question};
use crate::event::Object;
use crate::listed::{Known, Listed};

/// Most namespaces that are known: Kubernetes is tested with 10,000. Of 100 bytes each they are
/// 1.6 MB, and as much again while they are recorded.
pub const NAMESPACES_MAX: usize = 16_384;

/// The longest page of the list. API servers answer from memory in one page, whatever is asked:
/// 16,384 namespaces of 1 KiB of metadata.
const LIST_BYTES_MAX: usize = 16 << 20;

/// The list, from the API server's memory; in pages, where it makes any.
const LISTING: Listing = Listing {
    form: HeaderValue::from_static(
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    ),
    bytes_max: LIST_BYTES_MAX,
    first: "limit=500&resourceVersion=0",
    next: "limit=500",
};

/// Waits between tries: a new namespace is read within seconds of the API server's return.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

struct Metrics {
    chosen: IntGauge,
    failed: IntCounter,
    refused: IntGauge,
}

struct Watch {
    listed: Listed,
    choice: Choice,
}

/// What is known of the namespaces.
struct Choice {
    record: Record,
    metrics: Metrics,
    told: Arc<Namespaces>,
    names: HashSet<String>,
    /// The fault that was named last.
    named: Option<String>,
    has_named_room: bool,
}

/// Where it is kept what was chosen last.
struct Record {
    path: PathBuf,
    selector: String,
    has_failed: bool,
}

/// What a record says.
#[derive(Serialize, Deserialize)]
struct Recorded {
    /// By which selector. Another one's record says nothing.
    selector: String,
    namespaces: HashSet<String>,
}

/// Watches from now on, as a task of the present runtime that ends with it. `record` is a file of
/// this process's own, which survives it.
///
/// # Errors
/// When the metrics are registered already.
pub fn start_namespaces(
    endpoint: Endpoint,
    selector: &LabelSelector,
    record: PathBuf,
    telemetry: &Telemetry,
) -> Result<Arc<Namespaces>, TelemetryError> {
    let metrics = Metrics::register(telemetry)?;
    let text = selector.to_string();
    let mut parameter = "labelSelector=".to_owned();
    push_encoded(&mut parameter, &text);
    let question = Question {
        path: "/api/v1/namespaces".to_owned(),
        selector: parameter,
        form: METADATA,
        bytes_max: EVENT_BYTES_MAX,
        right: "a ClusterRole that allows to list and watch namespaces",
    };
    let told = Arc::new(Namespaces::default());
    let choice = Choice {
        record: Record { path: record, selector: text, has_failed: false },
        metrics,
        told: Arc::clone(&told),
        names: HashSet::new(),
        named: None,
        has_named_room: false,
    };
    let watch = Watch { listed: Listed::new(endpoint, question, LISTING), choice };
    tokio::spawn(again::watch(watch, BACKOFF));
    Ok(told)
}

impl Watched for Watch {
    async fn once(&mut self, duration: Duration) -> Result<(), ApiError> {
        self.listed.once(&mut self.choice, duration).await
    }

    fn take_told(&mut self) -> bool {
        self.listed.take_told()
    }

    fn fail(&mut self, error: &ApiError) {
        self.choice.metrics.failed.inc();
        if matches!(error, ApiError::Forbidden { .. }) {
            self.choice.metrics.refused.set(1);
        }
        if !self.listed.begins_anew(error) {
            self.choice.fail(error);
        }
    }
}

impl Known for Choice {
    type All = HashSet<String>;

    fn add(&mut self, all: &mut Self::All, object: Object) {
        self.insert(all, object);
    }

    fn replace(&mut self, all: Self::All) {
        let is_new = self.told.chosen().is_none_or(|known| *known != all);
        self.names = all;
        if is_new {
            self.tell();
            self.record();
        }
    }

    fn put(&mut self, object: Object) {
        let mut names = std::mem::take(&mut self.names);
        let has_changed = self.insert(&mut names, object);
        self.names = names;
        if has_changed {
            self.tell();
            self.record();
        }
    }

    fn gone(&mut self, name: &str) {
        if self.names.remove(name) {
            self.tell();
            self.record();
        }
    }

    fn is_answered(&mut self) {
        self.metrics.refused.set(0);
        if self.named.take().is_some() {
            tracing::info!("the API server tells about namespaces again");
        }
    }
}

impl Choice {
    /// Logs a fault once, until it is another one. At a start the record is gone by.
    fn fail(&mut self, error: &ApiError) {
        if self.told.chosen().is_none()
            && let Some(namespaces) = self.record.read()
        {
            tracing::warn!(
                namespaces = namespaces.len(),
                "the API server tells of no namespaces: those that were chosen last are read"
            );
            self.names = namespaces;
            self.tell();
        }
        let text = error.to_string();
        if self.named.as_ref() != Some(&text) {
            let consequence = match self.told.chosen() {
                Some(_) => "those that are known stand",
                None => "no containers' files are read until it answers",
            };
            tracing::warn!(%error, consequence, "namespaces can't be watched");
            self.named = Some(text);
        }
    }

    /// Whether it is another one.
    fn insert(&mut self, names: &mut HashSet<String>, object: Object) -> bool {
        let name = object.metadata.name;
        if names.len() < NAMESPACES_MAX || names.contains(&name) {
            return names.insert(name);
        }
        if !std::mem::replace(&mut self.has_named_room, true) {
            tracing::error!(
                namespace = name,
                "namespaceSelector chooses more than {NAMESPACES_MAX} namespaces: some aren't read"
            );
        }
        false
    }

    fn tell(&self) {
        self.metrics.chosen.set(i64::try_from(self.names.len()).unwrap_or(i64::MAX));
        self.told.tell(self.names.clone());
    }

    fn record(&mut self) {
        self.record.keep(&self.names);
    }
}

impl Record {
    /// What was chosen last by this selector, if that is on record.
    fn read(&self) -> Option<HashSet<String>> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the namespaces chosen last can't be read");
                return None;
            }
        };
        match serde_json::from_slice::<Recorded>(&text) {
            Ok(recorded) => (recorded.selector == self.selector).then_some(recorded.namespaces),
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "the record of namespaces chosen last is damaged");
                None
            }
        }
    }

    /// Replaces the record. A failure is named once: the next change tries again.
    fn keep(&mut self, namespaces: &HashSet<String>) {
        let recorded = Recorded { selector: self.selector.clone(), namespaces: namespaces.clone() };
        let text = serde_json::to_vec(&recorded).unwrap_or_default();
        let failed = replace(&self.path, &text).err();
        if let Some(error) = &failed
            && !self.has_failed
        {
            let path = self.path.display();
            tracing::error!(
                %path,
                %error,
                "the chosen namespaces can't be recorded: a start without the API server would \
                 read no containers' files until it answers"
            );
        }
        self.has_failed = failed.is_some();
    }
}

/// Replaces a file whole: whoever reads it, also after a crash, finds one or the other.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(next, path)?;
    File::open(folder)?.sync_all()
}

impl Metrics {
    fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        Ok(Self {
            chosen: telemetry.gauge(
                "millrace_namespaces_chosen",
                "Namespaces that namespaceSelector chooses; 0 while that isn't known.",
            )?,
            failed: telemetry.counter(
                "millrace_namespaces_watch_failed_total",
                "Times that the API server could not be asked about namespaces, or told what can't \
                 be read.",
            )?,
            refused: telemetry.gauge(
                "millrace_namespaces_watch_refused",
                "1 while the API server refuses to tell about namespaces, for want of a right.",
            )?,
        })
    }
}
