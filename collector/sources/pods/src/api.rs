//! Sends requests to the API server: lists in pages, and watches whose responses stay open.

pub(crate) mod event;
pub(crate) mod list_watch;
pub(crate) mod reported_fault;
pub(crate) mod watch_loop;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use millrace_config::push_encoded;
use millrace_observe::error_chain;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::api::event::{Events, Object, WatchEvent, WatchRefusal};

/// The longest event of a pod that is read, in bytes: the API server accepts annotations of 256
/// KiB, and managed fields take less. Longer events are skipped.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// The time-out of a connection, and of a response's head.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A watch without event or bookmark for this long counts as dead and is restarted from the last
/// version: the API server sends a bookmark about once a minute.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// A connection without traffic for this long is probed, and closed after three unanswered probes,
/// 60 s in all.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_RETRIES: u32 = 3;

/// The most bytes that are read of an error response, for its message.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

/// The most characters of the API server's messages that are retained.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// The time-out of a list's page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests only metadata: the API server omits spec and status.
pub(crate) const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Requests complete objects.
pub(crate) const FULL_OBJECTS: HeaderValue = HeaderValue::from_static("application/json");

/// The objects to watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchRequest {
    /// The list's path.
    pub(crate) path: String,
    /// The selector: a query parameter with its value percent-encoded.
    pub(crate) selector: String,
    /// The requested form of each object.
    pub(crate) form: HeaderValue,
    /// The longest event, in bytes.
    pub(crate) bytes_max: usize,
    /// The required right, for messages.
    pub(crate) right: &'static str,
}

/// The parameters of a list request.
#[derive(Clone, Debug)]
pub(crate) struct ListQuery {
    /// The requested form of each object.
    pub(crate) form: HeaderValue,
    /// The longest page, in bytes.
    pub(crate) bytes_max: usize,
    /// The query of the first page.
    pub(crate) first: &'static str,
    /// The query of further pages.
    pub(crate) next: &'static str,
}

/// The API server's address and credentials. Files are read for each request, since they are
/// renewed while the process runs.
#[derive(Clone, Debug)]
pub struct ApiEndpoint {
    /// Scheme, host and port.
    pub url: String,
    /// The file with the token.
    pub token_file: PathBuf,
    /// The file with the certificates of authorities; `None` for plain HTTP.
    pub ca_file: Option<PathBuf>,
}

/// The reason why a watch ended or didn't start.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The token or the certificates can't be read.
    #[error("cannot read {file}: {source}")]
    File {
        /// The file's path.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// The certificates are invalid.
    #[error("the API server's CA certificates are invalid: {0}")]
    Certificates(String),
    /// The request is invalid.
    #[error("cannot build the request: {0}")]
    Request(#[from] http::Error),
    /// The API server doesn't answer.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
    /// The account lacks a right.
    #[error(
        "the API server denied the request ({message}): grant this pod's ServiceAccount {right}"
    )]
    Forbidden {
        /// The server's message.
        message: String,
        /// The missing right.
        right: &'static str,
    },
    /// The API server no longer has changes since the requested version.
    #[error("the API server no longer has changes since that version")]
    Expired,
    /// The API server refuses the request for another reason.
    #[error("the API server answered {status}: {message}")]
    Refused {
        /// The status code.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// A page of a list can't be parsed.
    #[error("cannot read the API server's list: {0}")]
    List(String),
    /// The response ended early.
    #[error("the API server's answer ended early: {0}")]
    Broken(String),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListPage {
    pub(crate) metadata: PageMetadata,
    pub(crate) items: Vec<Object>,
}

/// A list's version and position.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: String,
    /// The token of the next page; empty after the last one.
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

/// The open response of a watch.
pub(crate) struct WatchStream {
    body: Incoming,
    events: Events,
    right: &'static str,
    /// The time at which data was received last.
    received_at: Instant,
}

impl ApiEndpoint {
    /// Starts a watch from a version.
    pub(crate) async fn open_watch(
        &self,
        question: &WatchRequest,
        version: &str,
        duration: Duration,
    ) -> Result<WatchStream, ApiError> {
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
            duration.as_secs(),
        );
        let body = self.send_request(question, &question.form, &query).await?;
        let WatchRequest { bytes_max, right, .. } = *question;
        Ok(WatchStream { body, events: Events::new(bytes_max), right, received_at: Instant::now() })
    }

    /// Fetches a page of a list. `next` is the token of the page before; empty for the first.
    pub(crate) async fn fetch_page(
        &self,
        question: &WatchRequest,
        listing: &ListQuery,
        next: &str,
    ) -> Result<ListPage, ApiError> {
        let mut query = listing.first.to_owned();
        if !next.is_empty() {
            query = format!("{}&continue=", listing.next);
            push_encoded(&mut query, next);
        }
        let body = self.send_request(question, &listing.form, &query).await?;
        let read = Limited::new(body, listing.bytes_max).collect();
        let read = tokio::time::timeout(PAGE_TIMEOUT, read).await;
        let read = read.map_err(|_| ApiError::Broken("it took too long".to_owned()))?;
        let read = read.map_err(|error| ApiError::Broken(error.to_string()))?.to_bytes();
        serde_json::from_slice(&read).map_err(|error| ApiError::List(error.to_string()))
    }

    /// Sends one request, and returns the body of a response with status 200.
    async fn send_request(
        &self,
        question: &WatchRequest,
        form: &HeaderValue,
        query: &str,
    ) -> Result<Incoming, ApiError> {
        let request = self.build_request(question, form, query)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(RESPONSE_TIMEOUT));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(KEEP_ALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEP_ALIVE_RETRIES));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls_config()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        // Each request has its own connection, which lives until its response was read.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build::<_, Empty<Bytes>>(connector);
        let unreachable = |cause: &dyn std::fmt::Display| ApiError::Unreachable(cause.to_string());
        let answer = tokio::time::timeout(RESPONSE_TIMEOUT, client.request(request)).await;
        let answer = answer.map_err(|_| unreachable(&"no answer in time"))?;
        let answer = answer.map_err(|error| unreachable(&error_chain(&error)))?;
        let (parts, body) = answer.into_parts();
        if parts.status == StatusCode::OK {
            return Ok(body);
        }
        let body =
            tokio::time::timeout(RESPONSE_TIMEOUT, Limited::new(body, REFUSAL_BYTES_MAX).collect());
        let body = body.await.ok().and_then(Result::ok).map(|body| body.to_bytes());
        let body: Bytes = body.unwrap_or_default();
        let message = serde_json::from_slice::<Object>(&body).unwrap_or_default().message;
        Err(refusal_error(parts.status.as_u16(), &message, question.right))
    }

    fn build_request(
        &self,
        question: &WatchRequest,
        form: &HeaderValue,
        query: &str,
    ) -> Result<Request<Empty<Bytes>>, ApiError> {
        let token = self.read(&self.token_file)?;
        let token = String::from_utf8_lossy(&token);
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(http::Error::from)?;
        authorization.set_sensitive(true);
        let WatchRequest { path, selector, .. } = question;
        let uri = format!("{}{path}?{query}&{selector}", self.url);
        let request = Request::get(uri).header(ACCEPT, form.clone());
        Ok(request.header(AUTHORIZATION, authorization).body(Empty::new())?)
    }

    fn tls_config(&self) -> Result<ClientConfig, ApiError> {
        let fault = |cause: &dyn std::fmt::Display| ApiError::Certificates(cause.to_string());
        let mut roots = RootCertStore::empty();
        if let Some(file) = &self.ca_file {
            for certificate in CertificateDer::pem_slice_iter(&self.read(file)?) {
                let certificate = certificate.map_err(|error| fault(&error))?;
                roots.add(certificate).map_err(|error| fault(&error))?;
            }
        }
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|error| fault(&error))?;
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }

    fn read(&self, file: &PathBuf) -> Result<Vec<u8>, ApiError> {
        let fault = |source| ApiError::File { file: file.display().to_string(), source };
        std::fs::read(file).map_err(fault)
    }
}

impl WatchStream {
    /// Returns the next event; `None` if the server ended the response or was silent for
    /// [`SILENCE_MAX`].
    pub(crate) async fn next(&mut self) -> Result<Option<WatchEvent>, ApiError> {
        loop {
            let right = self.right;
            let outcome = self.events.next_event();
            let outcome = outcome
                .map_err(|WatchRefusal { status, message }| refusal_error(status, &message, right));
            if let Some(event) = outcome? {
                return Ok(Some(event));
            }
            let frame = timeout_at(self.received_at + SILENCE_MAX, self.body.frame()).await;
            let Ok(frame) = frame else { return Ok(None) };
            self.received_at = Instant::now();
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(ApiError::Broken(error_chain(&error))),
                Some(Ok(frame)) => self.events.push_piece(frame.into_data().unwrap_or_default()),
            }
        }
    }
}

fn refusal_error(status: u16, text: &str, right: &'static str) -> ApiError {
    let message: String = text.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    match status {
        403 => ApiError::Forbidden { message, right },
        410 => ApiError::Expired,
        status => ApiError::Refused { status, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the API server refuses a request for lack of rights. Guarantee: the error has the
    /// server's message and the right to grant.
    #[test]
    fn a_refusal_says_what_to_grant() {
        let text = refusal_error(403, "pods is forbidden", "a right").to_string();
        assert!(
            text.contains("pods is forbidden")
                && text.contains("grant this pod's ServiceAccount a right"),
            "{text}"
        );
    }
}
