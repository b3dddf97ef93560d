//! TLS as a server: reads certificates from files, again once a minute, so that they can be renewed
//! without a restart. A renewal that cannot be used is logged, and the old certificate stays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millrace_config::{SecretError, SecretFile, ServerTls};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::mutex::lock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// How often the files are read again.
const REFRESH_PERIOD: Duration = Duration::from_secs(60);

/// Certificates or keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] SecretError),
    /// A file is not PEM, or has no item of this kind.
    #[error("{file} contains no valid {what} in PEM: {reason}")]
    Pem {
        /// The file.
        file: String,
        /// The expected item.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The certificate and key don't match, or one is of an unsupported kind.
    #[error("the certificate and key are invalid: {0}")]
    Unusable(#[from] rustls::Error),
    /// The client authorities cannot be used.
    #[error("the certificates of the client authorities are invalid: {0}")]
    ClientAuthorities(#[from] rustls::server::VerifierBuilderError),
}

/// A listener's TLS, always with the newest usable certificate.
#[derive(Debug)]
pub(crate) struct ListenerTls {
    settings: ServerTls,
    protocols: &'static [&'static [u8]],
    current: Mutex<Arc<ServerConfig>>,
}

impl ListenerTls {
    /// Reads the files. `protocols` is what ALPN offers, best first.
    pub(crate) fn load_files(
        settings: &ServerTls,
        protocols: &'static [&'static [u8]],
    ) -> Result<Self, TlsError> {
        let current = Mutex::new(server_config(settings, protocols)?);
        Ok(Self { settings: settings.clone(), protocols, current })
    }

    /// Returns the acceptor for the next connection.
    pub(crate) fn current_acceptor(&self) -> TlsAcceptor {
        let current = lock(&self.current);
        Arc::clone(&current).into()
    }

    /// Reads the files again periodically, until the drain begins.
    pub(crate) async fn refresh_periodically(self: Arc<Self>, drain: Drain) {
        loop {
            tokio::select! {
                () = drain.wait_for_begin() => return,
                () = tokio::time::sleep(REFRESH_PERIOD) => {}
            }
            let this = Arc::clone(&self);
            // Files of a mounted secret are small but still files: they are not read on the I/O
            // threads.
            let _ = tokio::task::spawn_blocking(move || this.reload_files()).await;
        }
    }

    fn reload_files(&self) {
        match server_config(&self.settings, self.protocols) {
            Ok(config) => *lock(&self.current) = config,
            Err(error) => {
                tracing::warn!(%error,
                    "the renewed certificate is invalid; the previous one stays in use")
            }
        }
    }
}

fn server_config(settings: &ServerTls, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
    let ServerTls { cert_file, key_file, client_ca_file } = settings;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = match client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(file)? {
                roots.add(certificate)?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(&key_file.read_bytes()?)
        .map_err(|error| pem_error(key_file, "private key", &error))?;
    let mut config = builder.with_single_cert(read_certificates(cert_file)?, key)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn read_certificates(file: &SecretFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = file.read_bytes()?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| pem_error(file, "certificate", &error))?;
    if found.is_empty() {
        return Err(pem_error(file, "certificate", &"the file contains none"));
    }
    Ok(found)
}

fn pem_error(file: &SecretFile, what: &'static str, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::Pem { file: file.to_string(), what, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
