//! Watches this pod's share of scrape targets: ConfigMaps with its uid in a label, each with one
//! part of the document.
//!
//! It publishes only complete versions that are newer than the last one. After any failure the last
//! version stays in use: the API server is away, a part can't be parsed, or parts are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::push_encoded;
use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::share::{ShareUpdate, Shares};
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_share_documents::{DocumentFault, PARTS_MAX, join_parts};
use prometheus::{IntCounter, IntGauge};
use tokio::sync::watch::Sender;

use crate::api::event::Object;
use crate::api::list_watch::{ListWatch, ObjectStore};
use crate::api::watch_loop;
use crate::api::{ApiEndpoint, ApiError, FULL_OBJECTS, ListQuery, WatchRequest};

/// The label of the objects: its value is the pod's uid.
pub const SHARE_LABEL: &str = "millrace.dev/scrape-share";

/// The key of the part in an object's data.
const KEY: &str = "share";

/// The longest object that is read: a part of 900 KiB whose every byte is escaped, and the metadata
/// that the API server accepts (256 KiB of annotations).
pub const SHARE_OBJECT_BYTES_MAX: usize = 2304 * 1024;

/// Requests pages of one object in their current state: without a version the API server answers
/// with the last written state, not from memory.
const LISTING: ListQuery = ListQuery {
    form: FULL_OBJECTS,
    bytes_max: SHARE_OBJECT_BYTES_MAX,
    first: "limit=1",
    next: "limit=1",
};

/// The most objects of a pod: a share has half as many parts, and a smaller one may leave some
/// behind. With 900 KiB each they take 28 MiB at most; a usual share has 70 KB.
const OBJECTS_MAX: usize = PARTS_MAX * 2;

/// Waits between attempts. A hand-over waits for pods that can't read their documents.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// The pod that owns the share.
#[derive(Debug, Clone)]
pub struct ShareOwner {
    /// The pod's namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
}

struct Metrics {
    version: IntGauge,
    failed: IntCounter,
    is_failing: IntGauge,
}

/// The state of the share.
struct WatchedShare {
    metrics: Metrics,
    published: Sender<ShareUpdate>,
    /// The parts by their objects' names.
    parts: BTreeMap<String, String>,
    /// The documents' fault.
    fault: String,
}

/// Starts the watch as a task of the current runtime, which ends with it.
///
/// # Errors
/// The metrics are registered already.
pub fn start_share(
    endpoint: ApiEndpoint,
    whose: &ShareOwner,
    telemetry: &Telemetry,
) -> Result<Shares, TelemetryError> {
    let metrics = Metrics::register(telemetry)?;
    let mut selector = "labelSelector=".to_owned();
    push_encoded(&mut selector, &format!("{SHARE_LABEL}={}", whose.uid));
    let question = WatchRequest {
        path: format!("/api/v1/namespaces/{}/configmaps", whose.namespace),
        selector,
        form: FULL_OBJECTS,
        bytes_max: SHARE_OBJECT_BYTES_MAX,
        right: "a Role that allows list and watch on configmaps in its namespace",
    };
    let (published, shares) = tokio::sync::watch::channel(ShareUpdate::default());
    let share = WatchedShare { metrics, published, parts: BTreeMap::new(), fault: String::new() };
    let watch = ListWatch::new(endpoint, question, LISTING, share);
    tokio::spawn(watch_loop::watch_forever(watch, BACKOFF));
    Ok(shares)
}

impl ObjectStore for WatchedShare {
    type All = BTreeMap<String, String>;

    fn add_listed(&mut self, all: &mut Self::All, object: Object) {
        all.extend([into_part(object)]);
    }

    fn is_full(&self, all: &Self::All) -> bool {
        all.len() >= OBJECTS_MAX
    }

    fn replace_all(&mut self, all: Self::All) {
        self.parts = all;
        self.apply_parts();
    }

    fn upsert_object(&mut self, object: Object) {
        let (name, text) = into_part(object);
        if self.parts.contains_key(&name) || self.parts.len() < OBJECTS_MAX {
            self.parts.insert(name, text);
        }
        self.apply_parts();
    }

    fn remove_object(&mut self, name: &str) {
        self.parts.remove(name);
        self.apply_parts();
    }

    /// Clears the watch's fault; the documents' fault remains.
    fn record_answered(&mut self) {
        self.publish_fault(self.fault.clone());
    }

    fn count_failure(&mut self, _: &ApiError) {
        self.metrics.failed.inc();
    }

    fn report_failure(&mut self, error: &ApiError) {
        let fault = error.to_string();
        if self.published.borrow().fault != fault {
            tracing::warn!(%error, "cannot watch this pod's share; the last version stays in use");
        }
        self.publish_fault(fault);
    }
}

impl WatchedShare {
    /// Joins the parts, and publishes the share if it is complete and newer.
    fn apply_parts(&mut self) {
        let known = self.published.borrow().share.as_ref().map(|share| share.version);
        let mut is_usual = false;
        let fault = match join_parts(self.parts.values().map(String::as_str)) {
            Ok(share) if known.is_none_or(|known| share.version > known) => {
                let (version, targets) = (share.version, share.targets.len());
                tracing::info!(version, targets, "read a new version of this pod's share");
                self.metrics.version.set(i64::try_from(version).unwrap_or(i64::MAX));
                self.published.send_modify(|update| update.share = Some(Arc::new(share)));
                String::new()
            }
            Ok(share) if known == Some(share.version) => String::new(),
            Ok(share) => format!(
                "version {} is lower than version {}, which stays in use",
                share.version,
                known.unwrap_or_default()
            ),
            Err(DocumentFault::Incomplete { .. }) if self.parts.is_empty() => match known {
                None => String::new(),
                Some(known) => format!("its objects are gone: version {known} stays in use"),
            },
            // This is normal briefly: the parts of a version are written one after the other.
            Err(fault @ DocumentFault::Incomplete { .. }) => {
                is_usual = true;
                fault.to_string()
            }
            Err(fault) => fault.to_string(),
        };
        if !fault.is_empty() && !is_usual && fault != self.fault {
            tracing::warn!(fault, "cannot apply this pod's share; the last version stays in use");
        }
        self.fault.clone_from(&fault);
        self.publish_fault(fault);
    }

    /// Publishes a fault, if it changed.
    fn publish_fault(&self, fault: String) {
        self.metrics.is_failing.set(i64::from(!fault.is_empty()));
        self.published.send_if_modified(|update| {
            let has_changed = update.fault != fault;
            update.fault = fault;
            has_changed
        });
    }
}

/// Returns an object's name and its part. An object without a part becomes an empty one, which is
/// reported as a fault.
fn into_part(mut object: Object) -> (String, String) {
    let text = object.data.remove(KEY).unwrap_or_default();
    (object.metadata.name, text)
}

impl Metrics {
    fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        Ok(Self {
            version: telemetry.gauge(
                "millrace_scrape_assignment_version",
                "Newest version of this pod's share of scrape targets that was read; 0 if none \
                 was.",
            )?,
            failed: telemetry.counter(
                "millrace_scrape_assignment_watch_failed_total",
                "Times that the API server could not be queried for this pod's share, or that its \
                 answer could not be read.",
            )?,
            is_failing: telemetry.gauge(
                "millrace_scrape_assignment_failing",
                "1 while this pod's share can't be watched, or a version of it can't be applied; \
                 the last version stays in use.",
            )?,
        })
    }
}
