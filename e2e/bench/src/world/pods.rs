//! The pods of a large cluster for a collector that adds their metadata: an API server, and an
//! account at it.
//!
//! One pod has the address from which loads are sent. The server lives in the harness, so its work
//! doesn't count; it writes pods as it sends them and stores none.

use std::net::Ipv4Addr;

use anyhow::Result;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use crate::world::account::Account;

/// The pods of the cluster.
pub(crate) const PODS: u32 = 10_000;
/// The bytes of a pod that the collector doesn't read: pods have some 6 KB.
const UNREAD_BYTES: usize = 5_000;

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct PodsServer {
    account: Account,
    _runtime: Runtime,
}

impl PodsServer {
    /// Listens on a free loopback port.
    pub(crate) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("pods")
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let account = Account::new(listener.local_addr()?)?;
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(send_pods(stream));
            }
        });
        Ok(Self { account, _runtime: runtime })
    }

    /// The account of the collector.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }
}

/// Answers a watch with all pods and a bookmark, and holds it.
async fn send_pods(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    let unread = "x".repeat(UNREAD_BYTES);
    let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}});
    for event in (0..PODS).map(|pod| pod_event(pod, &unread)).chain([format!("{bookmark}\n")]) {
        stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await?;
    }
    std::future::pending().await
}

fn pod_event(pod: u32, unread: &str) -> String {
    let address = match pod {
        0 => Ipv4Addr::LOCALHOST,
        _ => Ipv4Addr::from((10 << 24) + pod),
    };
    let object = json!({
        "metadata": {
            "name": format!("checkout-6f7c9d8b5d-{pod:05}"), "namespace": format!("team-{}", pod % 50),
            "uid": format!("{pod:08x}-0000-4000-8000-{pod:012x}"),
            "resourceVersion": "5",
            "labels": {"app.kubernetes.io/name": "checkout", "app.kubernetes.io/version": "1.24.7",
                       "app.kubernetes.io/component": "backend", "app.kubernetes.io/part-of": "shop",
                       "pod-template-hash": "6f7c9d8b5d"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                                 "name": "checkout-6f7c9d8b5d", "controller": true}],
            "managedFields": [{"manager": unread}],
        },
        "spec": {"nodeName": format!("node-{}.region-1.example.com", pod % 500),
                 "containers": [{"image": "registry.example.com/shop/checkout:1.24.7"}]},
        "status": {"phase": "Running", "podIP": address.to_string()},
    });
    format!("{}\n", json!({"type": "ADDED", "object": object}))
}
