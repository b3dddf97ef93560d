//! The operator's admin port: `/livez`, `/readyz`, `/metrics`.
//!
//! It answers from memory and calls no API. A standby replica is ready, so that a rolling update
//! proceeds. Its limits are those of [`listener`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_observe::text::Format;
use tokio::net::TcpListener;

use crate::telemetry::listener;
use crate::telemetry::metrics::Metrics;

/// What the probes report.
#[derive(Clone, Debug, Default)]
pub struct Health {
    inner: Arc<Flags>,
}

#[derive(Debug, Default)]
struct Flags {
    crds_served: AtomicBool,
    stopping: AtomicBool,
    broken: AtomicBool,
}

impl Health {
    /// The API server serves the kinds: the replica stands by or leads.
    pub fn crds_served(&self) {
        self.inner.crds_served.store(true, Ordering::Relaxed);
    }

    /// The replica drains.
    pub fn stopping(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
    }

    /// A controller ended unexpectedly: only a restart helps.
    pub fn broken(&self) {
        self.inner.broken.store(true, Ordering::Relaxed);
    }

    fn ready(&self) -> Result<(), &'static str> {
        if self.inner.stopping.load(Ordering::Relaxed) {
            Err("stopping")
        } else if !self.inner.crds_served.load(Ordering::Relaxed) {
            Err("waiting for the millrace.dev kinds: install the millrace-crds chart")
        } else {
            Ok(())
        }
    }

    fn live(&self) -> Result<(), &'static str> {
        if self.inner.broken.load(Ordering::Relaxed) {
            Err("a controller ended on its own")
        } else {
            Ok(())
        }
    }
}

/// Serves the admin port until `stop` resolves.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let answer = move |request: Request<Incoming>| {
        let response = answer(&request, &health, &metrics);
        async { response }
    };
    listener::serve(listener, answer, stop).await;
}

fn answer<B>(request: &Request<B>, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "send GET\n");
    }
    match request.uri().path() {
        "/livez" => state(health.live()),
        "/readyz" => state(health.ready()),
        "/metrics" => match metrics.render(format_for(request)) {
            Ok(figures) => {
                response(StatusCode::OK, format_for(request).content_type(), figures.into())
            }
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "write /livez, /readyz or /metrics\n"),
    }
}

fn format_for<B>(request: &Request<B>) -> Format {
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    Format::of(accept.unwrap_or_default())
}

fn state(state: Result<(), &'static str>) -> Response<Full<Bytes>> {
    match state {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
    }
}

fn text(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    response(status, "text/plain; charset=utf-8", text.to_owned().into())
}

fn response(status: StatusCode, format: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format));
    response
}

#[cfg(test)]
#[path = "../../tests/unit/telemetry/admin.rs"]
mod tests;
