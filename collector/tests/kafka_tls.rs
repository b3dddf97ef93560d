//! What `/readyz` reports of a broker whose certificate isn't trusted.

use std::net::Ipv4Addr;
use std::path::Path;

use millrace_certificates::Authority;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::command::{Running, Settings};

/// Handshakes with each client by a certificate of `authority`, until the runtime ends.
fn start_broker(runtime: &Runtime, authority: &Authority) -> u16 {
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = TlsAcceptor::from(authority.sign("127.0.0.1").server());
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = tls.accept(stream).await;
        }
    });
    port
}

fn edge(port: u16, ca: &Path) -> Settings {
    Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\n\
         memory: {{limitBytes: 256Mi}}\n\
         receivers:\n  otlp:\n    grpc: {{address: '127.0.0.1:0'}}\n    http: {{address: '127.0.0.1:0'}}\n\
         exporters:\n  kafka:\n    topics: {{traces: otlp_traces}}\n    connection:\n      \
         bootstrapServers: ['127.0.0.1:{port}']\n      tls: {{caFile: '{}'}}\n",
        ca.display()
    ))
}

fn gateway(port: u16, ca: &Path) -> Settings {
    Settings::new(&format!(
        "admin: {{address: '127.0.0.1:0'}}\n\
         memory: {{limitBytes: 256Mi}}\n\
         receivers:\n  kafka:\n    workers: 1\n    topics: {{traces: otlp_traces}}\n    \
         connection:\n      bootstrapServers: ['127.0.0.1:{port}']\n      tls: {{caFile: '{}'}}\n\
         exporters: {{clickhouse: {{endpoints: ['http://127.0.0.1:1']}}}}\n",
        ca.display()
    ))
}

/// Scenario: an edge and a gateway trust another authority than the broker's. Guarantee: `/readyz`
/// of both names the failed TLS connection, the certificate and what to check, in the same words.
#[test]
fn readiness_names_a_certificate_that_is_not_trusted() {
    let runtime = Runtime::new().unwrap();
    let port = start_broker(&runtime, &Authority::new("kafka"));
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, Authority::new("another").pem()).unwrap();
    for settings in [edge(port, &ca), gateway(port, &ca)] {
        let mut collector = Running::start(&settings);
        for text in [
            "the TLS connection to Kafka failed: ",
            "certificate verify failed",
            "; check the CA, the host name in the broker's certificate, and that the port expects TLS",
        ] {
            collector.wait_for_readiness(503, text);
        }
    }
}
