//! The thread that sends: takes what waits, a second's worth at a time, and posts it.
//!
//! A server that can't be reached, or asks to come back, is tried a few times; then the batch is
//! dropped and counted. That a server takes nothing is logged when it begins and when it ends.

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

use super::item::{Done, Item, Line};
use super::{BATCH_ITEMS, Became, Counts, QUEUE_ITEMS, Settings, StartError, What};
use super::{encode, layer};
use crate::log;

/// How long a batch waits for more.
const LINGER: Duration = Duration::from_secs(1);
/// How long a request may take, the connection included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the last one may take: the process waits for it.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);
/// Waits between tries of one batch: together with the tries less than the queue fills in, at 50
/// items a second.
const WAITS: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// How long an idle connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The longest header.
const HEADER_BYTES_MAX: u64 = 8 * 1024;

/// Starts the thread. What it returns says when the thread has ended.
pub(super) fn start(
    settings: Settings,
    counts: Counts,
    items: queue::Receiver<Item>,
    stopped: watch::Receiver<bool>,
) -> Result<mpsc::Receiver<()>, StartError> {
    let sender = Sender::new(settings, counts)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (end, ended) = mpsc::sync_channel(1);
    thread::Builder::new().name("own-telemetry".to_owned()).spawn(move || {
        layer::collect_nothing_here();
        runtime.block_on(sender.run(items, stopped));
        // Nobody may wait for it any more.
        let _ = end.try_send(());
    })?;
    Ok(ended)
}

struct Sender {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    traces: Uri,
    logs: Uri,
    settings: Settings,
    counts: Counts,
    /// Whether the last request failed, which the log has said then.
    in_trouble: bool,
}

/// Why a batch was not taken.
enum Fault {
    /// Another try may help.
    Passing(String),
    /// None would.
    Final(String),
}

impl Sender {
    fn new(settings: Settings, counts: Counts) -> Result<Self, StartError> {
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
                taken = items.recv_many(&mut batch, BATCH_ITEMS) => if taken == 0 { return },
                () = stop(&mut stopped) => {}
            }
            tokio::select! {
                () = fill(&mut items, &mut batch) => {}
                () = sleep(LINGER) => {}
                () = stop(&mut stopped) => {}
            }
            let is_last = *stopped.borrow();
            if is_last {
                items.close();
                items.recv_many(&mut batch, QUEUE_ITEMS).await;
            }
            let waits = if is_last { &[][..] } else { &WAITS[..] };
            tokio::select! {
                () = self.send(&mut batch, waits) => {}
                () = late(&mut stopped) => {}
            }
            if is_last {
                return;
            }
        }
    }

    /// Sends a batch and empties it.
    async fn send(&mut self, batch: &mut Vec<Item>, waits: &[Duration]) {
        let (mut spans, mut lines): (Vec<Done>, Vec<Line>) = (Vec::new(), Vec::new());
        for item in batch.drain(..) {
            match item {
                Item::Span(span) => spans.push(*span),
                Item::Log(line) => lines.push(*line),
            }
        }
        if !spans.is_empty() {
            let body = encode::spans(&self.settings.resource, &spans);
            self.deliver(What::Span, spans.len(), body.into(), waits).await;
        }
        if !lines.is_empty() {
            let body = encode::logs(&self.settings.resource, &lines);
            self.deliver(What::Log, lines.len(), body.into(), waits).await;
        }
    }

    async fn deliver(&mut self, what: What, items: usize, body: Bytes, waits: &[Duration]) {
        let uri = match what {
            What::Span => self.traces.clone(),
            What::Log => self.logs.clone(),
        };
        let mut waits = waits.iter();
        let fault = loop {
            match self.post(&uri, body.clone()).await {
                Ok(()) => {
                    self.counts.add(what, Became::Sent, items as u64);
                    if std::mem::take(&mut self.in_trouble) {
                        tracing::info!(endpoint = %uri, "own traces and logs are taken again");
                    }
                    return;
                }
                Err(Fault::Final(why)) => break why,
                Err(Fault::Passing(why)) => match waits.next() {
                    Some(wait) => sleep(*wait).await,
                    None => break why,
                },
            }
        };
        self.counts.add(what, Became::Refused, items as u64);
        if !std::mem::replace(&mut self.in_trouble, true) {
            tracing::warn!(
                endpoint = %uri, why = fault,
                "own traces and logs are not taken; they are dropped until they are"
            );
        }
    }

    async fn post(&self, uri: &Uri, body: Bytes) -> Result<(), Fault> {
        let mut request = Request::post(uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"))
            .body(Full::new(body))
            .map_err(|error| Fault::Final(error.to_string()))?;
        request.headers_mut().extend(headers(&self.settings.headers).map_err(Fault::Passing)?);
        let exchange = async {
            let answer = self.http.request(request).await.map_err(|error| log::causes(&error))?;
            let status = answer.status();
            // Read to its end, so that the connection can be used again.
            let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
            drop(body);
            Ok::<_, String>(status)
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Err(_) => {
                Err(Fault::Passing(format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())))
            }
            Ok(Err(why)) => Err(Fault::Passing(why)),
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(match status {
                StatusCode::TOO_MANY_REQUESTS
                | StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => Fault::Passing(status.to_string()),
                status => Fault::Final(status.to_string()),
            }),
        }
    }
}

/// Takes items until the batch is full; for ever when there are no more.
async fn fill(items: &mut queue::Receiver<Item>, batch: &mut Vec<Item>) {
    while batch.len() < BATCH_ITEMS {
        if items.recv_many(batch, BATCH_ITEMS - batch.len()).await == 0 {
            return std::future::pending().await;
        }
    }
}

/// Ends when the export is to end, or nobody could say so any more.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Ends when the last batch has taken too long.
async fn late(stopped: &mut watch::Receiver<bool>) {
    stop(stopped).await;
    sleep(LAST_TIMEOUT).await;
}

/// The headers, with what their files hold now.
fn headers(files: &[(String, PathBuf)]) -> Result<HeaderMap, String> {
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
            return Err(unusable(&format!("{name:?} is no header's name, or the text no value")));
        };
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    Ok(headers)
}
