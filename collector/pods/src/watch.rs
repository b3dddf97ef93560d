//! Keeps the board by one watch after another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::pods::Pods;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use prometheus::{IntCounter, IntGauge};
use tokio::time::timeout;

use crate::again::{self, Watched, within};
use crate::api::{Answer, ApiError, EVENT_BYTES_MAX, Endpoint, METADATA, Question};
use crate::board::{Board, Stored};
use crate::event::{Event, Object};
use crate::metadata::{Metadata, Rules};

/// How often pods deleted long ago are forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Waits between tries: an API server that comes back is found within half a minute.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

struct Metrics {
    known: IntGauge,
    failed: IntCounter,
    refused: IntGauge,
    left_out: IntCounter,
    annotations_invalid: IntCounter,
}

struct Watch {
    endpoint: Endpoint,
    question: Question,
    rules: Rules,
    board: Arc<Board>,
    metrics: Metrics,
    /// From where the next watch continues.
    version: String,
    has_told: bool,
    /// The fault that was named last.
    named: Option<String>,
    has_named_room: bool,
}

/// Watches from now on, as a task of the present runtime that ends with it. The board it keeps.
///
/// # Errors
/// When the metrics are registered already.
pub fn start(
    endpoint: Endpoint,
    rules: Rules,
    telemetry: &Telemetry,
) -> Result<Arc<dyn Pods>, TelemetryError> {
    let metrics = Metrics::register(telemetry)?;
    let board = Arc::new(Board::default());
    let question = Question {
        path: "/api/v1/pods".to_owned(),
        selector: format!("fieldSelector=spec.nodeName%3D{}", rules.node),
        form: METADATA,
        bytes_max: EVENT_BYTES_MAX,
        right: "a ClusterRole that allows to list and watch pods",
    };
    let watch = Watch {
        endpoint,
        question,
        rules,
        board: Arc::clone(&board),
        metrics,
        version: BEGINNING.to_owned(),
        has_told: false,
        named: None,
        has_named_room: false,
    };
    tokio::spawn(again::watch(watch, BACKOFF));
    Ok(board)
}

/// The version from which a watch begins with the pods that exist.
const BEGINNING: &str = "0";

impl Watched for Watch {
    /// One watch to its end.
    async fn once(&mut self, duration: Duration) -> Result<(), ApiError> {
        let mut answer = self.endpoint.watch(&self.question, &self.version, duration).await?;
        if self.version == BEGINNING {
            self.board.begin_anew(Instant::now());
        }
        self.metrics.refused.set(0);
        if self.named.take().is_some() {
            tracing::info!("the API server tells about pods again");
        }
        within(duration, self.follow(&mut answer)).await
    }

    fn take_told(&mut self) -> bool {
        std::mem::take(&mut self.has_told)
    }

    /// Logs a fault once, until it is another one.
    fn fail(&mut self, error: &ApiError) {
        self.metrics.failed.inc();
        if matches!(error, ApiError::Forbidden { .. }) {
            self.metrics.refused.set(1);
        }
        if matches!(error, ApiError::Expired) {
            self.version = BEGINNING.to_owned();
            return;
        }
        let text = error.to_string();
        if self.named.as_ref() != Some(&text) {
            tracing::warn!(%error, "pods can't be watched: lines of unknown pods go unlabeled");
            self.named = Some(text);
        }
    }

    fn rest(&mut self) {
        self.sweep();
    }
}

impl Watch {
    async fn follow(&mut self, answer: &mut Answer) -> Result<(), ApiError> {
        loop {
            let Ok(event) = timeout(SWEEP_INTERVAL, answer.next()).await else {
                self.sweep();
                continue;
            };
            let Some(event) = event? else { return Ok(()) };
            self.has_told = true;
            let (metadata, now) = match event {
                Event::Unreadable => {
                    self.metrics.failed.inc();
                    continue;
                }
                Event::Mark(Object { metadata, .. }) => (metadata, Instant::now()),
                Event::Gone(Object { metadata, .. }) => {
                    let now = Instant::now();
                    self.board.gone(&metadata, now);
                    (metadata, now)
                }
                Event::Is(Object { metadata, .. }) => {
                    let now = Instant::now();
                    let stored = self.board.put(&metadata, &self.rules, now);
                    self.count(&metadata, stored);
                    (metadata, now)
                }
            };
            self.metrics.known.set(known(self.board.sweep(now)));
            if !metadata.resource_version.is_empty() {
                self.version = metadata.resource_version;
            }
        }
    }

    fn count(&mut self, metadata: &Metadata, stored: Option<Stored>) {
        let left_out = stored.as_ref().map_or(1, |stored| stored.left_out);
        for fault in stored.into_iter().flat_map(|stored| stored.faults) {
            self.metrics.annotations_invalid.inc();
            let Metadata { namespace, name, .. } = metadata;
            tracing::warn!(
                namespace,
                pod = name,
                "{fault}; its logs are read as receivers.containers says"
            );
        }
        self.metrics.left_out.inc_by(left_out);
        if left_out > 0 && !std::mem::replace(&mut self.has_named_room, true) {
            tracing::warn!(
                "pods have more labels and annotations than may be known, or there are more pods: \
                 some are left out, as millrace_pods_left_out_total counts"
            );
        }
    }

    fn sweep(&self) {
        self.metrics.known.set(known(self.board.sweep(Instant::now())));
    }
}

fn known(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Metrics {
    fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        Ok(Self {
            known: telemetry.gauge(
                "millrace_pods_known",
                "Pods of this node whose labels are known, with those gone a short while ago.",
            )?,
            failed: telemetry.counter(
                "millrace_pods_watch_failed_total",
                "Times that the API server could not be asked about pods, or told what can't be \
                 read.",
            )?,
            refused: telemetry.gauge(
                "millrace_pods_watch_refused",
                "1 while the API server refuses to tell about pods, for want of a right.",
            )?,
            left_out: telemetry.counter(
                "millrace_pods_left_out_total",
                "Labels and annotations, and pods, for which there was no room.",
            )?,
            annotations_invalid: telemetry.counter(
                "millrace_pods_annotations_invalid_total",
                "Annotations of pods (millrace.dev/logs...) that can't be used, each counted once \
                 for a pod until it changes.",
            )?,
        })
    }
}
