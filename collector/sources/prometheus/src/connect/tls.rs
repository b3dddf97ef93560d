//! TLS towards servers: rustls with ring, the system's authorities or a file's, and a client
//! certificate if one is set.

use std::sync::{Arc, OnceLock};

use millrace_config::{HttpTls, HttpUrl, SecretFile};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::ServerOrigin;
use super::fault::{ConnectError, FileFault, tls_reason};
use super::files::{FileValue, OnFault};
use super::stream::BoxStream;

/// The system's authorities, some 140 certificates, read when they are first needed.
#[derive(Debug, Default)]
pub(super) struct Roots(OnceLock<Arc<RootCertStore>>);

impl Roots {
    fn get(&self) -> Result<Arc<RootCertStore>, FileFault> {
        if let Some(roots) = self.0.get() {
            return Ok(Arc::clone(roots));
        }
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if store.is_empty() {
            return Err(FileFault::NoAuthorities);
        }
        Ok(Arc::clone(self.0.get_or_init(|| Arc::new(store))))
    }
}

/// Encrypts connections with the configuration from the newest files.
#[derive(Debug)]
pub(super) struct TlsDialer {
    settings: HttpTls,
    roots: Arc<Roots>,
    configs: FileValue<Configs>,
}

#[derive(Debug)]
pub(super) struct Configs {
    named: Arc<ClientConfig>,
    /// The same without a client certificate.
    other: Arc<ClientConfig>,
}

impl TlsDialer {
    pub(super) fn new(settings: Option<&HttpTls>, roots: &Arc<Roots>) -> Self {
        let settings = settings.cloned().unwrap_or_default();
        let HttpTls { ca_file, cert_file, key_file, .. } = &settings;
        let files = [ca_file, cert_file, key_file].into_iter().flatten().cloned().collect();
        let configs = FileValue::new(files, OnFault::Retain);
        Self { settings, roots: Arc::clone(roots), configs }
    }

    /// Returns the configuration for the next connection.
    pub(super) async fn client_config(
        &self,
        whose: ServerOrigin,
    ) -> Result<Arc<ClientConfig>, ConnectError> {
        let (settings, roots) = (self.settings.clone(), Arc::clone(&self.roots));
        let configs = self.configs.get(move |read| build_configs(&settings, &roots, read)).await?;
        Ok(Arc::clone(match whose {
            ServerOrigin::Configured => &configs.named,
            ServerOrigin::Redirected => &configs.other,
        }))
    }

    /// Performs the handshake on a stream.
    pub(super) async fn encrypt_stream(
        &self,
        stream: BoxStream,
        url: &HttpUrl,
        whose: ServerOrigin,
        config: Arc<ClientConfig>,
    ) -> Result<TlsStream<BoxStream>, ConnectError> {
        let own =
            self.settings.server_name.as_deref().filter(|_| whose == ServerOrigin::Configured);
        let name = own.unwrap_or(url.bare_host());
        let tls_error = |reason| ConnectError::Tls { host: url.authority(), reason };
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| tls_error(format!("`{name}` is not a valid name of a server")))?;
        let connected = TlsConnector::from(config).connect(server, stream).await;
        connected.map_err(|error| tls_error(tls_reason(&error)))
    }
}

fn build_configs(
    settings: &HttpTls,
    roots: &Roots,
    read: Vec<Vec<u8>>,
) -> Result<Configs, FileFault> {
    let HttpTls { ca_file, cert_file, key_file, server_name: _, insecure_skip_verify } = settings;
    let mut read = read.into_iter();
    let mut content = |file: &Option<SecretFile>| {
        file.clone().map(|file| (file, read.next().unwrap_or_default()))
    };
    let (ca, cert, key) = (content(ca_file), content(cert_file), content(key_file));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match (insecure_skip_verify, ca) {
        (true, _) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        }
        (false, None) => builder.with_root_certificates(roots.get()?),
        (false, Some((file, bytes))) => {
            let mut store = RootCertStore::empty();
            for certificate in parse_certificates(&file, &bytes)? {
                store.add(certificate)?;
            }
            builder.with_root_certificates(store)
        }
    };
    let other = plain_http(builder.clone().with_no_client_auth());
    let (Some((cert_file, chain)), Some((key_file, key))) = (cert, key) else {
        return Ok(Configs { named: Arc::clone(&other), other });
    };
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| pem_fault(&key_file, "private key", &error))?;
    let named = builder.with_client_auth_cert(parse_certificates(&cert_file, &chain)?, key)?;
    Ok(Configs { named: plain_http(named), other })
}

/// Restricts the configuration to HTTP/1.1.
fn plain_http(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn parse_certificates(
    file: &SecretFile,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, FileFault> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| pem_fault(file, "certificate", &error))?;
    if found.is_empty() {
        return Err(pem_fault(file, "certificate", &"the file contains none"));
    }
    Ok(found)
}

fn pem_fault(file: &SecretFile, what: &'static str, reason: &dyn std::fmt::Display) -> FileFault {
    FileFault::Pem { file: file.clone(), what, reason: reason.to_string() }
}

/// Accepts any certificate (`insecureSkipVerify`). Signatures are still checked, so that the server
/// has the certificate's key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
