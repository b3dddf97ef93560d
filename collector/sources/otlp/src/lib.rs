//! Receives OTLP from clients, over gRPC, and HTTP with bodies in protobuf or JSON. It checks and
//! counts requests, and passes them on as protobuf bytes.
//!
//! The async runtime serves sockets; a few separate threads decompress and check. A client is
//! answered when the publisher reports its records safe. This module decodes and stores nothing,
//! and never answers a temporary failure with a code that makes a client drop its records.
//! [`millrace_config::OtlpLimits`] has its limits.

mod answers;
mod connections;
mod requests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{OtlpLimits, OtlpReceiver, ServerTls};
use millrace_observe::listen;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::{
    ComponentError, RunningSource, Source, SourceContext, StartingSource,
};
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_wire::framing::GRPC_PREFIX_BYTES;
use tokio::net::TcpListener;
use tokio::runtime::Handle;

use connections::connection::{Host, Listener, ListenerProtocol};
use connections::connection_budget::ConnectionBudget;
use requests::body::Intake;
use requests::deadline::ResponseTimes;
use requests::service::OtlpService;
use requests::work::{Pool, WorkerContext};

pub use connections::tls::TlsError;

/// The minimum of threads for compression and checks, even on one core: a long request must not
/// delay the short ones behind it.
const LEAST_THREADS: usize = 2;

/// The listeners for clients, as a source.
pub struct OtlpSource {
    /// The receiver's settings.
    pub settings: OtlpReceiver,
    /// The threads for compression and checks; at least two are started.
    pub threads: usize,
}

impl Source for OtlpSource {
    fn name(&self) -> &'static str {
        "listeners"
    }

    fn start(self: Box<Self>, context: SourceContext) -> StartingSource {
        Box::pin(async move {
            let otlp = Otlp::bind(&self.settings, self.threads, context).await?;
            if let Some(address) = otlp.grpc_address() {
                tracing::info!(%address, "listening for OTLP over gRPC");
            }
            if let Some(address) = otlp.http_address() {
                tracing::info!(%address, "listening for OTLP over HTTP");
            }
            let run: RunningSource = Box::pin(async move {
                otlp.serve().await;
                true
            });
            Ok(run)
        })
    }
}

/// A receiver that could not start.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// An address is in use, or may not be used.
    #[error("cannot listen on {address} ({field}): {source}")]
    Bind {
        /// The settings field.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("{field}: {source}")]
    Tls {
        /// The settings field.
        field: &'static str,
        /// The cause.
        source: TlsError,
    },
    /// The budget cannot hold a connection.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small for client connections: \
         receivers.otlp.limits require {needed_bytes} bytes; lower headerListBytes or \
         concurrentStreams, or raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// The budget's size.
        budget_bytes: u64,
        /// The required size.
        needed_bytes: u64,
    },
    /// The system started no thread.
    #[error("cannot start the receiver's threads: {0}")]
    Threads(#[source] io::Error),
}

impl From<OtlpError> for ComponentError {
    fn from(error: OtlpError) -> Self {
        match error {
            OtlpError::SmallBudget { .. } => Self::invalid_settings(error),
            _ => Self::failed(error),
        }
    }
}

/// A receiver with its sockets bound, before it accepts connections.
pub struct Otlp {
    grpc: Option<Listener>,
    http: Option<Listener>,
}

impl Otlp {
    /// Binds the listeners, loads certificates and starts the threads for compression and checks:
    /// at least two.
    ///
    /// # Errors
    /// One of these fails.
    pub async fn bind(
        settings: &OtlpReceiver,
        threads: usize,
        context: SourceContext,
    ) -> Result<Self, OtlpError> {
        let OtlpReceiver { grpc, http, limits, record_times } = settings;
        let SourceContext { budget, drain, telemetry, publisher } = context;
        budget.set_idle(idle_bytes(budget.limit_bytes(), limits, threads));
        let longest_bytes = limits.longest_bytes() + GRPC_PREFIX_BYTES as u64;
        let intake = Intake::new(budget.clone(), longest_bytes);
        let rooms = ConnectionBudget::new(
            budget.clone(),
            limits,
            Handle::current().metrics().num_workers(),
        );
        rooms.check_budget().map_err(|needed_bytes| OtlpError::SmallBudget {
            budget_bytes: budget.limit_bytes(),
            needed_bytes,
        })?;
        let record_times = record_times.clone();
        let out_of_range_log = answers::out_of_range_log::OutOfRangeLog::default();
        let shared = Arc::new(WorkerContext {
            budget,
            intake,
            telemetry,
            publisher,
            record_times,
            out_of_range_log,
        });
        let pool = Pool::start(threads.max(LEAST_THREADS), Arc::clone(&shared))
            .map_err(OtlpError::Threads)?;
        let times = ResponseTimes {
            usual: Duration::from_secs(u64::from(limits.answer_seconds)),
            longest: Duration::from_secs(u64::from(limits.request_seconds)),
        };
        let service =
            Arc::new(OtlpService { shared, pool, connection_budget: rooms, drain, times });
        let listener = async |protocol, enabled: bool, address, tls: &Option<ServerTls>| {
            if !enabled {
                return Ok(None);
            }
            let host = Host {
                protocol,
                tls: tls.as_ref().map(|tls| load_tls(protocol, tls)).transpose()?,
                limits: limits.clone(),
                service: Arc::clone(&service),
            };
            Ok(Some(Listener { socket: bind_listener(protocol, address).await?, host }))
        };
        Ok(Self {
            grpc: listener(ListenerProtocol::Grpc, grpc.enabled, grpc.address, &grpc.tls).await?,
            http: listener(ListenerProtocol::Http, http.enabled, http.address, &http.tls).await?,
        })
    }

    /// Returns gRPC's address, with the port that the system chose if the settings state 0.
    #[must_use]
    pub fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc.as_ref()?.socket.local_addr().ok()
    }

    /// Returns HTTP's address, with the port that the system chose if the settings state 0.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref()?.socket.local_addr().ok()
    }

    /// Serves clients until the drain begins and their requests are answered, or until its
    /// deadline.
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

/// Returns the bytes that an idle receiver uses besides one request: one client's connection, and
/// the buffers that its other threads retain. Call it within the runtime that the receiver will
/// use.
#[must_use]
pub fn idle_bytes(budget_bytes: u64, limits: &OtlpLimits, threads: usize) -> u64 {
    let budget = Budget::new(budget_bytes);
    let rooms = ConnectionBudget::new(budget, limits, Handle::current().metrics().num_workers());
    let others =
        MemoryShares::of_budget(budget_bytes).others_buffers_bytes(threads.max(LEAST_THREADS));
    rooms.one_client_bytes() + others
}

async fn bind_listener(
    protocol: ListenerProtocol,
    address: SocketAddr,
) -> Result<TcpListener, OtlpError> {
    let field = match protocol {
        ListenerProtocol::Grpc => "receivers.otlp.grpc.address",
        ListenerProtocol::Http => "receivers.otlp.http.address",
    };
    listen::bind(address).await.map_err(|source| OtlpError::Bind { field, address, source })
}

fn load_tls(
    protocol: ListenerProtocol,
    settings: &ServerTls,
) -> Result<Arc<connections::tls::ListenerTls>, OtlpError> {
    let (field, names): (_, &[&[u8]]) = match protocol {
        ListenerProtocol::Grpc => ("receivers.otlp.grpc.tls", &[b"h2"]),
        ListenerProtocol::Http => ("receivers.otlp.http.tls", &[b"h2", b"http/1.1"]),
    };
    connections::tls::ListenerTls::load_files(settings, names)
        .map(Arc::new)
        .map_err(|source| OtlpError::Tls { field, source })
}
