//! One listener's connections: how many there are, how long each may be silent, and how they end.
//!
//! A connection is closed when its TLS handshake or its first request takes too long, when it has
//! had no request for the idle time, and when the process drains: then it may finish its requests.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use millrace_config::OtlpLimits;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::telemetry::Closed;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::guard::{Guarded, Turn};
use super::reply::Reply;
use super::room::{HEADS_PER_TURN, Room, Short};
use super::service::Service;
use super::tls::Tls;
use super::{grpc, http as otlp_http};

/// How long a connection may take to end.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Delay after a failed accept, as when file handles run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much a client may send on one stream before it was read, in bytes: enough for a round trip
/// of 10 ms at 100 MB/s. What arrives is moved into budgeted buffers at once.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// The same for a whole connection. Of what was sent, only one turn's bytes are read ahead.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The largest HTTP/2 frame taken, in bytes: the least that the protocol allows, and all that the
/// usual clients send. A frame has a buffer of its size, however little of it is kept.
const FRAME_BYTES: u32 = 16 * 1024;

/// The table that clients may name headers by, in bytes: none. What is in it holds on to the
/// buffers that it was read into; clients that use one all the same pay for these.
const HEADER_TABLE_BYTES: u32 = 0;

/// The read buffer of an HTTP/1 connection, in bytes, when its header limit is lower.
const HTTP1_BUFFER_BYTES: usize = 32 * 1024;

/// Streams a client opened and reset before they were looked at; past it the connection is closed.
/// The answer to rapid resets: half of what is read before the next look.
const PENDING_RESETS: usize = HEADS_PER_TURN / 2;

/// Streams that had to be reset for what the client sent on them; past it the connection is closed.
const FAULTY_STREAMS: usize = 100;

/// A dead peer is found by a ping after this much silence, unanswered for half of it.
const PING_PERIOD: Duration = Duration::from_secs(20);

/// A listener's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// gRPC, over HTTP/2 only.
    Grpc,
    /// HTTP/1.1 or HTTP/2.
    Http,
}

impl Protocol {
    /// As in metrics and logs.
    fn name(self) -> &'static str {
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

/// All that a listener's connections need.
pub(crate) struct Host {
    pub(crate) protocol: Protocol,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) limits: OtlpLimits,
    pub(crate) service: Arc<Service>,
    pub(crate) drain: Drain,
}

impl Listener {
    /// Accepts until the drain begins, then waits for open connections, until its deadline.
    pub(crate) async fn serve(self) {
        let Self { socket, host } = self;
        let host = Arc::new(host);
        let connections = host.limits.connections;
        let places = Arc::new(Semaphore::new(connections as usize));
        if let Some(tls) = &host.tls {
            tokio::spawn(Arc::clone(tls).refresh(host.drain.clone()));
        }
        loop {
            // First a place, then a connection: whoever has no place waits in the kernel's queue.
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (place, socket.accept().await)
            };
            let accepted = tokio::select! {
                () = host.drain.begun() => break,
                accepted = next => accepted,
            };
            match accepted {
                (Ok(place), Ok((stream, _))) => {
                    let host = Arc::clone(&host);
                    tokio::spawn(async move {
                        host.connection(stream).await;
                        drop(place);
                    });
                }
                (_, Err(error)) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
                // The semaphore is never closed.
                (Err(_), _) => break,
            }
        }
        // Refused at once, a client tries elsewhere; in the kernel's queue it would wait for
        // nothing.
        drop(socket);
        // All places back means that all connections have ended.
        tokio::select! {
            _ = places.acquire_many(connections) => {}
            () = host.drain.expired() => {}
        }
    }
}

impl Host {
    async fn connection(&self, stream: TcpStream) {
        let Some(room) = self.service.rooms.connection(self.tls.is_some()) else {
            return self.closed(Closed::NoRoom);
        };
        // Answers are small: they should not wait for more to send.
        let _ = stream.set_nodelay(true);
        let first_request_by = Instant::now() + seconds(self.limits.header_read_seconds);
        let ended = match &self.tls {
            None => {
                let http2 = match self.protocol {
                    Protocol::Grpc => true,
                    Protocol::Http => {
                        let wait = seconds(self.limits.header_read_seconds);
                        match timeout(wait, begins_as_http2(&stream)).await {
                            Ok(Ok(http2)) => http2,
                            Ok(Err(_)) => return,
                            Err(_) => return self.closed(Closed::Timeout),
                        }
                    }
                };
                self.speak(stream, http2, first_request_by, room).await
            }
            Some(tls) => {
                let handshake = tls.acceptor().accept(stream);
                let stream = match timeout(seconds(self.limits.handshake_seconds), handshake).await
                {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => {
                        tracing::debug!(%error, "a tls handshake failed");
                        return;
                    }
                    Err(_) => return self.closed(Closed::Timeout),
                };
                let negotiated = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let http2 = negotiated || self.protocol == Protocol::Grpc;
                let first_request_by = Instant::now() + seconds(self.limits.header_read_seconds);
                self.speak(stream, http2, first_request_by, room).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
            if let Some(reason) = reason(&error) {
                self.closed(reason);
            }
        }
    }

    /// Counts a connection that is closed for a reason of ours: its client may try again, elsewhere
    /// or later.
    fn closed(&self, reason: Closed) {
        self.service.shared.telemetry.connection_closed(self.protocol.name(), reason);
    }

    /// Serves requests on a connection that is ready for them.
    async fn speak<S>(
        &self,
        stream: S,
        http2: bool,
        first_request_by: Instant,
        room: Room,
    ) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::new(Activity::new(first_request_by));
        let (protocol, service) = (self.protocol, Arc::clone(&self.service));
        let short = Short::default();
        let handler = {
            let (activity, limits) = (Arc::clone(&activity), self.limits.clone());
            let short = short.clone();
            service_fn(move |request: Request<Incoming>| {
                let busy = activity.begin();
                let service = Arc::clone(&service);
                // What the head says goes on, not the head: it is gone before the next is read.
                let (head, body) = request.into_parts();
                let asked = Asked::read(protocol, &service, &limits, &head);
                let is_short = short.is_so();
                async move {
                    let response = if is_short {
                        asked.refuse(&service)
                    } else {
                        asked.answer(&service, body).await
                    };
                    drop(busy);
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let turn = Turn::default();
        if http2 {
            let rooms = &self.service.rooms;
            let Some(room) = rooms.http2(room, self.tls.is_some(), short) else {
                self.closed(Closed::NoRoom);
                return Ok(());
            };
            let header_bytes = self.limits.header_list_bytes.as_usize();
            let stream = Guarded::new(stream, turn.clone(), header_bytes, room, rooms.table());
            let stream = TokioIo::new(stream);
            let connection = self.http2_settings().serve_connection(stream, handler);
            self.watch(connection, &activity, &turn).await
        } else {
            let _room = room;
            let stream = TokioIo::new(stream);
            let connection = self.http1_settings().serve_connection(stream, handler);
            self.watch(connection, &activity, &turn).await
        }
    }

    fn http1_settings(&self) -> http1::Builder {
        let header_bytes = self.limits.header_list_bytes.as_usize();
        let mut settings = http1::Builder::new();
        settings
            // Without a timer hyper silently ignores the header time.
            .timer(TokioTimer::new())
            .header_read_timeout(seconds(self.limits.header_read_seconds))
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

    /// Drives a connection to its end, and ends it when that is due.
    async fn watch<C>(
        &self,
        connection: C,
        activity: &Activity,
        turn: &Turn,
    ) -> Result<(), C::Error>
    where
        C: GracefulConnection,
    {
        let mut connection = pin!(connection);
        let idle = seconds(self.limits.idle_seconds);
        loop {
            // Looked at again after each idle time: a request since then has moved the end.
            let look = activity.due(idle).min(Instant::now() + idle);
            tokio::select! {
                ended = drive(connection.as_mut(), turn) => return ended,
                () = self.drain.begun() => {
                    return finish(connection, turn, self.drain.remaining()).await;
                }
                () = sleep_until(look) => {
                    if activity.due(idle) <= Instant::now() {
                        self.closed(Closed::Timeout);
                        return finish(connection, turn, CLOSING_TIME).await;
                    }
                }
            }
        }
    }
}

/// Why the collector closed a connection, if it did.
fn reason(error: &hyper::Error) -> Option<Closed> {
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    match source.map(io::Error::kind) {
        Some(io::ErrorKind::QuotaExceeded) => Some(Closed::NoRoom),
        Some(io::ErrorKind::InvalidData) => Some(Closed::Fault),
        // The client is gone.
        Some(_) => None,
        None if error.is_timeout() => Some(Closed::Timeout),
        None => (!error.is_incomplete_message()).then_some(Closed::Fault),
    }
}

/// Polls a connection, each time as a turn of its own.
async fn drive<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    turn: &Turn,
) -> Result<(), C::Error> {
    poll_fn(|context| {
        turn.begin();
        connection.as_mut().poll(context)
    })
    .await
}

/// Lets a connection finish the requests it has, within `time`.
async fn finish<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    turn: &Turn,
    time: Duration,
) -> Result<(), C::Error> {
    connection.as_mut().graceful_shutdown();
    timeout(time, drive(connection, turn)).await.unwrap_or(Ok(()))
}

/// The target of a request's head.
enum Asked {
    Grpc(grpc::Call, usize),
    Http(otlp_http::Call, usize),
    /// An unknown path: the answer says so.
    Nothing(Box<Response<Reply>>),
}

impl Asked {
    fn read(protocol: Protocol, service: &Service, limits: &OtlpLimits, head: &Parts) -> Self {
        let asked = match protocol {
            Protocol::Grpc => grpc::Call::read(service, head)
                .map(|call| Self::Grpc(call, limits.grpc_message_bytes.as_usize())),
            Protocol::Http => otlp_http::Call::read(service, head)
                .map(|call| Self::Http(call, limits.http_body_bytes.as_usize())),
        };
        asked.unwrap_or_else(Self::Nothing)
    }

    async fn answer(self, service: &Service, body: Incoming) -> Response<Reply> {
        match self {
            Self::Grpc(call, limit_bytes) => call.answer(service, limit_bytes, body).await,
            Self::Http(call, limit_bytes) => call.answer(service, limit_bytes, body).await,
            Self::Nothing(response) => *response,
        }
    }

    /// The answer for want of room.
    fn refuse(self, service: &Service) -> Response<Reply> {
        match self {
            Self::Grpc(call, _) => call.refuse(service),
            Self::Http(call, _) => call.refuse(service),
            Self::Nothing(response) => *response,
        }
    }
}

/// Whether a client speaks HTTP/2 from the start: its preface begins with `PRI`, and no method that
/// is taken here does. Reads nothing.
async fn begins_as_http2(stream: &TcpStream) -> io::Result<bool> {
    /// Delay before the next check when only a `P` has come.
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

/// When a connection was last active.
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

    fn begin(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::AcqRel);
        Busy(Arc::clone(self))
    }

    /// When the connection should end if nothing happens until then.
    fn due(&self, idle: Duration) -> Instant {
        let last_end = self.last_end_millis.load(Ordering::Acquire);
        if self.requests.load(Ordering::Acquire) > 0 {
            // Each request has a deadline of its own; look again afterwards.
            Instant::now() + idle
        } else if last_end > 0 {
            self.epoch + Duration::from_millis(last_end) + idle
        } else {
            self.first_request_by
        }
    }
}

/// A request being answered.
struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        let millis = self.0.epoch.elapsed().as_millis() as u64;
        self.0.last_end_millis.store(millis.max(1), Ordering::Release);
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(u64::from(seconds))
}
