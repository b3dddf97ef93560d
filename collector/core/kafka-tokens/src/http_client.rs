//! Sends HTTP requests for tokens and credentials.
//!
//! Limits: [`REQUEST_TIMEOUT`] for all requests for a token, [`RESPONSE_BYTES_MAX`] of a response.
//! Redirects are not followed: credentials go to the configured endpoint only.
//!
//! [`RESPONSE_BYTES_MAX`]: millrace_oauth::RESPONSE_BYTES_MAX

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use millrace_oauth::read_response;
use millrace_observe::error_chain;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

use crate::secret_text::SecretText;

/// The time limit of the requests for one token, connections included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends requests over HTTP or HTTPS.
pub(crate) struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl HttpClient {
    /// Creates a client that trusts the system's CA certificates, or only these in PEM.
    pub(crate) fn new(ca: Option<&SecretText>) -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(build_tls(ca)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    /// Sends a request and reads its response.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), String> {
        let response = self.0.request(request).await.map_err(|error| error_chain(&error))?;
        read_response(response).await
    }
}

/// Ends requests that take too long.
pub(crate) async fn limit_time<T>(
    requests: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let late = || Err(format!("no complete answer within {} s", REQUEST_TIMEOUT.as_secs()));
    tokio::time::timeout(REQUEST_TIMEOUT, requests).await.unwrap_or_else(|_| late())
}

fn build_tls(ca: Option<&SecretText>) -> Result<ClientConfig, String> {
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let Some(ca) = ca else {
        let builder = builder
            .with_native_roots()
            .map_err(|error| format!("the system's CA certificates cannot be read: {error}"))?;
        return Ok(builder.with_no_client_auth());
    };
    let pem = ca.read().map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("its CA is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("its CA: {error}"))?;
    }
    if roots.is_empty() {
        return Err("its CA holds no PEM certificate".to_owned());
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
