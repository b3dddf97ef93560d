//! Requests to the API server: a list in pages, and one that stays open with the lines of its
//! answer.

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
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;

use crate::event::{Event, Events, Object, Refusal};

/// The longest event of a pod that is read, in bytes: the API server takes annotations of 256 KiB,
/// and who owns each field comes to less. A longer one is passed over.
pub const EVENT_BYTES_MAX: usize = 1 << 20;

/// How long a connection, and the beginning of an answer, may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What is read of an answer that is no watch, for its message.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;

/// Characters of a message of the API server that are kept.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// How long a page of a list may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Metadata alone: the API server leaves out spec and status.
pub(crate) const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Whole objects.
pub(crate) const WHOLE: HeaderValue = HeaderValue::from_static("application/json");

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The list's path.
    pub(crate) path: String,
    /// Which of it: a parameter of the query, with its value percent-encoded.
    pub(crate) selector: String,
    /// How much of each object.
    pub(crate) form: HeaderValue,
    /// The longest event, in bytes.
    pub(crate) bytes_max: usize,
    /// The right that it takes, for people.
    pub(crate) right: &'static str,
}

/// How a list is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    /// How much of each object.
    pub(crate) form: HeaderValue,
    /// The longest page, in bytes.
    pub(crate) bytes_max: usize,
    /// Parameters of the first page.
    pub(crate) first: &'static str,
    /// Of those behind it.
    pub(crate) next: &'static str,
}

/// The API server's address and log-in. Files are read again for each request, since they
/// are renewed under a running process.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Scheme, host and port.
    pub url: String,
    /// The file with the token.
    pub token_file: PathBuf,
    /// The file with the certificates of authorities; none for plain HTTP.
    pub ca_file: Option<PathBuf>,
}

/// Why a watch ended or didn't begin.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The token or the certificates aren't there.
    #[error("{file} can't be read: {source}")]
    File {
        /// Which one.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// The certificates can't be used.
    #[error("the certificates of the API server's authority can't be used: {0}")]
    Certificates(String),
    /// There is no such request.
    #[error("the request can't be made: {0}")]
    Request(#[from] http::Error),
    /// Nobody answers.
    #[error("the API server doesn't answer: {0}")]
    Unreachable(String),
    /// The account has no right to it.
    #[error("the API server refuses ({message}): this pod's ServiceAccount needs {right}")]
    Forbidden {
        /// What it said.
        message: String,
        /// The right that is missing.
        right: &'static str,
    },
    /// The version it was asked from is no longer kept.
    #[error("the API server no longer keeps changes since then")]
    Expired,
    /// Another answer than a watch.
    #[error("the API server answers {status}: {message}")]
    Refused {
        /// The status code.
        status: u16,
        /// What it said.
        message: String,
    },
    /// A page of a list can't be read.
    #[error("the API server's list can't be read: {0}")]
    List(String),
    /// It ended in the middle.
    #[error("the answer of the API server broke off: {0}")]
    Broken(String),
}

/// A page of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Page {
    pub(crate) metadata: PageMetadata,
    pub(crate) items: Vec<Object>,
}

/// Where a list is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: String,
    /// What the next page is asked with; empty behind the last.
    #[serde(rename = "continue")]
    pub(crate) next: String,
}

/// An answer that continues.
pub(crate) struct Answer {
    body: Incoming,
    events: Events,
    right: &'static str,
}

impl Endpoint {
    /// Watches from a version on.
    pub(crate) async fn watch(
        &self,
        question: &Question,
        version: &str,
        duration: Duration,
    ) -> Result<Answer, ApiError> {
        let query = format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={version}",
            duration.as_secs(),
        );
        let body = self.ask(question, &question.form, &query).await?;
        let Question { bytes_max, right, .. } = *question;
        Ok(Answer { body, events: Events::new(bytes_max), right })
    }

    /// A page of a list. `next` is of the page before.
    pub(crate) async fn page(
        &self,
        question: &Question,
        listing: &Listing,
        next: &str,
    ) -> Result<Page, ApiError> {
        let mut query = listing.first.to_owned();
        if !next.is_empty() {
            query = format!("{}&continue=", listing.next);
            push_encoded(&mut query, next);
        }
        let body = self.ask(question, &listing.form, &query).await?;
        let read = Limited::new(body, listing.bytes_max).collect();
        let read = tokio::time::timeout(PAGE_TIMEOUT, read).await;
        let read = read.map_err(|_| ApiError::Broken("it took too long".to_owned()))?;
        let read = read.map_err(|error| ApiError::Broken(error.to_string()))?.to_bytes();
        serde_json::from_slice(&read).map_err(|error| ApiError::List(error.to_string()))
    }

    /// One request, up to the body of an answer with status 200.
    async fn ask(
        &self,
        question: &Question,
        form: &HeaderValue,
        query: &str,
    ) -> Result<Incoming, ApiError> {
        let request = self.request(question, form, query)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(ANSWER_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        // One request: it keeps its connection as long as its answer is read.
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build::<_, Empty<Bytes>>(connector);
        let unreachable = |cause: &dyn std::fmt::Display| ApiError::Unreachable(cause.to_string());
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.request(request)).await;
        let answer = answer.map_err(|_| unreachable(&"no answer in time"))?;
        let answer = answer.map_err(|error| unreachable(&chain(&error)))?;
        let (parts, body) = answer.into_parts();
        if parts.status == StatusCode::OK {
            return Ok(body);
        }
        let body =
            tokio::time::timeout(ANSWER_TIMEOUT, Limited::new(body, REFUSAL_BYTES_MAX).collect());
        let body = body.await.ok().and_then(Result::ok).map(|body| body.to_bytes());
        let body: Bytes = body.unwrap_or_default();
        let said = serde_json::from_slice::<Object>(&body).unwrap_or_default().message;
        Err(refused(parts.status.as_u16(), &said, question.right))
    }

    fn request(
        &self,
        question: &Question,
        form: &HeaderValue,
        query: &str,
    ) -> Result<Request<Empty<Bytes>>, ApiError> {
        let token = self.read(&self.token_file)?;
        let token = String::from_utf8_lossy(&token);
        let mut authorization =
            HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(http::Error::from)?;
        authorization.set_sensitive(true);
        let Question { path, selector, .. } = question;
        let uri = format!("{}{path}?{query}&{selector}", self.url);
        let request = Request::get(uri).header(ACCEPT, form.clone());
        Ok(request.header(AUTHORIZATION, authorization).body(Empty::new())?)
    }

    fn tls(&self) -> Result<ClientConfig, ApiError> {
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

impl Answer {
    /// The next event; none when the server ended the answer in order.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            let right = self.right;
            let taken = self.events.take();
            let taken =
                taken.map_err(|Refusal { status, message }| refused(status, &message, right));
            if let Some(event) = taken? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ApiError::Broken(chain(&error))),
                Some(Ok(frame)) => self.events.give(frame.into_data().unwrap_or_default()),
            }
        }
    }
}

fn refused(status: u16, said: &str, right: &'static str) -> ApiError {
    let message: String = said.chars().take(MESSAGE_CHARACTERS_MAX).collect();
    match status {
        403 => ApiError::Forbidden { message, right },
        410 => ApiError::Expired,
        status => ApiError::Refused { status, message },
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the API server refuses for lack of rights. Guarantee: the message says what it
    /// said, and what to grant.
    #[test]
    fn a_refusal_says_what_to_grant() {
        let text = refused(403, "pods is forbidden", "a right").to_string();
        assert!(text.contains("pods is forbidden") && text.contains("needs a right"), "{text}");
    }
}
