//! The operator's admin port: `/livez`, `/readyz`, `/metrics`.
//!
//! It answers from what it is told and touches no API. A standby replica is ready: it stands by,
//! and a rolling update may go on. Bodies are short; requests carry none.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, extract::DefaultBodyLimit};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// No endpoint takes a body; this only stops someone sending one.
const BODY_BYTES_MAX: usize = 1024;

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
    /// The kinds are served by the API server: the replica stands by or leads.
    pub fn crds_served(&self) {
        self.inner.crds_served.store(true, Ordering::Relaxed);
    }

    /// The replica drains.
    pub fn stopping(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
    }

    /// A controller ended that never should: only a restart helps.
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

/// Listens on an address. Where that is every address of IPv4 it is every one of IPv6 too, on a
/// machine that has those: a cluster of IPv6 alone probes by nothing else.
///
/// # Errors
/// When the address can't be had.
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
///
/// # Errors
/// When the listener breaks.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router(health, metrics)).with_graceful_shutdown(stop).await
}

fn router(health: Health, metrics: Metrics) -> Router {
    Router::new()
        .route("/livez", get(|State((health, _)): State<(Health, Metrics)>| async move {
            answer(health.live())
        }))
        .route("/readyz", get(|State((health, _)): State<(Health, Metrics)>| async move {
            answer(health.ready())
        }))
        .route("/metrics", get(|State((_, metrics)): State<(Health, Metrics)>| async move {
            render(&metrics)
        }))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state((health, metrics))
}

fn answer(state: Result<(), &'static str>) -> Response {
    match state {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

fn render(metrics: &Metrics) -> Response {
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    /// Scenario: every address of IPv4 is asked for, and one alone. Guarantee: the first is reached
    /// by IPv4 and, where the machine has it, by IPv6; the second is just that one.
    #[tokio::test]
    async fn every_address_is_one_of_ipv6_too() {
        let every = bind("0.0.0.0:0".parse().unwrap()).await.unwrap();
        let port = every.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
        let one = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        assert_eq!(one.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    }

    /// Scenario: start, CRDs appear, stop. Guarantee: ready only in between, and never because of
    /// the lease.
    #[test]
    fn readiness_follows_the_kinds_and_the_shutdown() {
        let health = Health::default();
        assert!(health.ready().is_err());
        health.crds_served();
        assert!(health.ready().is_ok());
        health.stopping();
        assert_eq!(health.ready(), Err("stopping"));
        assert!(health.live().is_ok());
    }

    /// Scenario: a controller ends on its own. Guarantee: the probe asks for a restart.
    #[test]
    fn a_controller_that_ended_makes_the_replica_not_live() {
        let health = Health::default();
        health.broken();
        assert!(health.live().is_err());
    }
}
