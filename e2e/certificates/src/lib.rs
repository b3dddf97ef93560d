//! An authority for tests and benchmarks, what it signs, and both ends of TLS that go by it.
//!
//! Products may link it in their tests alone. It writes no file and opens no socket; keys are made
//! anew for each certificate. What can't be made ends the test: every function panics then.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// An authority.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
#[derive(Debug)]
pub struct Identity {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    /// A new authority. Who trusts another finds an unknown issuer in what this one signs; if both
    /// have the same name, a wrong signature.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, key()).expect("an authority signs itself"))
    }

    /// Its own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a server's name or address, or for a client.
    #[must_use]
    pub fn sign(&self, name: &str) -> Identity {
        self.signed(params(name))
    }

    /// One that has expired.
    #[must_use]
    pub fn sign_expired(&self, name: &str) -> Identity {
        let mut params = params(name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2020, 2, 1);
        self.signed(params)
    }

    fn signed(&self, params: CertificateParams) -> Identity {
        let key = key();
        let certificate = params.signed_by(&key, &self.0).expect("an authority signs");
        Identity { certificate, key }
    }

    /// A client that trusts this authority alone, and shows a certificate or none.
    #[must_use]
    pub fn client(&self, shown: Option<&Identity>) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("ring has the usual versions")
            .with_root_certificates(self.roots());
        match shown.map(Identity::der) {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).expect("key fits"),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority may be trusted");
        roots
    }
}

impl Identity {
    /// The certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// The key, in PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// A server with this certificate, for every client.
    #[must_use]
    pub fn server(&self) -> Arc<ServerConfig> {
        self.serving(None)
    }

    /// One that lets in only clients that an authority signed.
    #[must_use]
    pub fn server_for(&self, clients: &Authority) -> Arc<ServerConfig> {
        self.serving(Some(clients))
    }

    fn serving(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring has the usual versions");
        let builder = match clients.map(|it| Arc::new(it.roots())) {
            None => builder.with_no_client_auth(),
            Some(roots) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().expect("roots are there"))
            }
        };
        let (chain, key) = self.der();
        Arc::new(builder.with_single_cert(chain, key).expect("key fits"))
    }

    fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        (vec![self.certificate.der().clone()], key)
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("there are random bytes")
}

fn params(name: &str) -> CertificateParams {
    CertificateParams::new([name.to_owned()]).expect("a name of ASCII")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
