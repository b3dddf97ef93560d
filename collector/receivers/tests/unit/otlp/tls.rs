//! Tests of what `otlp/tls.rs` keeps to itself.

use std::path::Path;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::*;

/// Writes a certificate that signed itself, and its key; gives the certificate.
fn issue(folder: &Path) -> CertificateDer<'static> {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), issued.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), issued.signing_key.serialize_pem()).unwrap();
    issued.cert.der().clone()
}

/// Whether a new connection is made by a client that trusts this certificate alone.
async fn serves(tls: &Tls, trusted: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, near);
    let (connected, accepted) = tokio::join!(connecting, tls.acceptor().accept(far));
    connected.is_ok() && accepted.is_ok()
}

/// Scenario: the files hold another certificate, then nothing of use. Guarantee: new
/// connections get the other one, and go on getting it.
#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = issue(folder.path());
    let file = |name: &str| SecretFile::new(folder.path().join(name)).unwrap();
    let settings =
        ServerTls { cert_file: file("tls.crt"), key_file: file("tls.key"), client_ca_file: None };
    let tls = Tls::load(&settings, &[b"h2"]).unwrap();
    assert!(serves(&tls, &first).await);
    let second = issue(folder.path());
    assert!(!serves(&tls, &second).await, "before it was read");
    tls.reload();
    assert!(serves(&tls, &second).await);
    assert!(!serves(&tls, &first).await, "the old one is gone");
    std::fs::write(folder.path().join("tls.crt"), "no certificate\n").unwrap();
    tls.reload();
    assert!(serves(&tls, &second).await, "what was good stays");
}
