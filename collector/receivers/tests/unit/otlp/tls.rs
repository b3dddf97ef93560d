//! Tests of what `otlp/tls.rs` keeps to itself.

use std::path::Path;

use millrace_certificates::Authority;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::*;

/// Writes a certificate of a new authority, and its key; gives the authority.
fn issue(folder: &Path) -> Authority {
    let authority = Authority::new("ours");
    let identity = authority.sign("localhost");
    std::fs::write(folder.join("tls.crt"), identity.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), identity.key_pem()).unwrap();
    authority
}

/// Whether a new connection is made by a client that trusts this authority alone.
async fn serves(tls: &Tls, trusted: &Authority) -> bool {
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(trusted.client(None))).connect(name, near);
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
