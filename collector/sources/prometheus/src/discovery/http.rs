//! Fetches lists of targets (JSON) from HTTP servers repeatedly.
//!
//! The last good list stays in use while a server doesn't answer, answers late, or answers with a
//! status other than 200, another type, or an invalid or too long list. The next request then
//! follows sooner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::ScrapeMetrics;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use millrace_config::{HttpUrl, TARGET_LIST_BYTES_MAX, TargetGroup};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::super::rules::RuledJob;
use super::{ReadError, SourceUpdate, TargetList, TargetUpdate, URL_LABEL};
use crate::connect::Connector;
use crate::target_status::{ListView, truncate_error, without_values};
use millrace_pipeline::clock::now_unix_nanos;

/// The time-out of a response, its body included.
const RESPONSE_TIME: Duration = Duration::from_secs(30);

/// The longest pause after a failed request.
const FAILED_PAUSE: Duration = Duration::from_secs(30);

/// Sends the refresh interval to the server, as Prometheus does.
const REFRESH_HEADER: HeaderName = HeaderName::from_static("x-prometheus-refresh-interval-seconds");

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The list of one URL.
#[derive(Debug)]
pub(crate) struct HttpList {
    job: (usize, Arc<RuledJob>),
    url: HttpUrl,
    refresh: Duration,
    headers: HeaderMap,
    /// Labels with lower precedence than those of the list.
    labels: BTreeMap<String, String>,
    connector: Arc<Connector>,
    metrics: ScrapeMetrics,
    listed: TargetList,
    read_unix_millis: u64,
    error: String,
}

impl HttpList {
    pub(crate) fn new(
        job: (usize, Arc<RuledJob>),
        (url, refresh_seconds): (HttpUrl, u32),
        connector: Arc<Connector>,
        metrics: ScrapeMetrics,
    ) -> Self {
        let headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static("application/json")),
            (CONNECTION, HeaderValue::from_static("close")),
            (REFRESH_HEADER, HeaderValue::from(refresh_seconds)),
        ]);
        Self {
            job,
            url,
            refresh: Duration::from_secs(refresh_seconds.into()),
            headers,
            labels: BTreeMap::new(),
            connector,
            metrics,
            listed: TargetList::default(),
            read_unix_millis: 0,
            error: String::new(),
        }
    }

    /// Adds labels that those of the list override.
    pub(crate) fn with_labels(self, labels: BTreeMap<String, String>) -> Self {
        Self { labels, ..self }
    }

    /// Fetches the list repeatedly, and sends its targets.
    pub(crate) async fn run(mut self, source: usize, updates: Sender<TargetUpdate>) {
        loop {
            let limit = self.refresh.min(RESPONSE_TIME);
            let read = match timeout(limit, self.read()).await {
                Ok(read) => read,
                Err(_) => Err(ReadError::TimedOut(limit)),
            };
            let is_read = self.record_read(read);
            let lists = vec![self.list_view()];
            let update = SourceUpdate { source, listed: self.listed.clone(), lists };
            if updates.send(TargetUpdate::Targets(update)).await.is_err() {
                return;
            }
            sleep(if is_read { self.refresh } else { self.refresh.min(FAILED_PAUSE) }).await;
        }
    }

    async fn read(&self) -> Result<TargetList, ReadError> {
        let mut answer = self.connector.get(&self.url, &self.headers).await?;
        let type_ = answer.headers.get(CONTENT_TYPE).map(|it| it.to_str().unwrap_or("?"));
        let type_ = type_.unwrap_or_default();
        let essence = type_.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(ReadError::Type(type_.to_owned()));
        }
        let mut bytes = Vec::new();
        while let Some(frame) = answer.body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            if bytes.len() + piece.len() > TARGET_LIST_BYTES_MAX {
                return Err(ReadError::TooLong(TARGET_LIST_BYTES_MAX));
            }
            bytes.extend_from_slice(&piece);
        }
        let (job, url, base) = (self.job.clone(), self.url.to_string(), self.labels.clone());
        let listed = spawn_blocking(move || {
            let groups = TargetGroup::of_json(&bytes)?;
            Ok(TargetList::new((job.0, &job.1), &base, &groups, (URL_LABEL, &url)))
        });
        listed.await.unwrap_or_else(|ended| Err(ReadError::Io(ended.into())))
    }

    /// Records the result of a fetch. Returns whether it is a list.
    fn record_read(&mut self, read: Result<TargetList, ReadError>) -> bool {
        let url = without_values(&self.url.to_string());
        let error = match read {
            Ok(listed) => {
                self.metrics.list_reads.inc();
                if !self.error.is_empty() {
                    tracing::info!(url, "a target list is readable again");
                }
                self.listed = listed;
                self.read_unix_millis = now_unix_nanos() / NANOS_PER_MILLI;
                self.error.clear();
                return true;
            }
            Err(error) => truncate_error(error),
        };
        self.metrics.list_failures.inc();
        if self.error != error {
            tracing::warn!(url, error, "cannot read a target list; its last version stays in use");
        }
        self.error = error;
        false
    }

    fn list_view(&self) -> ListView {
        ListView {
            job: self.job.1.name.clone(),
            source: without_values(&self.url.to_string()),
            read_unix_millis: self.read_unix_millis,
            targets: self.listed.targets.len() as u64,
            error: self.error.clone(),
        }
    }
}
