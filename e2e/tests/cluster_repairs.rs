//! What the operator finds wrong outside Kubernetes and mends: a topic with too few partitions, a
//! table without one of its columns. Each is told by an event with a stable reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;

/// The operator looks at tables and topics once a minute; twice that is late.
const LOOK_LIMIT: Duration = Duration::from_secs(120);

/// Scenario: the topic has fewer partitions than the spec asks for now. Guarantee: an event
/// TopicTooFewPartitions, the topic grows, Ready again.
#[test]
fn a_topic_with_too_few_partitions_is_told_and_grown() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let mut pipeline = Pipeline::apply(&stack, &cluster, "grow", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    pipeline.change(|wish| wish.partitions = 6).unwrap();
    cluster.expect_event(&pipeline.namespace.name, "TopicTooFewPartitions", LOOK_LIMIT).unwrap();
    pipeline.ready().unwrap();
    let topic = cluster.get(&pipeline.namespace.name, "telemetrytopic", "p-traces").unwrap();
    assert_eq!(topic["status"]["partitions"], 6, "{}", topic["status"]);
}

/// Scenario: somebody drops a column. Guarantee: an event TableColumnMissing within the operator's
/// next look, the column is put back, Ready again, and rows flow.
#[test]
fn a_table_without_a_column_is_told_and_mended() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let pipeline = Pipeline::apply(&stack, &cluster, "column", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    pipeline.query(&stack, "ALTER TABLE DATABASE.otel_traces DROP COLUMN StatusMessage").unwrap();
    cluster.expect_event(&pipeline.namespace.name, "TableColumnMissing", LOOK_LIMIT).unwrap();
    wait::until("the column to be back", Duration::from_secs(30), || {
        pipeline.query(&stack, "SELECT count(StatusMessage) FROM DATABASE.otel_traces")
    })
    .unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 51, 20_000, None).unwrap();
    let verdict = load.run(folder.path(), Duration::from_secs(120)).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
}
