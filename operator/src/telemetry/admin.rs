//! The operator's admin port: `/livez`, `/readyz`, `/metrics`; the last requires a token, where one
//! is set.
//!
//! It answers from memory and calls no API. A standby replica is ready, so that a rolling update
//! proceeds. Its limits are those of [`listener`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use millrace_observe::text::MetricsFormat;
use tokio::net::TcpListener;

use crate::telemetry::metrics::Metrics;
use crate::telemetry::token;
use millrace_observe::http_listener;

/// The state that the probes report.
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
    /// Records that the API server serves the kinds: the replica is a standby or leads.
    pub fn set_crds_served(&self) {
        self.inner.crds_served.store(true, Ordering::Relaxed);
    }

    /// Records that the replica drains.
    pub fn set_stopping(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
    }

    /// Records that a controller ended unexpectedly: only a restart helps.
    pub fn set_broken(&self) {
        self.inner.broken.store(true, Ordering::Relaxed);
    }

    fn check_ready(&self) -> Result<(), &'static str> {
        if self.inner.stopping.load(Ordering::Relaxed) {
            Err("stopping")
        } else if !self.inner.crds_served.load(Ordering::Relaxed) {
            Err(
                "waiting for the millrace.dev kinds: install the chart millrace-crds of this version",
            )
        } else {
            Ok(())
        }
    }

    fn check_live(&self) -> Result<(), &'static str> {
        if self.inner.broken.load(Ordering::Relaxed) {
            Err("a controller ended unexpectedly")
        } else {
            Ok(())
        }
    }
}

/// The content of the admin port.
#[derive(Clone, Debug)]
pub struct AdminContext {
    /// The state for probes.
    pub health: Health,
    /// The metrics for scrapes.
    pub metrics: Metrics,
    /// A file with the token that scrapes must have; `None`: all clients get metrics.
    pub metrics_token: Option<PathBuf>,
}

/// Serves the admin port until `stop` resolves.
pub async fn serve_admin(
    listener: TcpListener,
    admin: AdminContext,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let admin = Arc::new(admin);
    let answer = move |request: Request<Incoming>| {
        let admin = admin.clone();
        async move { handle_request(&request, &admin).await }
    };
    http_listener::serve(listener, answer, stop).await;
}

async fn handle_request<B>(request: &Request<B>, admin: &AdminContext) -> Response<Full<Bytes>> {
    let AdminContext { health, metrics, metrics_token } = admin;
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text_response(StatusCode::METHOD_NOT_ALLOWED, "send GET\n");
    }
    match request.uri().path() {
        "/livez" => probe_response(health.check_live()),
        "/readyz" => probe_response(health.check_ready()),
        "/metrics" => match admitted(request, metrics_token.as_deref()).await {
            Ok(()) => figures(request, metrics),
            Err(refusal) => *refusal,
        },
        _ => text_response(StatusCode::NOT_FOUND, "write /livez, /readyz or /metrics\n"),
    }
}

/// Checks whether a scrape may get metrics; otherwise returns its response.
async fn admitted<B>(
    request: &Request<B>,
    token: Option<&Path>,
) -> Result<(), Box<Response<Full<Bytes>>>> {
    let Some(file) = token else { return Ok(()) };
    match token::admits(file, request.headers()).await {
        Ok(true) => Ok(()),
        Ok(false) => {
            let mut refusal =
                text_response(StatusCode::UNAUTHORIZED, "send the token as a bearer token\n");
            refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            Err(Box::new(refusal))
        }
        Err(why) => {
            tracing::warn!(why, "metrics are not served: their token can't be read");
            Err(Box::new(text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "the token can't be read\n",
            )))
        }
    }
}

fn figures<B>(request: &Request<B>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let format = format_for(request);
    match metrics.render(format) {
        Ok(figures) => build_response(StatusCode::OK, format.content_type(), figures.into()),
        Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn format_for<B>(request: &Request<B>) -> MetricsFormat {
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    MetricsFormat::from_accept(accept.unwrap_or_default())
}

fn probe_response(state: Result<(), &'static str>) -> Response<Full<Bytes>> {
    match state {
        Ok(()) => text_response(StatusCode::OK, "ok\n"),
        Err(why) => text_response(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n")),
    }
}

fn text_response(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    build_response(status, "text/plain; charset=utf-8", text.to_owned().into())
}

fn build_response(status: StatusCode, format: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format));
    response
}

#[cfg(test)]
mod tests;
