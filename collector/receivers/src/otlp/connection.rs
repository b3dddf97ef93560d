//! One listener's connections: how many there are, how long each may be silent, and how they end.
//!
//! A connection is closed when its TLS handshake or its first request takes too long, when it has
//! had no request for the idle time, and when the process drains: then it gets to finish what it
//! has.

use std::convert::Infallible;
use std::io;
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
use millrace_pipeline::drain::Drain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::reply::Reply;
use super::service::Service;
use super::tls::Tls;
use super::{grpc, http as otlp_http};

/// How long a connection that was told to end may take to do so.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// After an accept that failed, as when file handles run out, the next is tried this much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much a client may send on one stream before it was read, in bytes: enough for a round trip
/// of 10 ms at 100 MB/s. What arrives is moved into budgeted buffers at once.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// The same for a whole connection: until tasks have read it, nobody's budget covers it.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// The largest HTTP/2 frame taken, in bytes: fewer, larger pieces cost less than the default 16
/// KiB.
const FRAME_BYTES: u32 = 256 * 1024;

/// The read buffer of an HTTP/1 connection, in bytes, when its header limit is lower.
const HTTP1_BUFFER_BYTES: usize = 64 * 1024;

/// Streams a client opened and reset before they were looked at; past it the connection is closed.
/// The answer to rapid resets.
const PENDING_RESETS: usize = 20;

/// A dead peer is found by a ping after this much silence, unanswered for half of it.
const PING_PERIOD: Duration = Duration::from_secs(20);

/// What is spoken on a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// gRPC, over HTTP/2 only.
    Grpc,
    /// HTTP/1.1 or HTTP/2.
    Http,
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
    /// Accepts until the drain begins, then waits for the connections there are, until its
    /// deadline.
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
                            // Silent for too long, or gone.
                            _ => return,
                        }
                    }
                };
                self.speak(stream, http2, first_request_by).await
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
                    Err(_) => return,
                };
                let negotiated = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let http2 = negotiated || self.protocol == Protocol::Grpc;
                let first_request_by = Instant::now() + seconds(self.limits.header_read_seconds);
                self.speak(stream, http2, first_request_by).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    /// Serves requests on a connection that is ready for them.
    async fn speak<S>(
        &self,
        stream: S,
        http2: bool,
        first_request_by: Instant,
    ) -> Result<(), hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Arc::new(Activity::new(first_request_by));
        let (protocol, service) = (self.protocol, Arc::clone(&self.service));
        let (grpc_limit, http_limit) =
            (self.limits.grpc_message_bytes.as_usize(), self.limits.http_body_bytes.as_usize());
        let handler = {
            let activity = Arc::clone(&activity);
            service_fn(move |request: Request<Incoming>| {
                let busy = activity.begin();
                let service = Arc::clone(&service);
                async move {
                    let response: Response<Reply> = match protocol {
                        Protocol::Grpc => grpc::handle(&service, grpc_limit, request).await,
                        Protocol::Http => otlp_http::handle(&service, http_limit, request).await,
                    };
                    drop(busy);
                    Ok::<_, Infallible>(response)
                }
            })
        };
        let stream = TokioIo::new(stream);
        if http2 {
            let connection = self.http2_settings().serve_connection(stream, handler);
            self.watch(connection, &activity).await
        } else {
            let connection = self.http1_settings().serve_connection(stream, handler);
            self.watch(connection, &activity).await
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
            .max_pending_accept_reset_streams(PENDING_RESETS)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .keep_alive_interval(PING_PERIOD)
            .keep_alive_timeout(PING_PERIOD / 2);
        settings
    }

    /// Drives a connection to its end, and brings the end about when it is due.
    async fn watch<C>(&self, connection: C, activity: &Activity) -> Result<(), C::Error>
    where
        C: GracefulConnection,
    {
        let mut connection = pin!(connection);
        let idle = seconds(self.limits.idle_seconds);
        loop {
            // Looked at again after each idle time: a request since then has moved the end.
            let look = activity.due(idle).min(Instant::now() + idle);
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = self.drain.begun() => {
                    return finish(connection, self.drain.remaining()).await;
                }
                () = sleep_until(look) => {
                    if activity.due(idle) <= Instant::now() {
                        return finish(connection, CLOSING_TIME).await;
                    }
                }
            }
        }
    }
}

/// Lets a connection finish the requests it has, within `time`.
async fn finish<C: GracefulConnection>(
    mut connection: Pin<&mut C>,
    time: Duration,
) -> Result<(), C::Error> {
    connection.as_mut().graceful_shutdown();
    timeout(time, connection).await.unwrap_or(Ok(()))
}

/// Whether a client speaks HTTP/2 from the start: its preface begins with `PRI`, and no method that
/// is taken here does. Reads nothing.
async fn begins_as_http2(stream: &TcpStream) -> io::Result<bool> {
    /// How soon to look again when only a `P` has come.
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

/// When a connection last had something to do.
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
