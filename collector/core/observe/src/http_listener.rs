//! A small HTTP listener: both programs' admin ports, and the operator's console.
//!
//! A connection serves one request. Every client is accepted; when there are too many connections,
//! the oldest is closed, so that probes are answered however many connections others hold open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Maximum number of connections: a kubelet, a Prometheus or two, and a person. Each holds a head
/// and a response: 7 MB in all with 0.2 MB of metrics each, as of 1,000 partitions; 32 MB with a
/// mebibyte of targets each, or of a share of 10,000 targets.
pub const CONNECTIONS: usize = 32;

/// Maximum lifetime of a connection, including its request: a scrape takes milliseconds.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// Maximum time for a request's head.
pub const HEADER_TIME: Duration = Duration::from_secs(5);

/// Maximum size of a request's head and of the read buffer, in bytes: the library's minimum.
pub const HEADER_BYTES: usize = 8 * 1024;

/// Retry delay after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Answers requests until `stop` resolves.
pub async fn serve<A, F>(
    listener: TcpListener,
    handler: A,
    stop: impl Future<Output = ()> + Send + 'static,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
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
                let served = serve_connection(stream, handler.clone());
                // The timeout drops the connection, whatever its state.
                open.push_back(tokio::spawn(timeout(CONNECTION_TIME, served)).abort_handle());
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve_connection<A, F>(stream: TcpStream, answer: A)
where
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = answer(request);
        async { Ok::<_, Infallible>(answered.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEADER_TIME)
        .max_header_size(HEADER_BYTES)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}
