//! OTLP from clients: gRPC, and HTTP with bodies in protobuf or JSON; checked, counted and passed
//! on as protobuf bytes.
//!
//! The async runtime serves sockets; a few threads of their own decompress and check. A client is
//! answered when the publisher reports its records safe. This module decodes nothing, keeps
//! nothing, and never answers a temporary failure with a code that makes a client drop its records.
//! Its limits are [`millrace_config::OtlpLimits`].

mod body;
mod connection;
mod denied;
mod frames;
mod grpc;
mod guard;
mod http;
mod reply;
mod room;
mod scratch;
mod service;
mod status;
mod tls;
mod work;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{OtlpReceiver, ServerTls};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::framing::GRPC_PREFIX_BYTES;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use crate::listen;
use body::Intake;
use connection::{Host, Listener, Protocol};
use room::Rooms;
use service::Service;
use work::{Pool, Shared};

pub use tls::TlsError;

/// The fewest threads for compression and checks, even on one core: a long request must not hold up
/// the short ones behind it.
const LEAST_THREADS: usize = 2;

/// What a receiver works with.
pub struct Parts {
    /// Where the bytes in flight are counted.
    pub budget: Budget,
    /// When to stop.
    pub drain: Drain,
    /// Where everything is counted.
    pub telemetry: Arc<Telemetry>,
    /// Where requests go.
    pub publisher: Arc<dyn Publish>,
    /// Threads for compression and checks; two are started at least.
    pub threads: usize,
}

/// A receiver that could not start.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// An address is taken, or not ours to use.
    #[error("cannot listen on {address} ({field}): {source}")]
    Bind {
        /// The settings field.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("{field}: {source}")]
    Tls {
        /// The settings field.
        field: &'static str,
        /// Why.
        source: TlsError,
    },
    /// The budget cannot hold a connection.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small for clients to connect: with \
         these receivers.otlp.limits it needs {needed_bytes}; lower headerListBytes or \
         concurrentStreams, or raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// What there is.
        budget_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// No thread could be started.
    #[error("cannot start the receiver's threads: {0}")]
    Threads(#[source] io::Error),
}

/// A receiver with its sockets bound and nothing accepted yet.
pub struct Otlp {
    grpc: Option<Listener>,
    http: Option<Listener>,
}

impl Otlp {
    /// Binds the listeners, loads certificates and starts the threads.
    ///
    /// # Errors
    /// When one of these cannot be done.
    pub async fn bind(settings: &OtlpReceiver, parts: Parts) -> Result<Self, OtlpError> {
        let OtlpReceiver { grpc, http, limits } = settings;
        let Parts { budget, drain, telemetry, publisher, threads } = parts;
        let longest_bytes = limits.longest_bytes() + GRPC_PREFIX_BYTES as u64;
        let intake = Intake::new(budget.clone(), longest_bytes);
        let rooms = Rooms::new(budget.clone(), limits, Handle::current().metrics().num_workers());
        rooms.suffice().map_err(|needed_bytes| OtlpError::SmallBudget {
            budget_bytes: budget.limit_bytes(),
            needed_bytes,
        })?;
        let shared = Arc::new(Shared { budget, intake, telemetry, publisher });
        let pool = Pool::start(threads.max(LEAST_THREADS), Arc::clone(&shared))
            .map_err(OtlpError::Threads)?;
        let request_time = Duration::from_secs(u64::from(limits.request_seconds));
        let service = Arc::new(Service { shared, pool, rooms, drain: drain.clone(), request_time });
        let listener = async |protocol, enabled: bool, address, tls: &Option<ServerTls>| {
            if !enabled {
                return Ok(None);
            }
            let host = Host {
                protocol,
                tls: tls.as_ref().map(|tls| load_tls(protocol, tls)).transpose()?,
                limits: limits.clone(),
                service: Arc::clone(&service),
                drain: drain.clone(),
            };
            Ok(Some(Listener { socket: bind(protocol, address).await?, host }))
        };
        Ok(Self {
            grpc: listener(Protocol::Grpc, grpc.enabled, grpc.address, &grpc.tls).await?,
            http: listener(Protocol::Http, http.enabled, http.address, &http.tls).await?,
        })
    }

    /// Where gRPC is listened for, with the port the system chose if the settings said 0.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref()?.socket.local_addr().ok()
    }

    /// Where HTTP is listened for, likewise.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.socket.local_addr().ok()
    }

    /// Serves clients until the drain begins and their requests are answered, or its deadline.
    pub async fn serve(self) {
        let Self { grpc, http } = self;
        let serve = async |listener: Option<Listener>| {
            if let Some(listener) = listener {
                listener.serve().await;
            }
        };
        tokio::join!(serve(grpc), serve(http));
    }
}

async fn bind(protocol: Protocol, address: SocketAddr) -> Result<TcpListener, OtlpError> {
    let field = match protocol {
        Protocol::Grpc => "receivers.otlp.grpc.address",
        Protocol::Http => "receivers.otlp.http.address",
    };
    listen::bind(address).await.map_err(|source| OtlpError::Bind { field, address, source })
}

fn load_tls(protocol: Protocol, settings: &ServerTls) -> Result<Arc<tls::Tls>, OtlpError> {
    let (field, names): (_, &[&[u8]]) = match protocol {
        Protocol::Grpc => ("receivers.otlp.grpc.tls", &[b"h2"]),
        Protocol::Http => ("receivers.otlp.http.tls", &[b"h2", b"http/1.1"]),
    };
    tls::Tls::load(settings, names).map(Arc::new).map_err(|source| OtlpError::Tls { field, source })
}
