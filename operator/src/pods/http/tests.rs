//! Tests of the private parts of `pods/http.rs`.

use std::net::{IpAddr, Ipv4Addr};

use millrace_reports::DeadLetterEntry;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn target(pod: &str) -> PodTarget {
    PodTarget { pod: pod.to_owned(), address: HOST }
}

/// Scenario: a pod that answers, then one that accepts the connection and stays silent. Guarantee:
/// the figures of the first; for the second an error that names it, after the timeout of one
/// scrape.
#[tokio::test]
async fn a_pod_that_hangs_costs_one_look_and_is_named() {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let pods = HttpPods::new(listener.local_addr().unwrap().port());
    let serve = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        let read = first.read(&mut request).await.unwrap();
        assert!(request[..read].starts_with(b"GET /metrics HTTP/1.1\r\n"));
        let body = "millrace_budget_bytes 7\n";
        let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}", 24);
        first.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        drop(first);
        // The connection remains open and is never answered.
        let (second, _) = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
        drop(second);
    });
    let now = Timestamp::from_second(5).unwrap();
    let look = pods.scrape_pods(&[target("a-0")], now).await;
    let sample = look["a-0"].as_ref().unwrap();
    assert_eq!((sample.at, sample.budget_bytes), (5, Some(7)));
    let look = pods.scrape_pods(&[target("a-1")], now).await;
    let error = look["a-1"].as_ref().unwrap_err().to_string();
    assert!(error.contains("pod a-1 at 127.0.0.1") && error.contains("no answer"), "{error}");
    serve.abort();
}

/// Scenario: other responses occupy the complete budget, and then release it. Guarantee: a pod's
/// response waits for the budget, no longer than a scrape's timeout; it is then read, and its share
/// of the budget is released.
#[tokio::test]
async fn answers_wait_for_the_shared_budget() {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let budget = Budget::new(24);
    let pods = HttpPods::new(listener.local_addr().unwrap().port()).with_budget(budget.clone());
    let serve = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = socket.read(&mut request).await.unwrap();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 24";
            let body = "millrace_budget_bytes 7\n";
            socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        }
    });
    let others = budget.acquire_bytes(24).await.unwrap();
    let now = Timestamp::from_second(5).unwrap();
    let look = pods.scrape_pods(&[target("a-0")], now).await;
    assert!(matches!(look["a-0"], Err(ScrapeError::Unreachable { .. })), "{look:?}");
    drop(others);
    let look = pods.scrape_pods(&[target("a-0"), target("a-1")], now).await;
    assert!(look.values().all(Result::is_ok), "{look:?}");
    assert_eq!(budget.free_bytes(), 24);
    serve.abort();
}

/// Scenario: no process listens. Guarantee: an error, at once.
#[tokio::test]
async fn a_pod_that_is_away_is_told() {
    let port = {
        let listener = TcpListener::bind((HOST, 0)).await.unwrap();
        listener.local_addr().unwrap().port()
    };
    let look = HttpPods::new(port).scrape_pods(&[target("a-0")], Timestamp::UNIX_EPOCH).await;
    assert!(matches!(look["a-0"], Err(ScrapeError::Unreachable { .. })), "{look:?}");
}

/// Scenario: a pool of more pods than are queried at once. Guarantee: every one of them is queried.
#[tokio::test]
async fn all_pods_of_a_large_pool_are_asked() {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let pods = HttpPods::new(listener.local_addr().unwrap().port());
    let serve = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 1024];
                let _ = socket.read(&mut request).await;
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 24";
                let answer = format!("{head}\r\n\r\nmillrace_budget_bytes 7\n");
                let _ = socket.write_all(answer.as_bytes()).await;
            });
        }
    });
    let targets: Vec<_> = (0..PODS_MAX * 2 + 1).map(|at| target(&format!("a-{at}"))).collect();
    let look = pods.scrape_pods(&targets, Timestamp::UNIX_EPOCH).await;
    assert_eq!(look.len(), targets.len());
    assert!(look.values().all(Result::is_ok), "{look:?}");
    serve.abort();
}

/// Scenario: a pod reports what it scrapes; one of an earlier release doesn't have that page.
/// Guarantee: the page of shares is requested and parsed; the other pod gives an error that states
/// so.
#[tokio::test]
async fn a_pods_share_is_asked_for() {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let pods = HttpPods::new(listener.local_addr().unwrap().port());
    let serve = tokio::spawn(async move {
        for answer in ["200 OK", "404 Not Found"] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = socket.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /share HTTP/1.1"));
            let head = format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 13");
            let answer = format!("{head}\r\n\r\n{{\"version\":7}}");
            socket.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let answers = ShareSource::query_shares(&pods, &[target("a-0")]).await;
    assert_eq!(answers["a-0"].as_ref().unwrap().version, Some(7));
    let answers = ShareSource::query_shares(&pods, &[target("a-0")]).await;
    let told = answers["a-0"].as_ref().unwrap_err().to_string();
    assert!(told.contains("404"), "{told}");
    serve.await.unwrap();
}

/// Scenario: a gateway answers with the text that the collector's test renders
/// (`collector/src/admin/dead_letters.rs`); one of an earlier release doesn't have that page.
/// Guarantee: each field is parsed, and an unreported offset is absent; the other pod gives an error.
#[tokio::test]
async fn a_gateways_dead_letters_are_listed() {
    let listener = TcpListener::bind((HOST, 0)).await.unwrap();
    let pods = HttpPods::new(listener.local_addr().unwrap().port());
    let body = concat!(
        r#"{"deadLetters":[{"bytes":640,"offset":9,"partition":1,"reason":"truncated","#,
        r#""signal":"logs","sourceOffset":42,"sourcePartition":2,"sourceTopic":"otlp_logs","#,
        r#""storedAtSeconds":1700000000,"topic":"otlp_logs_dead_letter"},{"bytes":640,"#,
        r#""offset":null,"partition":1,"reason":"truncated","signal":"logs","#,
        r#""sourceOffset":42,"sourcePartition":2,"sourceTopic":"otlp_logs","#,
        r#""storedAtSeconds":1700000000,"topic":"otlp_logs_dead_letter"}]}"#,
        "\n"
    );
    let serve = tokio::spawn(async move {
        for answer in ["200 OK", "404 Not Found"] {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = socket.read(&mut request).await.unwrap();
            assert!(request[..read].starts_with(b"GET /dead-letters HTTP/1.1"));
            let length = body.len();
            let head =
                format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: {length}");
            socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
        }
    });
    let one = DeadLetterEntry {
        signal: "logs".to_owned(),
        topic: "otlp_logs_dead_letter".to_owned(),
        partition: 1,
        offset: Some(9),
        source_topic: "otlp_logs".to_owned(),
        source_partition: 2,
        source_offset: 42,
        reason: "truncated".to_owned(),
        bytes: 640,
        stored_at_seconds: 1_700_000_000,
    };
    let answers = pods.read_dead_letters(&[target("a-0")]).await;
    let listed = &answers["a-0"].as_ref().unwrap().dead_letters;
    assert_eq!(*listed, [one.clone(), DeadLetterEntry { offset: None, ..one }]);
    let answers = pods.read_dead_letters(&[target("a-0")]).await;
    assert!(answers["a-0"].as_ref().unwrap_err().to_string().contains("404"), "{answers:?}");
    serve.await.unwrap();
}
