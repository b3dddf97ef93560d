//! Serves one listener's connections, and limits their number and how long each may be silent.
//!
//! A connection is closed when its TLS handshake or first request takes too long, when it had no
//! request for the idle time, and when the process drains, after its open requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use millrace_config::OtlpLimits;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::telemetry::CloseReason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::answers::denied::Denial;
use crate::answers::reply::ResponseBody;
use crate::connections::connection_budget::{HEADS_PER_POLL, StreamShortage};
use crate::connections::guard::{GuardedStream, PollQuota};
use crate::connections::tls::ListenerTls;
use crate::requests::service::{Call, Framing, OtlpService};
use crate::requests::{grpc, http as otlp_http};

/// The time limit for closing a connection.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// The delay after a failed accept, for example when file handles run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bytes that a client may send on one stream before they are read: enough for a round trip of
/// 10 ms at 100 MB/s. Bytes that arrive are moved into budgeted buffers at once.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// The same limit for a complete connection. Only one turn's bytes are read ahead.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The largest HTTP/2 frame accepted, in bytes: the protocol's minimum, and what the usual clients
/// send. Each frame has a buffer of its size, however little of it is retained.
const FRAME_BYTES: u32 = 16 * 1024;

/// The size of the header table offered to clients, in bytes: none. Paths and authorities in it
/// retain the buffers that they were read into. Clients that use a table nevertheless pay for
/// these.
const HEADER_TABLE_BYTES: u32 = 0;

/// The read buffer of an HTTP/1 connection, in bytes, when its header limit is lower.
const HTTP1_BUFFER_BYTES: usize = 32 * 1024;

/// The streams that a client may open and reset before the server handles them; past it the
/// connection is closed. It limits rapid resets: half of what is read before the next poll.
const PENDING_RESETS: usize = HEADS_PER_POLL / 2;

/// The streams that may be reset for what the client sent on them; past it the connection is
/// closed.
const FAULTY_STREAMS: usize = 100;

/// The silence after which a ping is sent to find a dead peer. It may stay unanswered for half of
/// that.
const PING_PERIOD: Duration = Duration::from_secs(20);

/// A listener's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerProtocol {
    /// gRPC, over HTTP/2 only.
    Grpc,
    /// HTTP/1.1 or HTTP/2.
    Http,
}

impl ListenerProtocol {
    /// Returns the name in metrics and logs.
    fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
        }
    }
}

/// A bound listener.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) host: Host,
}

/// The settings and state that a listener's connections share.
pub(crate) struct Host {
    pub(crate) protocol: ListenerProtocol,
    pub(crate) tls: Option<Arc<ListenerTls>>,
    pub(crate) limits: OtlpLimits,
    pub(crate) service: Arc<OtlpService>,
}

impl Listener {
    /// Accepts connections until the drain begins, then waits for open ones until its deadline.
    pub(crate) async fn serve(self) {
        let Self { socket, host } = self;
        let host = Arc::new(host);
        let connections = host.limits.connections;
        let permits = Arc::new(Semaphore::new(connections as usize));
        if let Some(tls) = &host.tls {
            tokio::spawn(Arc::clone(tls).refresh_periodically(host.service.drain.clone()));
        }
        loop {
            // Acquire the permit first: connections without one wait in the kernel's queue.
            let next = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                (permit, socket.accept().await)
            };
            let accepted = tokio::select! {
                () = host.service.drain.wait_for_begin() => break,
                accepted = next => accepted,
            };
            match accepted {
                (Ok(permit), Ok((stream, peer))) => {
                    let host = Arc::clone(&host);
                    tokio::spawn(async move {
                        host.serve_connection(stream, peer.ip().to_canonical()).await;
                        drop(permit);
                    });
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
                // The semaphore is never closed.
                (Err(_), _) => break,
            }
        }
        // A client that is refused at once tries another server; in the kernel's queue it would
        // wait without an answer.
        drop(socket);
        // All permits are back when all connections have ended.
        tokio::select! {
            _ = permits.acquire_many(connections) => {}
            () = host.service.drain.wait_for_deadline() => {}
        }
    }
}

impl Host {
    async fn serve_connection(&self, stream: TcpStream, client: IpAddr) {
        let Some(room) = self.service.connection_budget.reserve_connection(self.tls.is_some())
        else {
            return self.count_closed(CloseReason::BudgetFull);
        };
        // Answers are small: they shouldn't wait for more data.
        let _ = stream.set_nodelay(true);
        let first_request_by = Instant::now() + from_seconds(self.limits.header_read_seconds);
        let ended = match &self.tls {
            None => {
                let http2 = match self.protocol {
                    ListenerProtocol::Grpc => true,
                    ListenerProtocol::Http => {
                        let start = begins_as_http2(&stream);
                        match self.wait_for_start(self.limits.header_read_seconds, start).await {
                            Some(http2) => http2,
                            None => return,
                        }
                    }
                };
                self.serve_requests((stream, client), http2, first_request_by, room).await
            }
            Some(tls) => {
                let handshake = tls.current_acceptor().accept(stream);
                let handshake_seconds = self.limits.handshake_seconds;
                let Some(stream) = self.wait_for_start(handshake_seconds, handshake).await else {
                    return;
                };
                let negotiated = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let http2 = negotiated || self.protocol == ListenerProtocol::Grpc;
                let first_request_by =
                    Instant::now() + from_seconds(self.limits.header_read_seconds);
                self.serve_requests((stream, client), http2, first_request_by, room).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
            if let Some(reason) = close_reason(&error) {
                self.count_closed(reason);
            }
        }
    }

    /// Waits for what a connection begins with; returns `None` if it fails, takes too long, or the
    /// process drains: no request has been sent that could be lost.
    async fn wait_for_start<T>(
        &self,
        limit_seconds: u32,
        start: impl Future<Output = io::Result<T>>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            started = timeout(from_seconds(limit_seconds), start) => match started {
                Ok(Ok(started)) => return Some(started),
                Ok(Err(error)) => tracing::debug!(%error, "a connection ended at its start"),
                Err(_) => self.count_closed(CloseReason::Timeout),
            },
            () = self.service.drain.wait_for_begin() => {}
        }
        None
    }

    /// Counts a connection that the collector closes. Its client may try again, elsewhere or later.
    fn count_closed(&self, reason: CloseReason) {
        self.service.shared.telemetry.connection_closed(self.protocol.as_str(), reason);
    }

    /// Serves requests on an established connection.
    async fn serve_requests<S>(
        &self,
        (stream, client): (S, IpAddr),
        http2: bool,
        first_request_by: Instant,
        room: Reservation,
    ) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::new(Activity::new(first_request_by));
        let (protocol, service) = (self.protocol, Arc::clone(&self.service));
        let short = StreamShortage::default();
        let handler = {
            let (activity, limits) = (Arc::clone(&activity), self.limits.clone());
            let short = short.clone();
            service_fn(move |request: Request<Incoming>| {
                let busy = activity.begin_request();
                let service = Arc::clone(&service);
                // Extract what is needed, so that the head is freed before the next one is read.
                let (head, body) = request.into_parts();
                let call = match protocol {
                    ListenerProtocol::Grpc => {
                        let limit_bytes = limits.grpc_message_bytes.as_usize();
                        grpc::read_call(&service, &head, client, limit_bytes)
                    }
                    ListenerProtocol::Http => {
                        let limit_bytes = limits.http_body_bytes.as_usize();
                        otlp_http::read_call(&service, &head, client, limit_bytes)
                    }
                };
                let is_short = short.is_set();
                async move {
                    let response = match call {
                        Ok(call) => handle_call(&service, call, is_short, body).await,
                        Err(response) => *response,
                    };
                    drop(busy);
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let quota = PollQuota::default();
        if http2 {
            let rooms = &self.service.connection_budget;
            let Some(room) = rooms.reserve_http2(room, self.tls.is_some(), short) else {
                self.count_closed(CloseReason::BudgetFull);
                return Ok(());
            };
            let header_bytes = self.limits.header_list_bytes.as_usize();
            let stream =
                GuardedStream::new(stream, quota.clone(), header_bytes, room, rooms.empty_table());
            let stream = TokioIo::new(stream);
            let connection = self.http2_settings().serve_connection(stream, handler);
            self.drive_until_due(connection, &activity, &quota).await
        } else {
            let _room = room;
            let stream = TokioIo::new(stream);
            let connection = self.http1_settings().serve_connection(stream, handler);
            self.drive_until_due(connection, &activity, &quota).await
        }
    }

    fn http1_settings(&self) -> http1::Builder {
        let header_bytes = self.limits.header_list_bytes.as_usize();
        let mut settings = http1::Builder::new();
        settings
            // Without a timer hyper silently ignores the header timeout.
            .timer(TokioTimer::new())
            .header_read_timeout(from_seconds(self.limits.header_read_seconds))
            .max_header_size(header_bytes)
            .max_buf_size(header_bytes.max(HTTP1_BUFFER_BYTES));
        settings
    }

    fn http2_settings(&self) -> http2::Builder<TokioExecutor> {
        let mut settings = http2::Builder::new(TokioExecutor::new());
        settings
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.limits.concurrent_streams)
            .max_header_list_size(self.limits.header_list_bytes.as_usize() as u32)
            .header_table_size(HEADER_TABLE_BYTES)
            .max_pending_accept_reset_streams(PENDING_RESETS)
            .max_local_error_reset_streams(FAULTY_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .keep_alive_interval(PING_PERIOD)
            .keep_alive_timeout(PING_PERIOD / 2);
        settings
    }

    /// Drives a connection to its end, and closes it when that is due.
    async fn drive_until_due<C>(
        &self,
        connection: C,
        activity: &Activity,
        quota: &PollQuota,
    ) -> Result<(), C::Error>
    where
        C: GracefulConnection,
    {
        let mut connection = pin!(connection);
        let idle = from_seconds(self.limits.idle_seconds);
        loop {
            // The due time is checked after each idle time: a request in between has moved it.
            let next_check = activity.idle_deadline(idle).min(Instant::now() + idle);
            tokio::select! {
                ended = poll_connection(connection.as_mut(), quota) => return ended,
                () = self.service.drain.wait_for_begin() => {
                    return finish_requests(connection, quota, self.service.drain.remaining()).await;
                }
                () = sleep_until(next_check) => {
                    if activity.idle_deadline(idle) <= Instant::now() {
                        self.count_closed(CloseReason::Timeout);
                        return finish_requests(connection, quota, CLOSING_TIME).await;
                    }
                }
            }
        }
    }
}

/// Answers a call; one without budget (`is_short`) is refused.
async fn handle_call(
    service: &OtlpService,
    call: Call,
    is_short: bool,
    body: Incoming,
) -> Response<ResponseBody> {
    let result = if is_short {
        Err(service.count_denied(call.signal, Denial::full()))
    } else {
        service.export(&call, body).await
    };
    match call.framing {
        Framing::Grpc => grpc::build_response(result),
        Framing::Http(format) => otlp_http::build_response(call.signal, format, result),
    }
}

/// Returns why the collector closed a connection, if it did.
fn close_reason(error: &hyper::Error) -> Option<CloseReason> {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        Some(io::ErrorKind::QuotaExceeded) => Some(CloseReason::BudgetFull),
        Some(io::ErrorKind::InvalidData) => Some(CloseReason::Fault),
        // The client disconnected.
        Some(_) => None,
        None if error.is_timeout() => Some(CloseReason::Timeout),
        None => (!error.is_incomplete_message()).then_some(CloseReason::Fault),
    }
}

/// Polls a connection; each poll is one turn.
async fn poll_connection<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    quota: &PollQuota,
) -> Result<(), C::Error> {
    poll_fn(|context| {
        quota.reset_quota();
        connection.as_mut().poll(context)
    })
    .await
}

/// Lets a connection finish its open requests within `time`.
async fn finish_requests<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    quota: &PollQuota,
    time: Duration,
) -> Result<(), C::Error> {
    connection.as_mut().graceful_shutdown();
    timeout(time, poll_connection(connection, quota)).await.unwrap_or(Ok(()))
}

/// Returns whether a client speaks HTTP/2 from the start: its preface begins with `PRI`, and no
/// accepted method does. It only peeks.
async fn begins_as_http2(stream: &TcpStream) -> io::Result<bool> {
    /// The delay before the next check when only a `P` has arrived.
    const PAUSE: Duration = Duration::from_millis(10);
    let mut start = [0; 2];
    loop {
        match stream.peek(&mut start).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1 if start[0] == b'P' => sleep(PAUSE).await,
            _ => return Ok(start == *b"PR"),
        }
    }
}

/// Tracks when a connection was last active.
struct Activity {
    epoch: Instant,
    first_request_by: Instant,
    requests: AtomicUsize,
    /// When the last request ended, in milliseconds since `epoch`; 0 before the first request.
    last_end_millis: AtomicU64,
}

impl Activity {
    fn new(first_request_by: Instant) -> Self {
        let epoch = Instant::now();
        Self {
            epoch,
            first_request_by,
            requests: AtomicUsize::new(0),
            last_end_millis: AtomicU64::new(0),
        }
    }

    fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard(Arc::clone(self))
    }

    /// Returns when the connection should end if nothing happens until then.
    fn idle_deadline(&self, idle: Duration) -> Instant {
        let last_end = self.last_end_millis.load(Ordering::Acquire);
        if self.requests.load(Ordering::Acquire) > 0 {
            // Each request has its own deadline; check again afterwards.
            Instant::now() + idle
        } else if last_end > 0 {
            self.epoch + Duration::from_millis(last_end) + idle
        } else {
            self.first_request_by
        }
    }
}

/// Marks a request as in progress until it is dropped.
struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let millis = self.0.epoch.elapsed().as_millis() as u64;
        self.0.last_end_millis.store(millis.max(1), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

fn from_seconds(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}
