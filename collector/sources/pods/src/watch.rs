//! Updates the tables of pods with one watch after another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::pods::PodLookup;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_processing::enrich::{PodMetadataConfig, PodScope};
use prometheus::{IntCounter, IntGauge};
use tokio::time::timeout;

use crate::api::event::WatchEvent;
use crate::api::reported_fault::ReportedFault;
use crate::api::watch_loop::{self, WatchSource, limit_watch};
use crate::api::{
    ApiEndpoint, ApiError, EVENT_BYTES_MAX, FULL_OBJECTS, METADATA, WatchRequest, WatchStream,
};
use crate::identity_table::{IDENTITY_BYTES_MAX, IdentityTable};
use crate::metadata::{Metadata, MetadataRules};
use crate::pod_events::{IdentityPods, PodTables};
use crate::pod_table::{PodTable, StoreOutcome};

/// How often pods that were deleted long ago are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// A list that begins a watch is complete when no event follows for this long, or with the first
/// bookmark.
const LIST_LULL: Duration = Duration::from_secs(5);

/// The part of the memory budget that the table for clients' records may take.
const BUDGET_PART: u64 = 8;

/// Waits between attempts: the API server's return is noticed within 5 s, which is about what it
/// takes to schedule and start a new pod.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(5) };

struct Metrics {
    known: IntGauge,
    failed: IntCounter,
    refused: IntGauge,
    omitted: IntCounter,
    annotations_invalid: IntCounter,
    identity_bytes: Option<IntGauge>,
}

/// The pods to watch.
#[derive(Clone, Debug)]
pub struct WatchedPods {
    /// The name of this node, if its pods are watched alone or its log files are labeled.
    pub node: String,
    /// What log files' records get.
    pub logs: Option<MetadataRules>,
    /// What clients' records get.
    pub identities: Option<PodMetadataConfig>,
}

impl WatchedPods {
    /// Whether all pods of the cluster are watched.
    #[must_use]
    pub fn is_cluster_wide(&self) -> bool {
        self.identities.as_ref().is_some_and(|config| config.scope == PodScope::Cluster)
    }

    /// Returns the most memory of the table for clients' records.
    #[must_use]
    pub fn identity_bytes(&self, budget_bytes: u64) -> u64 {
        match &self.identities {
            Some(_) => IDENTITY_BYTES_MAX.min(budget_bytes / BUDGET_PART),
            None => 0,
        }
    }

    fn request(&self) -> WatchRequest {
        let selector = match (self.is_cluster_wide(), &self.logs) {
            // Pods that have ended have no address.
            (true, None) => "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed",
            (true, Some(_)) => "",
            (false, _) => "fieldSelector=spec.nodeName%3D",
        };
        let node = if self.is_cluster_wide() { "" } else { &self.node };
        WatchRequest {
            path: "/api/v1/pods".to_owned(),
            selector: format!("{selector}{node}"),
            form: if self.identities.is_some() { FULL_OBJECTS } else { METADATA },
            bytes_max: EVENT_BYTES_MAX,
            right: "a ClusterRole that allows watch on pods",
        }
    }
}

/// The tables that a watch updates, for their readers.
pub struct PodReaders {
    /// For log files.
    pub logs: Option<Arc<dyn PodLookup>>,
    /// For clients' records.
    pub identities: Option<Arc<IdentityTable>>,
}

struct PodWatch {
    endpoint: ApiEndpoint,
    question: WatchRequest,
    tables: PodTables,
    metrics: Metrics,
    /// The version from which the next watch continues.
    version: String,
    /// Whether the list of the current watch is not complete yet.
    is_listing: bool,
    has_progress: bool,
    reported: ReportedFault,
    has_reported_limit: bool,
}

/// Starts the watch as a task of the current runtime, which ends with it. Returns the tables that
/// it updates. The table for clients' records takes its memory of the budget at once, so that a
/// busy process can't leave pods out of it.
///
/// # Errors
/// The metrics are registered already.
pub fn start_pods(
    endpoint: ApiEndpoint,
    watched: WatchedPods,
    budget: &Budget,
    telemetry: &Telemetry,
) -> Result<PodReaders, TelemetryError> {
    let metrics = Metrics::register(telemetry, watched.identities.is_some())?;
    let question = watched.request();
    let reservation = reserve(budget, watched.identity_bytes(budget.limit_bytes()));
    let logs = watched.logs.map(|rules| (rules, Arc::new(PodTable::default())));
    let identities = watched.identities.map(|config| IdentityPods {
        config,
        table: Arc::new(IdentityTable::new(reservation.bytes())),
        _reservation: reservation,
    });
    let readers = PodReaders {
        logs: logs.as_ref().map(|(_, table)| Arc::clone(table) as _),
        identities: identities.as_ref().map(|it| Arc::clone(&it.table)),
    };
    let watch = PodWatch {
        endpoint,
        question,
        tables: PodTables { logs, identities },
        metrics,
        version: BEGINNING.to_owned(),
        is_listing: false,
        has_progress: false,
        reported: ReportedFault::default(),
        has_reported_limit: false,
    };
    tokio::spawn(watch_loop::watch_forever(watch, BACKOFF));
    Ok(readers)
}

/// Reserves as much of `bytes` as is free.
fn reserve(budget: &Budget, bytes: u64) -> Reservation {
    let free = bytes.min(budget.free_bytes());
    budget.try_reserve(free).unwrap_or_else(|| budget.empty_reservation())
}

/// The version from which a watch begins with the existing pods.
const BEGINNING: &str = "0";

impl WatchSource for PodWatch {
    /// Runs one watch to its end.
    async fn watch_once(&mut self, duration: Duration) -> Result<(), ApiError> {
        let answer = self.endpoint.open_watch(&self.question, &self.version, duration).await;
        // The server is back, without the changes since: the list must not wait as after failures.
        self.has_progress |= self.version != BEGINNING && matches!(answer, Err(ApiError::Expired));
        let mut answer = answer?;
        if self.version == BEGINNING {
            self.tables.begin_list();
            self.is_listing = true;
        }
        self.metrics.refused.set(0);
        if self.reported.end_fault() {
            tracing::info!("the watch of pods works again");
        }
        limit_watch(duration, self.follow_events(&mut answer)).await
    }

    /// A list that doesn't end is no progress: it begins again, which must not be at once.
    fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progress) && !self.is_listing
    }

    /// Logs a fault until it changes.
    fn record_failure(&mut self, error: &ApiError) {
        self.metrics.failed.inc();
        if matches!(error, ApiError::Forbidden { .. }) {
            self.metrics.refused.set(1);
        }
        if matches!(error, ApiError::Expired) {
            self.version = BEGINNING.to_owned();
            return;
        }
        if self.reported.record_failure(error) {
            tracing::warn!(%error,
                "cannot watch pods: records of unknown pods are sent without labels");
        }
    }

    fn begin_wait(&mut self) {
        self.evict_deleted();
    }
}

impl PodWatch {
    async fn follow_events(&mut self, answer: &mut WatchStream) -> Result<(), ApiError> {
        // The events of a list have no order, so only its end is a version to continue from: a list
        // that breaks off begins again.
        let mut listed = None;
        loop {
            let patience = if self.is_listing { LIST_LULL } else { SWEEP_INTERVAL };
            let Ok(event) = timeout(patience, answer.next()).await else {
                self.finish_list(&mut listed);
                self.evict_deleted();
                continue;
            };
            let Some(event) = event? else { return Ok(()) };
            self.has_progress = true;
            let now = Instant::now();
            let metadata = match event {
                WatchEvent::Unreadable => {
                    self.metrics.failed.inc();
                    continue;
                }
                WatchEvent::Bookmark(object) => {
                    self.finish_list(&mut listed);
                    object.metadata
                }
                WatchEvent::Deleted(pod) => {
                    self.tables.mark_deleted(&pod, now);
                    pod.metadata
                }
                WatchEvent::Upserted(pod) => {
                    let stored = self.tables.store_pod(&pod, now);
                    self.record_stored(&pod.metadata, stored);
                    pod.metadata
                }
            };
            self.evict_deleted();
            let version = metadata.resource_version;
            match (version.is_empty(), self.is_listing) {
                (true, _) => {}
                (false, true) => listed = Some(version),
                (false, false) => self.version = version,
            }
        }
    }

    /// Ends the list that begins a watch.
    fn finish_list(&mut self, listed: &mut Option<String>) {
        if std::mem::take(&mut self.is_listing) {
            self.tables.finish_list(Instant::now());
        }
        if let Some(version) = listed.take() {
            self.version = version;
        }
    }

    fn record_stored(&mut self, metadata: &Metadata, stored: Option<StoreOutcome>) {
        let left_out = stored.as_ref().map_or(1, |stored| stored.omitted);
        for fault in stored.into_iter().flat_map(|stored| stored.faults) {
            self.metrics.annotations_invalid.inc();
            let Metadata { namespace, name, .. } = metadata;
            tracing::warn!(
                namespace,
                pod = name,
                "{fault}; its logs are read as set in receivers.containers"
            );
        }
        self.metrics.omitted.inc_by(left_out);
        if left_out > 0 && !std::mem::replace(&mut self.has_reported_limit, true) {
            tracing::warn!(
                "the pods' labels and annotations, or the pods, exceed the limit: some are \
                 omitted, as millrace_pods_omitted_total counts"
            );
        }
    }

    fn evict_deleted(&self) {
        let known = self.tables.evict_deleted(Instant::now());
        self.metrics.known.set(i64::try_from(known.pods).unwrap_or(i64::MAX));
        if let Some(bytes) = &self.metrics.identity_bytes {
            bytes.set(i64::try_from(known.identity_bytes).unwrap_or(i64::MAX));
        }
    }
}

impl Metrics {
    fn register(telemetry: &Telemetry, has_identities: bool) -> Result<Self, TelemetryError> {
        let identity_bytes = || {
            telemetry.gauge(
                "millrace_pods_table_bytes",
                "Memory of the table of pods for clients' records, in bytes.",
            )
        };
        Ok(Self {
            identity_bytes: has_identities.then(identity_bytes).transpose()?,
            known: telemetry.gauge(
                "millrace_pods_known",
                "Pods whose metadata is known, including recently deleted ones.",
            )?,
            failed: telemetry.counter(
                "millrace_pods_watch_failed_total",
                "Times that the API server could not be queried for pods, or that its answer could \
                 not be read.",
            )?,
            refused: telemetry.gauge(
                "millrace_pods_watch_forbidden",
                "1 while the API server denies the watch of pods for lack of a permission.",
            )?,
            omitted: telemetry.counter(
                "millrace_pods_omitted_total",
                "Labels, annotations and pods omitted because the limit is reached.",
            )?,
            annotations_invalid: telemetry.counter(
                "millrace_pods_annotations_invalid_total",
                "Invalid annotations of pods (millrace.dev/logs...), each counted once per pod \
                 until it changes.",
            )?,
        })
    }
}
