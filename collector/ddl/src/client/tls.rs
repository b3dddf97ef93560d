//! The HTTPS connector: rustls with ring, the system's roots or one CA file, and a client
//! certificate for servers that require one. Plain HTTP uses the same connector.

use std::time::Duration;

use clickhouse::{Client as Http, Compression};
use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client as HyperClient, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

use super::ClientError;
use super::endpoint::Secret;
use super::limits::{ClientLimits, Counting, LastStatus, Resolver};

/// ClickHouse closes an idle connection after 3 s or more (`keep_alive_timeout`); the client closes
/// it earlier, so that no request uses a connection that the server is closing.
const POOL_IDLE: Duration = Duration::from_secs(2);

/// The interval of probes on a silent connection, which notice a vanished server below any proxy's
/// limit.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Certificates of an HTTPS connection, as PEM text.
#[derive(Clone, Debug, Default)]
pub struct TlsCertificates {
    /// Certificates to trust **instead of** the system's; `None` trusts the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// The client's certificate chain and key, for servers that require them.
    pub identity: Option<ClientIdentity>,
}

/// A client certificate.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// Certificate chain, leaf first.
    pub certificate_pem: Vec<u8>,
    /// The certificate's private key.
    pub key_pem: Secret,
}

/// Returns a `clickhouse` client over our own connector.
pub(crate) fn http_client(
    tls: ClientConfig,
    connect_timeout: Duration,
    limits: &ClientLimits,
    status: LastStatus,
) -> Http {
    let mut tcp = HttpConnector::new_with_resolver(Resolver::new(limits));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_connect_timeout(Some(connect_timeout));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let hyper = HyperClient::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .build(Counting::new(connector, limits.clone(), status));
    // Compressed answers could expand to any length.
    Http::with_http_client(hyper).with_compression(Compression::None)
}

impl TlsCertificates {
    /// Returns the rustls settings for these certificates, without protocols to negotiate; other
    /// HTTPS clients of ours use them too.
    ///
    /// # Errors
    /// [`ClientError::Setup`]: a certificate or key cannot be read, or they do not match.
    pub fn client_config(&self) -> Result<ClientConfig, ClientError> {
        build_config(self)
    }
}

fn build_config(tls: &TlsCertificates) -> Result<ClientConfig, ClientError> {
    let setup =
        |what: &str, cause: &dyn std::fmt::Display| ClientError::Setup(format!("{what}: {cause}"));
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|cause| setup("TLS versions", &cause))?;
    let builder = match &tls.ca_pem {
        Some(pem) => builder.with_root_certificates(root_store(pem)?),
        None => builder
            .with_native_roots()
            .map_err(|cause| setup("the system's CA certificates cannot be read", &cause))?,
    };
    let Some(ClientIdentity { certificate_pem, key_pem }) = &tls.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = parse_certificates(certificate_pem, "the client certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key_pem.reveal().as_bytes())
        .map_err(|cause| setup("the client certificate's key is no PEM private key", &cause))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|cause| setup("the client certificate and its key do not fit", &cause))
}

fn root_store(pem: &[u8]) -> Result<RootCertStore, ClientError> {
    let mut store = RootCertStore::empty();
    for certificate in parse_certificates(pem, "the CA certificate")? {
        store
            .add(certificate)
            .map_err(|cause| ClientError::Setup(format!("the CA certificate: {cause}")))?;
    }
    Ok(store)
}

fn parse_certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err(ClientError::Setup(format!("{what} holds no PEM certificate"))),
        Err(cause) => Err(ClientError::Setup(format!("{what} is not PEM: {cause}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a CA file without a certificate. Guarantee: the client's creation fails with a
    /// readable error.
    #[test]
    fn an_empty_ca_file_is_refused() {
        let tls = TlsCertificates { ca_pem: Some(b"hello".to_vec()), identity: None };
        let message = build_config(&tls).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains("holds no PEM certificate"), "{message}");
    }
}
