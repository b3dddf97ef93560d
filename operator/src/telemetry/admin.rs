//! The operator's admin port: `/livez`, `/readyz`, `/metrics`.
//!
//! It answers from memory and calls no API. A standby replica is ready, so that a rolling update
//! proceeds. A connection serves one request. Every client is accepted; when there are too many
//! connections, the oldest is closed, so that probes are answered whatever others keep open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::telemetry::metrics::Metrics;

/// Connections at once: a kubelet, a Prometheus or two, and a person. Each holds a head and an
/// answer: with 0.2 MB of metrics 7 MB in all.
const CONNECTIONS: usize = 32;

/// How long a connection may live, its request and all: a scrape takes milliseconds.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// How long a request's head may take.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// The longest request head, in bytes, and the read buffer: the library's minimum.
const HEADER_BYTES: usize = 8 * 1024;

/// Retry delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// Listens on an address. All IPv4 addresses include all IPv6 ones, where the machine has IPv6: a
/// cluster with IPv6 alone probes by nothing else.
///
/// # Errors
/// When the address can't be bound.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    if address.ip() == Ipv4Addr::UNSPECIFIED {
        let both = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        if let Ok(listener) = TcpListener::bind(both).await {
            return Ok(listener);
        }
    }
    TcpListener::bind(address).await
}

/// Serves the admin port until `stop` resolves.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let mut stop = pin!(stop);
    let mut open: VecDeque<AbortHandle> = VecDeque::with_capacity(CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            () = stop.as_mut() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() == CONNECTIONS
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let served = connection(stream, health.clone(), metrics.clone());
                // Past the time the connection is dropped, whatever it was doing.
                open.push_back(tokio::spawn(timeout(CONNECTION_TIME, served)).abort_handle());
            }
            Err(error) => {
                tracing::warn!(%error, "an admin connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, health: Health, metrics: Metrics) {
    let service = service_fn(|request: Request<_>| {
        let response = answer(&request, &health, &metrics);
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

fn answer<B>(request: &Request<B>, health: &Health, metrics: &Metrics) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "send GET\n");
    }
    match request.uri().path() {
        "/livez" => state(health.live()),
        "/readyz" => state(health.ready()),
        "/metrics" => match metrics.render() {
            Ok(figures) => response(StatusCode::OK, prometheus::TEXT_FORMAT, figures.into()),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
        },
        _ => text(StatusCode::NOT_FOUND, "write /livez, /readyz or /metrics\n"),
    }
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
