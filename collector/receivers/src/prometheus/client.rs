//! One scrape's request: what a target is asked for, and the form of what it answers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use millrace_config::HttpUrl;
use millrace_scrape::{Fault, Format};

use super::connect::{self, ConnectError, Connector, KEPT_BYTES, Kept};

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

/// Targets that are scraped less often have a new connection each time: servers close idle ones
/// after a minute or a few.
const KEPT_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Tells a target how long it has, as Prometheus does.
const TIMEOUT_HEADER: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Why a scrape failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("its answer can't be read: {0}")]
    Http(#[from] hyper::Error),
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
    url: HttpUrl,
    headers: HeaderMap,
    pub(super) timeout: Duration,
    connector: Arc<Connector>,
    /// None where connections aren't kept.
    kept: Option<Kept>,
}

/// An answer whose body is to be read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) format: Format,
    pub(super) is_gzip: bool,
    inner: connect::Answer,
}

impl Answer {
    pub(super) fn body(&mut self) -> &mut Incoming {
        &mut self.inner.body
    }
}

impl Client {
    pub(super) fn new(
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
        let kept = (interval <= KEPT_INTERVAL_MAX).then(|| connector.place());
        if kept.is_none() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Self { url, headers, timeout, connector, kept }
    }

    /// Keeps the connection of an answer that was read to its end, for the next scrape.
    pub(super) fn keep(&self, answer: Answer) {
        if let Some(kept) = &self.kept {
            answer.inner.keep(kept);
        }
    }

    /// What a connection that is kept takes.
    pub(super) fn kept_bytes(&self) -> u64 {
        if self.kept.as_ref().is_some_and(Kept::is_held) { KEPT_BYTES } else { 0 }
    }

    /// Closes the connection that is kept.
    pub(super) fn close(&self) {
        if let Some(kept) = &self.kept {
            kept.close();
        }
    }

    /// Asks the target, up to the head of its answer.
    pub(super) async fn ask(&self) -> Result<Answer, Failure> {
        let inner = self.connector.get_by(&self.url, &self.headers, self.kept.as_ref()).await?;
        let format = format(&inner.headers)?;
        let is_gzip = is_gzip(&inner.headers)?;
        Ok(Answer { format, is_gzip, inner })
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
