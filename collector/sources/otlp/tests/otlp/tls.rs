//! TLS: accepted and refused clients, and handshakes that never end.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_certificates::{Authority, Identity};
use millrace_config::{SecretFile, ServerTls};
use millrace_pipeline::component::SourceContext;
use millrace_source_otlp::{Otlp, OtlpError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::otlp::grpc::{TRACES, framed};
use crate::otlp::rig::{PATIENCE, Rig, trace_bytes};

fn write(folder: &Path, name: &str, text: &str) -> SecretFile {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    SecretFile::new(path).unwrap()
}

fn server_tls(
    folder: &Path,
    authority: &Authority,
    client_authority: Option<&Authority>,
) -> ServerTls {
    let identity = authority.sign("localhost");
    ServerTls {
        cert_file: write(folder, "tls.crt", &identity.pem()),
        key_file: write(folder, "tls.key", &identity.key_pem()),
        client_ca_file: client_authority.map(|ca| write(folder, "client-ca.crt", &ca.pem())),
    }
}

/// Returns a client that trusts one authority, with or without a certificate, and offers protocols.
fn connector(
    trusted: &Authority,
    identity: Option<&Identity>,
    protocols: &[&[u8]],
) -> TlsConnector {
    let mut config = trusted.client(identity);
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Exports one span by gRPC over TLS. Returns gRPC's status, or `None` when the handshake or the
/// connection fails.
async fn export(rig: &Rig, trusted: &Authority, identity: Option<&Identity>) -> Option<u32> {
    let stream = TcpStream::connect(rig.grpc).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector(trusted, identity, &[b"h2"]).connect(name, stream).await.ok()?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .ok()?;
    tokio::spawn(connection);
    let request = Request::post(format!("https://localhost{TRACES}"))
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(Full::new(Bytes::from(framed(0, &trace_bytes(1)))))
        .unwrap();
    let (head, body) = sender.send_request(request).await.ok()?.into_parts();
    let body = body.collect().await.ok()?;
    let status = body.trailers().and_then(|trailers| trailers.get("grpc-status"));
    status.or(head.headers.get("grpc-status"))?.to_str().ok()?.parse().ok()
}

/// Posts over TLS. Returns the status line, or `None` when the handshake or the connection fails.
async fn post(rig: &Rig, trusted: &Authority, identity: Option<&Identity>) -> Option<String> {
    let stream = TcpStream::connect(rig.http).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector(trusted, identity, &[]).connect(name, stream).await.ok()?;
    let body = trace_bytes(1);
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    String::from_utf8_lossy(&answer).lines().next().map(str::to_owned)
}

/// Scenario: TLS, with clients that trust the right and another authority. Guarantee: the first is
/// served; the second and plain text are not.
#[tokio::test]
async fn tls_serves_those_who_trust_its_authority() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (Authority::new("ours"), Authority::new("other"));
    let tls = server_tls(folder.path(), &authority, None);
    let rig = Rig::with(64 << 20, |settings| settings.http.tls = Some(tls)).await;
    assert_eq!(post(&rig, &authority, None).await.as_deref(), Some("HTTP/1.1 200 OK"));
    assert_eq!(post(&rig, &other, None).await, None);
    let mut plain = TcpStream::connect(rig.http).await.unwrap();
    plain.write_all(b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"));
    rig.end().await;
}

/// Scenario: mutual TLS. Guarantee: only clients of the named authority are served.
#[tokio::test]
async fn mutual_tls_serves_only_known_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, clients, strangers) =
        (Authority::new("ours"), Authority::new("clients"), Authority::new("strangers"));
    let tls = server_tls(folder.path(), &authority, Some(&clients));
    let rig = Rig::with(64 << 20, |settings| settings.http.tls = Some(tls)).await;
    let known = clients.sign("edge-client");
    let unknown = strangers.sign("edge-client");
    assert_eq!(post(&rig, &authority, Some(&known)).await.as_deref(), Some("HTTP/1.1 200 OK"));
    assert_eq!(post(&rig, &authority, Some(&unknown)).await, None);
    assert_eq!(post(&rig, &authority, None).await, None);
    assert_eq!(rig.taken().len(), 1);
    rig.end().await;
}

/// Scenario: gRPC over mutual TLS, with known and unknown authorities on either side. Guarantee:
/// HTTP/2 is negotiated, and only clients that trust the server and are trusted are served.
#[tokio::test]
async fn grpc_over_mutual_tls_serves_only_known_clients() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, clients, strangers) =
        (Authority::new("ours"), Authority::new("clients"), Authority::new("strangers"));
    let tls = server_tls(folder.path(), &authority, Some(&clients));
    let rig = Rig::with(64 << 20, |settings| settings.grpc.tls = Some(tls)).await;
    let known = clients.sign("edge-client");
    let unknown = strangers.sign("edge-client");
    assert_eq!(export(&rig, &authority, Some(&known)).await, Some(0));
    assert_eq!(export(&rig, &strangers, Some(&known)).await, None);
    assert_eq!(export(&rig, &authority, Some(&unknown)).await, None);
    assert_eq!(export(&rig, &authority, None).await, None);
    assert_eq!(rig.taken().len(), 1);
    rig.end().await;
}

/// Scenario: a handshake that never finishes. Guarantee: the connection is closed at its timeout.
#[tokio::test]
async fn half_handshakes_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let tls = server_tls(folder.path(), &Authority::new("ours"), None);
    let rig = Rig::with(64 << 20, |settings| {
        settings.http.tls = Some(tls);
        settings.limits.handshake_seconds = 1;
    })
    .await;
    let mut stream = TcpStream::connect(rig.http).await.unwrap();
    // The first bytes of a ClientHello record.
    stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    let start = Instant::now();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap();
    let took = start.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(10)).contains(&took), "{took:?}");
    rig.end().await;
}

/// Scenario: the drain begins while a client has connected and sent nothing, in plain text, or half
/// a handshake. Guarantee: neither holds up the receiver's end.
#[tokio::test]
async fn a_drain_does_not_wait_for_clients_that_have_sent_no_request() {
    let folder = tempfile::tempdir().unwrap();
    for is_encrypted in [false, true] {
        let tls = is_encrypted.then(|| server_tls(folder.path(), &Authority::new("ours"), None));
        let rig = Rig::with(64 << 20, |settings| settings.http.tls = tls).await;
        let mut stream = TcpStream::connect(rig.http).await.unwrap();
        if is_encrypted {
            stream.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        }
        // An accepted connection has a part of the budget.
        let accepted = async {
            while rig.budget.used_bytes() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, accepted).await.unwrap();
        let start = Instant::now();
        rig.end().await;
        assert!(start.elapsed() < Duration::from_secs(5), "{is_encrypted} {:?}", start.elapsed());
    }
}

/// Scenario: invalid certificate files. Guarantee: the receiver does not start, and the error names
/// the field and the file.
#[tokio::test]
async fn unusable_certificates_stop_the_start_with_a_reason() {
    let rig = Rig::start().await;
    let folder = tempfile::tempdir().unwrap();
    let good = server_tls(folder.path(), &Authority::new("ours"), None);
    let empty = write(folder.path(), "none.pem", "no pem here\n");
    let broken = [
        (
            ServerTls { cert_file: empty.clone(), ..good.clone() },
            "none.pem contains no valid certificate",
        ),
        (ServerTls { key_file: empty, ..good.clone() }, "none.pem contains no valid private key"),
        (
            ServerTls { key_file: SecretFile::new("/absent/tls.key").unwrap(), ..good },
            "cannot read /absent/tls.key",
        ),
    ];
    for (tls, expected) in broken {
        let mut settings = millrace_config::OtlpReceiver::default();
        settings.grpc.address = ([127, 0, 0, 1], 0).into();
        settings.http.enabled = false;
        settings.grpc.tls = Some(tls);
        let context = SourceContext {
            budget: rig.budget.clone(),
            drain: rig.drain.clone(),
            telemetry: Arc::clone(&rig.telemetry),
            publisher: Arc::clone(&rig.publisher) as _,
        };
        let Err(error @ OtlpError::Tls { .. }) = Otlp::bind(&settings, 1, context).await else {
            panic!("started with {expected}")
        };
        let text = error.to_string();
        assert!(text.contains("receivers.otlp.grpc.tls") && text.contains(expected), "{text}");
    }
    rig.end().await;
}
