//! The kernel's log of a real node: a record that a program writes to the device comes into
//! ClickHouse by an edge pool on the node.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::json;

/// Of the machine, whose kernel is the node's.
const DEVICE: &str = "/dev/kmsg";
/// For a record to be stored once it is written.
const LIMIT: Duration = Duration::from_secs(60);

/// Scenario: a pool reads its node's kernel log, and a program writes a warning to the device.
/// Guarantee: it is in the table, as what it is, with its node, and once: its id is no other
/// record's.
#[test]
fn a_record_of_a_nodes_kernel_comes_into_the_table() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let kernels = json!({"name": "kernels", "mode": "DaemonSet", "receivers": {"kernel": {}}});
    let wish = Wish {
        signal: "logs",
        level: "privileged",
        edges: Some(json!([kernels])),
        gateways: Some(1),
        ..Wish::usual(&stack)
    };
    let pipeline = Pipeline::apply(&stack, &cluster, "kernel", wish).unwrap();
    pipeline.ready().unwrap();
    // The namespace's name is of this run alone. 12 is a warning (4) of a program (8).
    let body = format!("millrace: {}", pipeline.namespace.name);
    std::fs::write(DEVICE, format!("<12>{body}\n")).unwrap();
    let sql = format!(
        "SELECT count(), uniqExact(LogAttributes['log.record.uid']), \
         any(SeverityText), any(LogAttributes['syslog.facility']), \
         any(ResourceAttributes['k8s.node.name']) \
         FROM DATABASE.otel_logs WHERE Body = '{body}'"
    );
    let stored = wait::until("the kernel's record to be stored", LIMIT, || {
        let text = pipeline.query(&stack, &sql)?;
        ensure!(!text.starts_with("0\t"), "no such record");
        Ok(text)
    })
    .unwrap();
    let pods = cluster.edge_pods(&pipeline.namespace.name, "p-kernels").unwrap();
    let node = pods[0]["spec"]["nodeName"].as_str().unwrap();
    let expected = ["1", "1", "warning", "user", node];
    assert_eq!(stored.split_whitespace().collect::<Vec<_>>(), expected);
    let status = wait::until("the pool to say that its node is read", LIMIT, || {
        let status =
            cluster.get(&pipeline.namespace.name, "edgepool", "p-kernels")?["status"].clone();
        ensure!(status["nodes"]["reading"] == 1, "{status}");
        Ok(status) as Result<_>
    });
    status.unwrap();
}
