//! TLS to a server: whom to trust, and who we say we are. Files are read once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Where certificates and keys lie, as PEM.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// Whoever a server's certificate has to be signed by.
    pub(crate) authorities: PathBuf,
    /// Our own certificate and its key, if the servers ask for one.
    pub(crate) own: Option<(PathBuf, PathBuf)>,
    /// The name in the servers' certificate, when it isn't the one they are called by.
    pub(crate) server_name: Option<String>,
}

/// TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: pem::Error },
    #[error("{} has no certificate", path.display())]
    Empty { path: PathBuf },
    #[error("the certificates don't fit: {0}")]
    Refused(#[from] rustls::Error),
}

/// What a connection needs for its TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) server_name: Option<String>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Tls {
    pub(crate) fn new(files: &TlsFiles) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(&files.authorities)? {
            roots.add(certificate)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match &files.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(
                certificates(certificate)?,
                PrivateKeyDer::from_pem_file(key)
                    .map_err(|cause| TlsError::Read { path: key.clone(), cause })?,
            )?,
        };
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            server_name: files.server_name.clone(),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |cause| TlsError::Read { path: path.to_owned(), cause };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(read)?.collect();
    let certificates = certificates.map_err(read)?;
    match certificates.is_empty() {
        true => Err(TlsError::Empty { path: path.to_owned() }),
        false => Ok(certificates),
    }
}
