//! Tests of the private parts of `telemetry/admin.rs`.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;
use millrace_observe::http_listener::{CONNECTIONS, HEADER_BYTES, HEADER_TIME};

async fn get(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Closing a connection with unread bytes resets it after the response.
    let _ = timeout(HEADER_TIME, stream.read_to_end(&mut answer)).await.expect("the end");
    String::from_utf8(answer).unwrap()
}

fn admin(metrics_token: Option<PathBuf>) -> AdminContext {
    AdminContext { health: Health::default(), metrics: Metrics::new().unwrap(), metrics_token }
}

/// Scenario: scrapes and probes without a token, with an invalid one, with the token, and after its
/// file is deleted. Guarantee: only the token gets metrics; probes need none.
#[tokio::test]
async fn metrics_with_a_token_are_for_whoever_has_it() {
    let token = "0123456789abcdef0123456789abcdef";
    let path = std::env::temp_dir().join(format!("millrace-metrics-{}", std::process::id()));
    std::fs::write(&path, format!("{token}\n")).unwrap();
    let admin = admin(Some(path.clone()));
    let status = async |path: &str, bearer: Option<&str>| {
        let request = Request::get(path);
        let request = match bearer {
            Some(bearer) => request.header("authorization", format!("Bearer {bearer}")),
            None => request,
        };
        handle_request(&request.body(()).unwrap(), &admin).await.status().as_u16()
    };
    assert_eq!(status("/metrics", None).await, 401);
    assert_eq!(status("/metrics", Some("0123456789abcdef0123456789abcdee")).await, 401);
    assert_eq!(status("/metrics", Some(token)).await, 200);
    assert_eq!(status("/livez", None).await, 200);
    std::fs::remove_file(path).unwrap();
    assert_eq!(status("/metrics", Some(token)).await, 503);
}

/// Scenario: far more connections than the limit, each with an incomplete head. Guarantee: probes
/// and scrapes are answered at once, one per connection; the oldest are closed before their
/// timeout; no head longer than the limit is accepted.
#[tokio::test]
async fn probes_are_answered_beside_connections_that_stand_still() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stopped = async move { drop(stopped.await) };
    let served = tokio::spawn(serve_admin(listener, admin(None), stopped));
    let mut slow = Vec::new();
    for _ in 0..10 * CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nslow: ").await.unwrap();
        slow.push(stream);
    }
    assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200 "));
    let closed = timeout(HEADER_TIME / 2, slow[0].read(&mut [0; 1])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    let answer = get(address, "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let metrics = get(address, "/metrics").await;
    assert!(metrics.contains("process_resident_memory_bytes"), "{metrics}");
    assert!(get(address, "/secret").await.starts_with("HTTP/1.1 404 "));
    let flood = format!("/livez HTTP/1.1\r\nx: {}", "y".repeat(HEADER_BYTES));
    assert!(get(address, &flood).await.starts_with("HTTP/1.1 431 "));
    drop(stop);
    served.await.unwrap();
}

/// Scenario: start, CRDs appear, stop. Guarantee: ready only in between, and independent of the
/// lease.
#[test]
fn readiness_follows_the_kinds_and_the_shutdown() {
    let health = Health::default();
    assert!(health.check_ready().is_err());
    health.set_crds_served();
    assert!(health.check_ready().is_ok());
    health.set_stopping();
    assert_eq!(health.check_ready(), Err("stopping"));
    assert!(health.check_live().is_ok());
}

/// Scenario: a controller ends unexpectedly. Guarantee: the probe requests a restart.
#[test]
fn a_controller_that_ended_makes_the_replica_not_live() {
    let health = Health::default();
    health.set_broken();
    assert!(health.check_live().is_err());
}
