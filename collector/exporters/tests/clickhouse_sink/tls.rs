//! Inserts over HTTPS: whom the sink trusts, and what it shows of itself. Certificates are made anew
//! for every test.

use std::path::Path;

use millrace_config::ClientTls;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::*;

/// An authority, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// A server that this authority signed, for clients that it signed too.
    fn server(&self) -> FakeServer {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let (certificate, key) = self.sign("localhost");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key.serialize_der().into()),
            );
        FakeServer::encrypted(Arc::new(config.unwrap()))
    }
}

fn write(folder: &Path, name: &str, text: &str) -> SecretFile {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    SecretFile::new(path).unwrap()
}

/// A sink of such a server, with the authority it trusts and the one that signed its certificate.
fn sink(folder: &Path, server: &FakeServer, trusted: &Authority, signer: &Authority) -> Fixture {
    let (certificate, key) = signer.sign("gateway");
    let tls = ClientTls {
        ca_file: Some(write(folder, "ca.crt", &trusted.0.pem())),
        cert_file: Some(write(folder, "tls.crt", &certificate.pem())),
        key_file: Some(write(folder, "tls.key", &key.serialize_pem())),
    };
    Fixture::with(vec![format!("https://localhost:{}", server.port())], |exporter| {
        exporter.tls = Some(tls);
    })
}

/// Scenario: server and sink know each other; the sink trusts another authority; the server does.
/// Guarantee: the first insert is stored; the others are tried again, are never sent, and the sink is
/// not ready.
#[test]
fn only_servers_and_sinks_that_know_each_other_exchange_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, strange) = (Authority::new(), Authority::new());
    let server = ours.server();
    let mut known = sink(folder.path(), &server, &ours, &ours);
    assert_eq!(known.store(0), Outcome::Stored);
    assert_eq!(server.inserts().len(), 1);
    for (trusted, signer) in [(&strange, &ours), (&ours, &strange)] {
        let mut fixture = sink(folder.path(), &server, trusted, signer);
        let completion = fixture.answers.open().unwrap();
        fixture.sink.submit(fixture.insert(0), completion).unwrap();
        eventually("a second try", || fixture.retries("retry_same") >= 2);
        assert!(!fixture.readiness.is_ready());
        fixture.drain.begin();
        assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, Outcome::Abandoned);
    }
    assert_eq!(server.inserts().len(), 1, "nothing came from strangers");
}
