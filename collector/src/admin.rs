//! Serves probes, metrics and pages over HTTP/1: `/livez`, `/readyz`, `/metrics`, `/`, `/targets`,
//! `/targets.json`, `/share`, `/rules`, `/producers`, `/dead-letters`. No answer shows records,
//! secrets, or settings other than targets and rules; `/producers` has names of services and
//! namespaces, `/dead-letters` positions, reasons and sizes.

mod dead_letters;
pub(crate) mod page;
pub(crate) mod producers;

use std::future::{pending, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_observe::text::MetricsFormat;
use millrace_observe::{http_listener, listen};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::telemetry::Telemetry;
use millrace_rules::Rules;
use millrace_sink_kafka::RecentDeadLetters;
use millrace_source_prometheus::TargetStatus;
use tokio::net::TcpListener;

use crate::admin::page::{StatusPage, share, targets};
use crate::admin::producers::ProducerMeter;

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
    pub(crate) dead_letters: Arc<RecentDeadLetters>,
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
        let answer = move |request: Request<Incoming>| ready(this.route_request(&request));
        http_listener::serve(listener, answer, pending()).await;
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
            "/dead-letters" => {
                json_response(dead_letters::render_json(&self.dead_letters.list_newest()))
            }
            _ => text_response(
                StatusCode::NOT_FOUND,
                "use /, /targets, /targets.json, /share, /rules, /producers, /dead-letters, \
                 /livez, /readyz or /metrics\n"
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
