//! One request to a target: which address it has, a connection, the head of the answer.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::header::{HeaderMap, HeaderName, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use millrace_config::{ScrapeJob, TargetAddress};
use millrace_scrape::{Fault, Format};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};

/// Most names that are resolved at once: each takes a thread until the resolver answers.
pub const LOOKUPS_MAX: usize = 32;

/// The longest head of an answer, and what is read of a body at once.
const BUFFER_BYTES: usize = 32 * 1024;

/// Said before all others where native histograms are wanted.
macro_rules! protobuf {
    () => {
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
         encoding=delimited;escaping=allow-utf-8;q=0.7,"
    };
}

/// Both formats of text, each also with names in UTF-8.
macro_rules! text {
    () => {
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                        application/openmetrics-text;version=1.0.0;q=0.5,\
                        text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                        text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    };
}

const ACCEPTED: &str = text!();
const ACCEPTED_WITH_PROTOBUF: &str = concat!(protobuf!(), text!());

/// Tells a target how long it has, as Prometheus does.
const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("its name can't be resolved: {0}")]
    Resolve(io::Error),
    #[error(
        "its address {0} is a loopback, link-local or unusable one: name another target, or set \
         receivers.prometheus.allowLocalAddresses"
    )]
    Local(IpAddr),
    #[error("it can't be connected to: {0}")]
    Connect(io::Error),
    #[error("its answer can't be read: {0}")]
    Http(#[from] hyper::Error),
    #[error("the request can't be made: {0}")]
    Request(#[from] http::Error),
    #[error("it answered {0}; redirects are not followed")]
    Status(StatusCode),
    #[error(
        "its answer is of the type `{0}`: it must be text/plain, \
         application/openmetrics-text or delimited application/vnd.google.protobuf"
    )]
    Type(String),
    #[error("its answer is compressed as `{0}`: it must be gzip or nothing")]
    Encoding(String),
    #[error("its answer can't be decompressed: {0}")]
    Gzip(io::Error),
    #[error("{0}")]
    Body(#[from] Fault),
    #[error("it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// Asks one target.
#[derive(Debug)]
pub(super) struct Client {
    target: TargetAddress,
    path: String,
    pub(super) timeout: Duration,
    allows_local: bool,
    accepted: &'static str,
    lookups: Arc<Semaphore>,
}

/// An answer whose body is to be read. The connection ends with it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) body: Incoming,
    pub(super) format: Format,
    pub(super) is_gzip: bool,
    _connection: JoinSet<()>,
}

impl Client {
    pub(super) fn new(
        target: &TargetAddress,
        job: &ScrapeJob,
        allows_local: bool,
        lookups: Arc<Semaphore>,
    ) -> Self {
        let timeout = Duration::from_secs(job.timeout_seconds.into());
        let accepted = if job.native_histograms { ACCEPTED_WITH_PROTOBUF } else { ACCEPTED };
        let (target, path) = (target.clone(), job.path.clone());
        Self { target, path, timeout, allows_local, accepted, lookups }
    }

    /// Asks the target, up to the head of its answer.
    pub(super) async fn ask(&self) -> Result<Answer, Failure> {
        let address = self.resolve().await?;
        let stream = TcpStream::connect(address).await.map_err(Failure::Connect)?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(BUFFER_BYTES);
        let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        // A fault of the connection is told to whoever waits for the answer or its body.
        task.spawn(async { drop(connection.await) });
        let request = Request::get(&self.path)
            .header(HOST, self.target.as_str())
            .header(USER_AGENT, concat!("millrace-collector/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, self.accepted)
            .header(ACCEPT_ENCODING, "gzip")
            .header(CONNECTION, "close")
            .header(TIMEOUT_HEADER, self.timeout.as_secs())
            .body(Empty::<Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        if answer.status() != StatusCode::OK {
            return Err(Failure::Status(answer.status()));
        }
        let (head, body) = answer.into_parts();
        let format = format(&head.headers)?;
        let is_gzip = is_gzip(&head.headers)?;
        Ok(Answer { body, format, is_gzip, _connection: task })
    }

    /// The target's first address that may be used.
    async fn resolve(&self) -> Result<SocketAddr, Failure> {
        let host = self.target.host().trim_start_matches('[').trim_end_matches(']');
        let port = self.target.port();
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.pick([SocketAddr::new(address, port)]);
        }
        let closed = |_| Failure::Resolve(io::ErrorKind::Interrupted.into());
        let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(closed)?;
        let host = host.to_owned();
        // The permit is the thread's: a resolver that hangs holds it longer than the scrape lasts.
        let found = spawn_blocking(move || {
            let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            drop(permit);
            found
        });
        let found = found.await.unwrap_or_else(|ended| Err(ended.into()));
        self.pick(found.map_err(Failure::Resolve)?)
    }

    fn pick(&self, found: impl IntoIterator<Item = SocketAddr>) -> Result<SocketAddr, Failure> {
        let mut refused = None;
        for address in found {
            if self.allows_local || !is_local(address.ip()) {
                return Ok(address);
            }
            refused = Some(address.ip());
        }
        Err(match refused {
            Some(address) => Failure::Local(address),
            None => Failure::Resolve(io::ErrorKind::NotFound.into()),
        })
    }
}

/// Whether an address is this machine's or its link's alone, or none that a target can have.
fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback()
                || address.is_link_local()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_broadcast()
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unicast_link_local()
                || address.is_unspecified()
                || address.is_multicast()
        }
    }
}

fn format(headers: &HeaderMap) -> Result<Format, Failure> {
    let text = match headers.get(CONTENT_TYPE) {
        Some(value) => value.to_str().unwrap_or("?"),
        None => "",
    };
    Format::of_content_type(text).ok_or_else(|| Failure::Type(text.to_owned()))
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Failure> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(false) };
    let text = value.to_str().unwrap_or("?").trim();
    if text.eq_ignore_ascii_case("gzip") {
        return Ok(true);
    }
    let is_plain = text.is_empty() || text.eq_ignore_ascii_case("identity");
    if is_plain { Ok(false) } else { Err(Failure::Encoding(text.to_owned())) }
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/client.rs"]
mod tests;
