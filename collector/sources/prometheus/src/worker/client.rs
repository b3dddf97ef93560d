//! Sends one scrape's request, and determines the format of the response.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use millrace_config::HttpUrl;
use millrace_scrape::{BodyFault, BodyFormat};

use crate::connect::{self, ConnectError, Connector, IDLE_BYTES, IdleSlot};

/// The preferred format where native histograms are requested.
macro_rules! protobuf {
    () => {
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
         encoding=delimited;escaping=allow-utf-8;q=0.7,"
    };
}

/// Both text formats, each also with names in UTF-8.
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

/// Targets with longer intervals get a new connection for each scrape: servers close idle ones
/// after a minute or a few.
const IDLE_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Sends the scrape's time-out to the target, as Prometheus does.
const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot read the answer: {0}")]
    Http(#[from] hyper::Error),
    #[error(
        "unsupported content type `{0}`: it must be text/plain, application/openmetrics-text or \
         delimited application/vnd.google.protobuf"
    )]
    Type(String),
    #[error("unsupported content encoding `{0}`: it must be gzip or none")]
    Encoding(String),
    #[error("cannot decompress the answer: {0}")]
    Gzip(io::Error),
    #[error("{0}")]
    Body(#[from] BodyFault),
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

/// The HTTP client of one target.
#[derive(Debug)]
pub(crate) struct TargetClient {
    url: HttpUrl,
    headers: HeaderMap,
    pub(crate) timeout: Duration,
    connector: Arc<Connector>,
    /// `None` if the connection is closed after each scrape.
    idle_slot: Option<IdleSlot>,
}

/// A response whose body has yet to be read.
#[derive(Debug)]
pub(crate) struct ScrapeResponse {
    pub(crate) format: BodyFormat,
    pub(super) is_gzip: bool,
    inner: connect::HttpResponse,
}

impl ScrapeResponse {
    pub(crate) fn body(&mut self) -> &mut Incoming {
        &mut self.inner.body
    }
}

impl TargetClient {
    pub(crate) fn new(
        url: HttpUrl,
        (interval, timeout_seconds): (Duration, u32),
        native_histograms: bool,
        connector: Arc<Connector>,
    ) -> Self {
        let timeout = Duration::from_secs(timeout_seconds.into());
        let accepted = if native_histograms { ACCEPTED_WITH_PROTOBUF } else { ACCEPTED };
        let mut headers = HeaderMap::from_iter([
            (ACCEPT, HeaderValue::from_static(accepted)),
            (ACCEPT_ENCODING, HeaderValue::from_static("gzip")),
            (TIMEOUT_HEADER, HeaderValue::from(timeout_seconds)),
        ]);
        let idle_slot = (interval <= IDLE_INTERVAL_MAX).then(|| connector.idle_slot());
        if idle_slot.is_none() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Self { url, headers, timeout, connector, idle_slot }
    }

    /// Retains the connection of a response that was read to its end, for the next scrape.
    pub(crate) fn retain_connection(&self, answer: ScrapeResponse) {
        if let Some(idle_slot) = &self.idle_slot {
            answer.inner.retain_connection(idle_slot);
        }
    }

    /// Returns the memory of the idle connection, in bytes.
    pub(super) fn idle_bytes(&self) -> u64 {
        if self.idle_slot.as_ref().is_some_and(IdleSlot::is_held) { IDLE_BYTES } else { 0 }
    }

    /// Closes the idle connection.
    pub(crate) fn close_idle(&self) {
        if let Some(slot) = &self.idle_slot {
            slot.close_idle();
        }
    }

    /// Sends the request and reads the head of the response.
    pub(super) async fn request_target(&self) -> Result<ScrapeResponse, Failure> {
        let inner =
            self.connector.get_reusing(&self.url, &self.headers, self.idle_slot.as_ref()).await?;
        let format = response_format(&inner.headers)?;
        let is_gzip = is_gzip(&inner.headers)?;
        Ok(ScrapeResponse { format, is_gzip, inner })
    }
}

fn response_format(headers: &HeaderMap) -> Result<BodyFormat, Failure> {
    let text = match headers.get(CONTENT_TYPE) {
        Some(value) => value.to_str().unwrap_or("?"),
        None => "",
    };
    BodyFormat::of_content_type(text).ok_or_else(|| Failure::Type(text.to_owned()))
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
