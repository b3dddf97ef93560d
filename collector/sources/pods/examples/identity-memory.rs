//! Measures the table of pods for clients' records: its memory, the time of a list, and a lookup.
//!
//! `cargo run --release -p millrace-pods --example identity-memory -- [PODS]`
//!
//! A server in this process writes complete pods of some 6 KB each as it sends them, so that it
//! stores none. Memory is the growth of the process, and what the table accounts for.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{ApiEndpoint, WatchedPods, start_pods};
use millrace_processing::enrich::{FindPod, PodKey, PodMetadataConfig};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// The lookups that are measured.
const LOOKUPS: u32 = 1_000_000;

/// The bytes of a pod that the collector doesn't read.
const UNREAD_BYTES: usize = 5_000;

/// Far above what the table may take.
const BUDGET_BYTES: u64 = 4 << 30;

fn address(pod: u32) -> Ipv4Addr {
    Ipv4Addr::from((10 << 24) + pod)
}

fn event(pod: u32, unread: &str) -> String {
    let name = format!("checkout-service-6f7c9d8b5d-{pod:05}");
    let object = json!({
        "metadata": {
            "name": name, "namespace": format!("team-{}", pod % 50),
            "uid": format!("{:08x}-0000-4000-8000-{:012x}", pod, pod),
            "resourceVersion": pod.to_string(),
            "labels": {"app.kubernetes.io/name": "checkout-service",
                       "app.kubernetes.io/version": "1.24.7",
                       "app.kubernetes.io/component": "backend",
                       "app.kubernetes.io/part-of": "shop", "pod-template-hash": "6f7c9d8b5d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                                 "name": "checkout-service-6f7c9d8b5d", "controller": true}],
            "managedFields": [{"manager": unread}],
        },
        "spec": {"nodeName": format!("node-{}.region-1.example.com", pod % 500),
                 "containers": [{"image": "registry.example.com/shop/checkout:1.24.7"}]},
        "status": {"phase": "Running", "podIP": address(pod).to_string()},
    });
    format!("{}\n", json!({"type": "ADDED", "object": object}))
}

async fn serve(listener: TcpListener, pods: u32) {
    let unread = "x".repeat(UNREAD_BYTES);
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let start = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(start).await.unwrap();
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    let events = (0..pods).map(|pod| event(pod, &unread)).chain([format!("{bookmark}\n")]);
    for event in events {
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    std::future::pending::<()>().await;
}

/// Returns the resident memory of the process, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn main() {
    let pods: u32 = std::env::args().nth(1).map_or(10_000, |text| text.parse().unwrap());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(measure(pods));
    runtime.shutdown_timeout(Duration::ZERO);
}

async fn measure(pods: u32) {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "token").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let budget = Budget::new(BUDGET_BYTES);
    let telemetry = Telemetry::new(budget.clone(), "0", "system").unwrap();
    let labels = vec!["app.kubernetes.io/*".to_owned()];
    let identities = Some(PodMetadataConfig { labels, ..PodMetadataConfig::default() });
    let watched = WatchedPods { node: String::new(), logs: None, identities };
    tokio::spawn(serve(listener, pods));
    let endpoint = ApiEndpoint { url, token_file, ca_file: None };
    let (before, start) = (resident_bytes(), Instant::now());
    let table = start_pods(endpoint, watched, &budget, &telemetry).unwrap().identities.unwrap();
    let last = PodKey::Address(IpAddr::V4(address(pods - 1)));
    while table.find_pod(last).is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let listed = start.elapsed();
    // The last metric of the list follows its bookmark.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = resident_bytes().saturating_sub(before);
    let metrics = telemetry.render().unwrap();
    let name = "millrace_pods_table_bytes ";
    let counted: f64 =
        metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap();
    let nanos = measure_lookups(&*table, pods);
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    println!(
        "{pods} pods: {:.1} MiB resident, {:.1} MiB counted, list {:.2} s, lookup {nanos:.0} ns",
        mib(grown as f64),
        mib(counted),
        listed.as_secs_f64(),
    );
}

fn measure_lookups(table: &dyn FindPod, pods: u32) -> f64 {
    let start = Instant::now();
    for lookup in 0..LOOKUPS {
        // A stride that meets all pods in another order.
        let pod = lookup.wrapping_mul(7_919) % pods;
        assert!(table.find_pod(PodKey::Address(IpAddr::V4(address(pod)))).is_ok());
    }
    start.elapsed().as_nanos() as f64 / f64::from(LOOKUPS)
}
