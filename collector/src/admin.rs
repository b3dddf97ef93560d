//! Serves probes, metrics and pages over HTTP/1: `/livez`, `/readyz`, `/metrics`, `/`, `/targets`,
//! `/targets.json`, `/share`, `/rules`, `/producers`. No answer shows records, secrets, or settings
//! other than targets and rules; `/producers` has names of services and namespaces.
//!
//! A connection serves one request. Every connection is accepted, and above the limit the oldest is
//! closed: an answer takes milliseconds, so other clients' open connections can't block a probe.

pub(crate) mod page;
pub(crate) mod producers;

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
use millrace_observe::text::MetricsFormat;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::listen;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_rules::Rules;
use millrace_source_prometheus::TargetStatus;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::admin::page::{StatusPage, share, targets};
use crate::admin::producers::ProducerMeter;

/// The maximum number of connections: a kubelet, a Prometheus or two, and a person. Each holds a
/// request head and an answer: 7 MB in all with 0.2 MB of metrics each, as of 1,000 partitions; 32
/// MB with a mebibyte of targets each, or of a share of 10,000 targets.
const CONNECTIONS: usize = 32;

/// How long a connection may live, including its request: a scrape takes milliseconds.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// How long a request's headers may take.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// The longest request head, in bytes, and the read buffer: the minimum that the library accepts.
const HEADER_BYTES: usize = 8 * 1024;

/// Delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Headers of the page: the browser loads nothing else, runs nothing and stores nothing.
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
pub(crate) struct AdminContext {
    pub(crate) page: StatusPage,
    pub(crate) readiness: Readiness,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) drain: Drain,
    pub(crate) target_status: TargetStatus,
    pub(crate) rules: Option<Arc<Rules>>,
    pub(crate) producers: Arc<ProducerMeter>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (admin.address): {source}")]
pub(crate) struct AdminError {
    address: SocketAddr,
    source: io::Error,
}

pub(crate) async fn bind_listener(address: SocketAddr) -> Result<TcpListener, AdminError> {
    listen::bind(address).await.map_err(|source| AdminError { address, source })
}

impl AdminContext {
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
                    // After this time the connection is dropped in any state.
                    let served =
                        timeout(CONNECTION_TIME, Arc::clone(&this).serve_connection(stream));
                    open.push_back(tokio::spawn(served).abort_handle());
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an admin connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve_connection(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(|request: Request<_>| {
            let response = self.route_request(&request);
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

    fn route_request<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return text_response(StatusCode::METHOD_NOT_ALLOWED, "send GET\n".to_owned());
        }
        match request.uri().path() {
            "/livez" => text_response(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => self.respond_ready(),
            "/metrics" => self.respond_metrics(request.headers()),
            "/" => self.respond_page(),
            "/targets" => self.respond_targets(request.uri().query().unwrap_or_default()),
            "/targets.json" => self.respond_targets_json(request.uri().query().unwrap_or_default()),
            "/share" => self.respond_share(),
            "/rules" => self.respond_rules(),
            "/producers" => json_response(self.producers.render_json()),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "use /, /targets, /targets.json, /share, /rules, /producers, /livez, /readyz or \
                 /metrics\n"
                    .to_owned(),
            ),
        }
    }

    fn respond_targets(&self, query: &str) -> Response<Full<Bytes>> {
        if query.split('&').any(|pair| pair == "format=json") {
            return self.respond_targets_json(query);
        }
        let view = self.target_status.targets_view(targets::parse_from(query), targets::ROWS_MAX);
        html_response(targets::render_page(&view))
    }

    fn respond_targets_json(&self, query: &str) -> Response<Full<Bytes>> {
        let view = self.target_status.targets_view(targets::parse_from(query), targets::JSON_MAX);
        json_response(targets::render_json(&view))
    }

    fn respond_share(&self) -> Response<Full<Bytes>> {
        match self.target_status.share_report() {
            Some(report) => json_response(share::render_json(&report)),
            None => text_response(
                StatusCode::NOT_FOUND,
                "this process has no share of targets (receivers.prometheus.share is not set)\n"
                    .to_owned(),
            ),
        }
    }

    fn respond_rules(&self) -> Response<Full<Bytes>> {
        match &self.rules {
            Some(rules) => json_response(rules.render_json()),
            None => text_response(
                StatusCode::NOT_FOUND,
                "this process runs no rules (processing is not set)\n".to_owned(),
            ),
        }
    }

    fn respond_ready(&self) -> Response<Full<Bytes>> {
        if self.drain.is_announced() {
            return text_response(StatusCode::SERVICE_UNAVAILABLE, "draining\n".to_owned());
        }
        let reasons = self.readiness.reasons();
        if reasons.is_empty() {
            let notes = self.readiness.warnings().into_iter();
            text_response(
                StatusCode::OK,
                notes.fold("ok\n".to_owned(), |text, note| text + &note + "\n"),
            )
        } else {
            text_response(StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
        }
    }

    fn respond_page(&self) -> Response<Full<Bytes>> {
        let figures = self.telemetry.figures();
        html_response(self.page.render(&figures, &self.readiness, &self.drain))
    }

    fn respond_metrics(&self, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = MetricsFormat::from_accept(accept.unwrap_or_default());
        match self.telemetry.render_as(format) {
            Ok(metrics) => {
                let mut response = text_response(StatusCode::OK, metrics);
                let format = HeaderValue::from_static(format.content_type());
                response.headers_mut().insert(CONTENT_TYPE, format);
                response
            }
            Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

fn json_response(body: String) -> Response<Full<Bytes>> {
    let mut response = text_response(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn html_response(body: String) -> Response<Full<Bytes>> {
    let mut response = text_response(StatusCode::OK, body);
    for (name, value) in PAGE_HEADERS {
        response.headers_mut().insert(name, value);
    }
    response
}

fn text_response(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let format = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, format);
    response
}
