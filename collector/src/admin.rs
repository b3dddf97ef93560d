//! Probes, metrics and pages over HTTP/1: `/livez`, `/readyz`, `/metrics`, `/`, `/targets`,
//! `/targets.json`, `/share`. Nothing here shows records or secrets, nor of settings more than
//! targets.
//!
//! A connection serves one request. Every connection is accepted, and above the limit the oldest is
//! closed: an answer takes milliseconds, so open connections of others can't block a probe.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use millrace_observe::text::Format;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_receivers::listen;
use millrace_receivers::prometheus::Board;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::page::{Page, share, targets};

/// Connections at once: a kubelet, a Prometheus or two, and a person. Each holds a head and an
/// answer: with 0.2 MB of metrics, as of 1,000 partitions, 7 MB in all; with a mebibyte of targets
/// each, or of a share of 10,000 targets, 32 MB.
const CONNECTIONS: usize = 32;

/// How long a connection may live, its request and all: a scrape takes milliseconds.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// How long a request's headers may take.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// The longest request head, in bytes, and the read buffer: the least that the library takes.
const HEADER_BYTES: usize = 8 * 1024;

/// Delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Headers of the page: the browser loads nothing else, runs nothing and keeps nothing.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 5] = [
    (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// The sources of the answers.
pub(crate) struct Admin {
    pub(crate) page: Page,
    pub(crate) readiness: Readiness,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) drain: Drain,
    pub(crate) board: Board,
}

/// The listener could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (admin.address): {source}")]
pub(crate) struct AdminError {
    address: SocketAddr,
    source: io::Error,
}

/// Binds the listener.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
    listen::bind(address).await.map_err(|source| AdminError { address, source })
}

impl Admin {
    /// Answers until the process ends: a drain needs probes and the last metrics too.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let this = Arc::new(self);
        let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS);
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    open.retain(|connection| !connection.is_finished());
                    if open.len() == CONNECTIONS
                        && let Some(oldest) = open.pop_front()
                    {
                        oldest.abort();
                    }
                    // Past the time the connection is dropped, whatever it was doing.
                    let served = timeout(CONNECTION_TIME, Arc::clone(&this).connection(stream));
                    open.push_back(tokio::spawn(served).abort_handle());
                }
                Err(error) => {
                    tracing::warn!(%error, "an admin connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(|request: Request<_>| {
            let response = self.answer(&request);
            async { Ok::<_, Infallible>(response) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(false)
            .header_read_timeout(HEADER_TIME)
            .max_header_size(HEADER_BYTES)
            .max_buf_size(HEADER_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "an admin connection ended early");
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "send GET\n".to_owned());
        }
        match request.uri().path() {
            "/livez" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => self.ready(),
            "/metrics" => self.metrics(request.headers()),
            "/" => self.page(),
            "/targets" => self.targets(request.uri().query().unwrap_or_default()),
            "/targets.json" => self.targets_json(request.uri().query().unwrap_or_default()),
            "/share" => self.share(),
            _ => text(
                StatusCode::NOT_FOUND,
                "write /, /targets, /targets.json, /share, /livez, /readyz or /metrics\n"
                    .to_owned(),
            ),
        }
    }

    fn targets(&self, query: &str) -> Response<Full<Bytes>> {
        if query.split('&').any(|pair| pair == "format=json") {
            return self.targets_json(query);
        }
        let view = self.board.view(targets::from(query), targets::ROWS_MAX);
        html(targets::page(&view))
    }

    fn targets_json(&self, query: &str) -> Response<Full<Bytes>> {
        let view = self.board.view(targets::from(query), targets::JSON_MAX);
        json(targets::json(&view))
    }

    fn share(&self) -> Response<Full<Bytes>> {
        match self.board.share() {
            Some(report) => json(share::json(&report)),
            None => text(
                StatusCode::NOT_FOUND,
                "this process has no share of targets (receivers.prometheus.share)\n".to_owned(),
            ),
        }
    }

    fn ready(&self) -> Response<Full<Bytes>> {
        if self.drain.is_announced() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
        }
        let reasons = self.readiness.reasons();
        if reasons.is_empty() {
            let notes = self.readiness.notes().into_iter();
            text(StatusCode::OK, notes.fold("ok\n".to_owned(), |text, note| text + &note + "\n"))
        } else {
            text(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
        }
    }

    fn page(&self) -> Response<Full<Bytes>> {
        let figures = self.telemetry.figures();
        html(self.page.render(&figures, &self.readiness, &self.drain))
    }

    fn metrics(&self, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Format::of(accept.unwrap_or_default());
        match self.telemetry.render_as(format) {
            Ok(metrics) => {
                let mut response = text(StatusCode::OK, metrics);
                let format = HeaderValue::from_static(format.content_type());
                response.headers_mut().insert(CONTENT_TYPE, format);
                response
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

fn json(body: String) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A page.
fn html(body: String) -> Response<Full<Bytes>> {
    let mut response = text(StatusCode::OK, body);
    for (name, value) in PAGE_HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let format = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, format);
    response
}
