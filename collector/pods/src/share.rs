//! Watches this pod's share of scrape targets: ConfigMaps with its uid in a label, each with one
//! part of the document.
//!
//! A version is told only when it is whole, and none lower than the last one. Whatever goes wrong,
//! the last one stands: an API server that is away, a part that can't be read, parts that are gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::push_encoded;
use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::share::{Shares, Told};
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_shares::{DocumentFault, PARTS_MAX, join};
use prometheus::{IntCounter, IntGauge};
use tokio::sync::watch::Sender;

use crate::again::{self, Watched};
use crate::api::{ApiError, Endpoint, Listing, Question, WHOLE};
use crate::event::Object;
use crate::listed::{Known, Listed};

/// The label of the objects: its value is the pod's uid.
pub const SHARE_LABEL: &str = "millrace.dev/scrape-share";

/// The key of an object's data with its part.
const KEY: &str = "share";

/// The longest object that is read: a part of 900 KiB whose every byte is escaped, and as much for
/// metadata as the API server takes (256 KiB of annotations).
pub const SHARE_OBJECT_BYTES_MAX: usize = 2304 * 1024;

/// A page with one object at most, as it is now: without a version the API server answers with what
/// was written last, not with what it has in memory.
const LISTING: Listing =
    Listing { form: WHOLE, bytes_max: SHARE_OBJECT_BYTES_MAX, first: "limit=1", next: "limit=1" };

/// Most objects of a pod: a share has half as many parts, and a smaller one may leave some behind.
/// Of 900 KiB each they are 28 MiB at most; a usual share has 70 KB.
const OBJECTS_MAX: usize = PARTS_MAX * 2;

/// Waits between tries. A hand-over waits for pods that can't read their documents.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(10) };

/// Whose share it is.
#[derive(Debug, Clone)]
pub struct Whose {
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

struct Watch {
    listed: Listed,
    share: Share,
}

/// What is known of the share.
struct Share {
    metrics: Metrics,
    told: Sender<Told>,
    /// By their objects' names.
    parts: BTreeMap<String, String>,
    /// What is wrong with the documents.
    fault: String,
}

/// Watches from now on, as a task of the present runtime that ends with it.
///
/// # Errors
/// When the metrics are registered already.
pub fn start_share(
    endpoint: Endpoint,
    whose: &Whose,
    telemetry: &Telemetry,
) -> Result<Shares, TelemetryError> {
    let metrics = Metrics::register(telemetry)?;
    let mut selector = "labelSelector=".to_owned();
    push_encoded(&mut selector, &format!("{SHARE_LABEL}={}", whose.uid));
    let question = Question {
        path: format!("/api/v1/namespaces/{}/configmaps", whose.namespace),
        selector,
        form: WHOLE,
        bytes_max: SHARE_OBJECT_BYTES_MAX,
        right: "a Role that allows to get, list and watch configmaps in its namespace",
    };
    let (told, shares) = tokio::sync::watch::channel(Told::default());
    let listed = Listed::new(endpoint, question, LISTING);
    let share = Share { metrics, told, parts: BTreeMap::new(), fault: String::new() };
    let watch = Watch { listed, share };
    tokio::spawn(again::watch(watch, BACKOFF));
    Ok(shares)
}

impl Watched for Watch {
    async fn once(&mut self, duration: Duration) -> Result<(), ApiError> {
        self.listed.once(&mut self.share, duration).await
    }

    fn take_told(&mut self) -> bool {
        self.listed.take_told()
    }

    fn fail(&mut self, error: &ApiError) {
        self.share.metrics.failed.inc();
        if self.listed.begins_anew(error) {
            return;
        }
        let fault = error.to_string();
        if self.share.told.borrow().fault != fault {
            tracing::warn!(%error, "this pod's share can't be watched; the last version stands");
        }
        self.share.tell(fault);
    }
}

impl Known for Share {
    type All = BTreeMap<String, String>;

    fn add(&mut self, all: &mut Self::All, object: Object) {
        all.extend([part(object)]);
    }

    fn is_full(&self, all: &Self::All) -> bool {
        all.len() >= OBJECTS_MAX
    }

    fn replace(&mut self, all: Self::All) {
        self.parts = all;
        self.take_up();
    }

    fn put(&mut self, object: Object) {
        let (name, text) = part(object);
        if self.parts.contains_key(&name) || self.parts.len() < OBJECTS_MAX {
            self.parts.insert(name, text);
        }
        self.take_up();
    }

    fn gone(&mut self, name: &str) {
        self.parts.remove(name);
        self.take_up();
    }

    /// What was wrong with the watch is over.
    fn is_answered(&mut self) {
        self.tell(self.fault.clone());
    }
}

impl Share {
    /// Makes a share of the parts that there are, and tells it if it is whole and newer.
    fn take_up(&mut self) {
        let known = self.told.borrow().share.as_ref().map(|share| share.version);
        let mut is_usual = false;
        let fault = match join(self.parts.values().map(String::as_str)) {
            Ok(share) if known.is_none_or(|known| share.version > known) => {
                let (version, targets) = (share.version, share.targets.len());
                tracing::info!(version, targets, "a new version of this pod's share is read");
                self.metrics.version.set(i64::try_from(version).unwrap_or(i64::MAX));
                self.told.send_modify(|told| told.share = Some(Arc::new(share)));
                String::new()
            }
            Ok(share) if known == Some(share.version) => String::new(),
            Ok(share) => format!(
                "version {} is lower than version {}, which was taken up: the last one stands",
                share.version,
                known.unwrap_or_default()
            ),
            Err(DocumentFault::Incomplete { .. }) if self.parts.is_empty() => match known {
                None => String::new(),
                Some(known) => format!("its objects are gone: version {known} stands"),
            },
            // Usual for a moment: the parts of a version are written one after the other.
            Err(fault @ DocumentFault::Incomplete { .. }) => {
                is_usual = true;
                fault.to_string()
            }
            Err(fault) => fault.to_string(),
        };
        if !fault.is_empty() && !is_usual && fault != self.fault {
            tracing::warn!(fault, "this pod's share isn't taken up; the last version stands");
        }
        self.fault.clone_from(&fault);
        self.tell(fault);
    }

    /// Says what is wrong, if that is another thing than before.
    fn tell(&self, fault: String) {
        self.metrics.is_failing.set(i64::from(!fault.is_empty()));
        self.told.send_if_modified(|told| {
            let has_changed = told.fault != fault;
            told.fault = fault;
            has_changed
        });
    }
}

/// An object's name and its part. One without a part can't be read, which is told of it.
fn part(mut object: Object) -> (String, String) {
    let text = object.data.remove(KEY).unwrap_or_default();
    (object.metadata.name, text)
}

impl Metrics {
    fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        Ok(Self {
            version: telemetry.gauge(
                "millrace_share_version",
                "The newest version of this pod's share of scrape targets that was read; 0 if none \
                 was.",
            )?,
            failed: telemetry.counter(
                "millrace_share_watch_failed_total",
                "Times that the API server could not be asked about this pod's share, or told what \
                 can't be read.",
            )?,
            is_failing: telemetry.gauge(
                "millrace_share_failing",
                "1 while this pod's share can't be watched, or a version of it can't be taken up; \
                 the last one stands.",
            )?,
        })
    }
}
