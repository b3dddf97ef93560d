//! Tests of `tls.rs`.

use std::path::Path;

use millrace_certificates::Authority;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::*;

/// Writes a certificate of a new authority, and its key; returns the authority.
fn issue(folder: &Path) -> Authority {
    let authority = Authority::new("ours");
    let identity = authority.sign("localhost");
    std::fs::write(folder.join("tls.crt"), identity.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), identity.key_pem()).unwrap();
    authority
}

/// Returns whether a client that trusts only this authority can connect.
async fn serves(tls: &ListenerTls, trusted: &Authority) -> bool {
    let (near, far) = tokio::io::duplex(1 << 16);
    let name = ServerName::try_from("localhost").unwrap();
    let connecting = TlsConnector::from(Arc::new(trusted.client(None))).connect(name, near);
    let (connected, accepted) = tokio::join!(connecting, tls.current_acceptor().accept(far));
    connected.is_ok() && accepted.is_ok()
}

/// Scenario: the files get another certificate, then unusable content. Guarantee: new connections
/// get the other certificate, and continue to get it.
#[tokio::test]
async fn a_renewed_certificate_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let first = issue(folder.path());
    let file = |name: &str| SecretFile::new(folder.path().join(name)).unwrap();
    let settings =
        ServerTls { cert_file: file("tls.crt"), key_file: file("tls.key"), client_ca_file: None };
    let tls = ListenerTls::load_files(&settings, &[b"h2"]).unwrap();
    assert!(serves(&tls, &first).await);
    let second = issue(folder.path());
    assert!(!serves(&tls, &second).await, "before it was read");
    tls.reload_files();
    assert!(serves(&tls, &second).await);
    assert!(!serves(&tls, &first).await, "the old one is gone");
    std::fs::write(folder.path().join("tls.crt"), "no certificate\n").unwrap();
    tls.reload_files();
    assert!(serves(&tls, &second).await, "what was good stays");
}
