//! Inserts over HTTPS: whom the sink trusts, and which certificate it presents. Every test makes
//! new certificates.

use std::path::Path;

use millrace_certificates::Authority;
use millrace_config::ClientTls;

use super::*;

fn write(folder: &Path, name: &str, text: &str) -> SecretFile {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    SecretFile::new(path).unwrap()
}

/// Returns a sink of such a server, with the authority it trusts and the one that signed its
/// certificate.
fn sink(folder: &Path, server: &FakeServer, trusted: &Authority, signer: &Authority) -> Fixture {
    let shown = signer.sign("gateway");
    let tls = ClientTls {
        ca_file: Some(write(folder, "ca.crt", &trusted.pem())),
        cert_file: Some(write(folder, "tls.crt", &shown.pem())),
        key_file: Some(write(folder, "tls.key", &shown.key_pem())),
    };
    Fixture::with(vec![format!("https://localhost:{}", server.port())], |exporter| {
        exporter.tls = Some(tls);
    })
}

/// Scenario: server and sink trust each other; the sink trusts another authority; the server does.
/// Guarantee: the first insert is stored; the others are retried, are never sent, and the sink is
/// not ready.
#[test]
fn only_servers_and_sinks_that_know_each_other_exchange_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, strange) = (Authority::new("ours"), Authority::new("strange"));
    let server = FakeServer::encrypted(ours.sign("localhost").server_for(&ours));
    let mut known = sink(folder.path(), &server, &ours, &ours);
    assert_eq!(known.store(0), DeliveryOutcome::Stored);
    assert_eq!(server.inserts().len(), 1);
    for (trusted, signer) in [(&strange, &ours), (&ours, &strange)] {
        let mut fixture = sink(folder.path(), &server, trusted, signer);
        let completion = fixture.answers.open_part().unwrap();
        fixture.sink.submit(fixture.insert(0), completion).unwrap();
        eventually("a second try", || fixture.retries("retry_same") >= 2);
        assert!(!fixture.readiness.is_ready());
        fixture.drain.begin();
        assert_eq!(
            fixture.answers.next_within(PATIENCE).unwrap().outcome,
            DeliveryOutcome::Abandoned
        );
    }
    assert_eq!(server.inserts().len(), 1, "nothing came from strangers");
}
