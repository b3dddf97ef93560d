//! The thread that sends: it collects waiting items for a second and posts them.
//!
//! It retries a few times if the server can't be reached or requests a retry; then it drops and
//! counts the batch. It logs when the server begins to fail and when it recovers.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{mpsc as queue, watch};
use tokio::time::{sleep, timeout};

use super::item::{EndedSpan, Item, LogLine};
use super::{
    BATCH_ITEMS, ExportCounts, ExportResult, ExportSettings, ItemKind, QUEUE_ITEMS, StartError,
};
use super::{encode, layer};
use crate::error_chain;

/// The time that a batch waits for more items.
const LINGER: Duration = Duration::from_secs(1);
/// The time-out of a request, including the connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time-out of the last request, for which the process waits.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// Waits between attempts of one batch. With the attempts they take less time than the queue takes
/// to fill at 50 items per second.
const WAITS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// The time after which an idle connection is closed.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest header.
const HEADER_BYTES_MAX: u64 = 8 * 1024;

/// Starts the thread. The returned receiver reports its end.
pub(super) fn start_sender(
    settings: ExportSettings,
    counts: ExportCounts,
    items: queue::Receiver<Item>,
    stopped: watch::Receiver<bool>,
) -> Result<mpsc::Receiver<()>, StartError> {
    let sender = Sender::new(settings, counts)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = mpsc::sync_channel(1);
    thread::Builder::new().name("own-telemetry".to_owned()).spawn(move || {
        layer::collect_nothing_here();
        runtime.block_on(sender.run(items, stopped));
        // The receiver may be gone.
        let _ = end.try_send(());
    })?;
    Ok(ended)
}

struct Sender {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    traces: Uri,
    logs: Uri,
    settings: ExportSettings,
    counts: ExportCounts,
    /// Whether the last request failed, which is already logged.
    in_trouble: bool,
}

/// The reason why a batch was refused.
enum SendFault {
    /// A retry may help.
    Passing(String),
    /// A retry can't help.
    Final(String),
}

impl Sender {
    fn new(settings: ExportSettings, counts: ExportCounts) -> Result<Self, StartError> {
        let wrong = || StartError::Endpoint { endpoint: settings.endpoint.clone() };
        let uri = |path: &str| {
            let uri = format!("{}{path}", settings.endpoint.trim_end_matches('/'));
            let uri: Uri = uri.parse().map_err(|_| wrong())?;
            let known = matches!(uri.scheme_str(), Some("http" | "https"));
            if known && uri.authority().is_some() { Ok(uri) } else { Err(wrong()) }
        };
        let (traces, logs) = (uri("/v1/traces")?, uri("/v1/logs")?);
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(settings.tls.clone())
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { http, traces, logs, settings, counts, in_trouble: false })
    }

    async fn run(mut self, mut items: queue::Receiver<Item>, mut stopped: watch::Receiver<bool>) {
        let mut batch = Vec::with_capacity(BATCH_ITEMS);
        loop {
            tokio::select! {
                received = items.recv_many(&mut batch, BATCH_ITEMS) => if received == 0 { return },
                () = wait_for_stop(&mut stopped) => {}
            }
            tokio::select! {
                () = fill_batch(&mut items, &mut batch) => {}
                () = sleep(LINGER) => {}
                () = wait_for_stop(&mut stopped) => {}
            }
            let is_last = *stopped.borrow();
            if is_last {
                items.close();
                items.recv_many(&mut batch, QUEUE_ITEMS).await;
            }
            let waits = if is_last { &[][..] } else { &WAITS[..] };
            tokio::select! {
                () = self.send_batch(&mut batch, waits) => {}
                () = wait_past_deadline(&mut stopped) => {}
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a batch and empties it.
    async fn send_batch(&mut self, batch: &mut Vec<Item>, waits: &[Duration]) {
        let (mut spans, mut lines): (Vec<EndedSpan>, Vec<LogLine>) = (Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Item::Span(span) => spans.push(*span),
                Item::Log(line) => lines.push(*line),
            }
        }
        if !spans.is_empty() {
            let body = encode::encode_spans(&self.settings.resource, &spans);
            self.deliver_items(ItemKind::Span, spans.len(), body.into(), waits).await;
        }
        if !lines.is_empty() {
            let body = encode::encode_logs(&self.settings.resource, &lines);
            self.deliver_items(ItemKind::Log, lines.len(), body.into(), waits).await;
        }
    }

    async fn deliver_items(
        &mut self,
        what: ItemKind,
        items: usize,
        body: Bytes,
        waits: &[Duration],
    ) {
        let uri = match what {
            ItemKind::Span => self.traces.clone(),
            ItemKind::Log => self.logs.clone(),
        };
        let mut waits = waits.iter();
        let fault = loop {
            match self.post_body(&uri, body.clone()).await {
                Ok(()) => {
                    self.counts.add_items(what, ExportResult::Sent, items as u64);
                    if std::mem::take(&mut self.in_trouble) {
                        tracing::info!(endpoint = %uri, "own traces and logs are accepted again");
                    }
                    return;
                }
                Err(SendFault::Final(why)) => break why,
                Err(SendFault::Passing(why)) => match waits.next() {
                    Some(wait) => sleep(*wait).await,
                    None => break why,
                },
            }
        };
        self.counts.add_items(what, ExportResult::Refused, items as u64);
        if !std::mem::replace(&mut self.in_trouble, true) {
            tracing::warn!(
                endpoint = %uri, why = fault,
                "own traces and logs are not accepted; they are dropped until they are accepted \
                 again"
            );
        }
    }

    async fn post_body(&self, uri: &Uri, body: Bytes) -> Result<(), SendFault> {
        let mut request = Request::post(uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))
            .body(Full::new(body))
            .map_err(|error| SendFault::Final(error.to_string()))?;
        request
            .headers_mut()
            .extend(read_headers(&self.settings.headers).map_err(SendFault::Passing)?);
        let exchange = async {
            let answer = self.http.request(request).await.map_err(|error| error_chain(&error))?;
            let status = answer.status();
            // The body is read to its end so that the connection can be reused.
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            drop(body);
            Ok::<_, String>(status)
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Err(_) => {
                Err(SendFault::Passing(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))
            }
            Ok(Err(why)) => Err(SendFault::Passing(why)),
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(match status {
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => SendFault::Passing(status.to_string()),
                status => SendFault::Final(status.to_string()),
            }),
        }
    }
}

/// Receives items until the batch is full; waits forever after the last one.
async fn fill_batch(items: &mut queue::Receiver<Item>, batch: &mut Vec<Item>) {
    while batch.len() < BATCH_ITEMS {
        if items.recv_many(batch, BATCH_ITEMS - batch.len()).await == 0 {
            return std::future::pending().await;
        }
    }
}

/// Returns when the export must end or its handle is gone.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Returns when the last batch has taken too long.
async fn wait_past_deadline(stopped: &mut watch::Receiver<bool>) {
    wait_for_stop(stopped).await;
    sleep(LAST_TIMEOUT).await;
}

/// Reads the headers with their files' current content.
fn read_headers(files: &[(String, PathBuf)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, path) in files {
        let unusable = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let length = fs::metadata(path).map_err(|error| unusable(&error))?.len();
        if length > HEADER_BYTES_MAX {
            return Err(unusable(&format!("over {HEADER_BYTES_MAX} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|error| unusable(&error))?;
        let parsed = name.parse::<HeaderName>().ok();
        let value = HeaderValue::from_str(text.trim_end_matches(['\n', '\r'])).ok();
        let (Some(header), Some(mut value)) = (parsed, value) else {
            return Err(unusable(&format!(
                "{name:?} is not a valid header name, or the file's text is not a valid value"
            )));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
