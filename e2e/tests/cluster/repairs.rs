//! What the operator finds wrong outside Kubernetes and mends: a topic with too few partitions, a
//! table without one of its columns. Each is told by an event with a stable reason. And what it
//! takes away only once no gateway needs it.

use std::time::Duration;

use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

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

/// The tables of the pipeline's database for logs, of which somebody reads one attribute often.
fn logs_schema(pipeline: &Pipeline<'_>, materialized: &Value, consent: &[String]) -> String {
    let mut logs = json!({"ttl": "30d"});
    if materialized.as_array().is_some_and(|columns| !columns.is_empty()) {
        logs["layout"] = json!({"materialized": materialized});
    }
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": "TelemetrySchema",
        "metadata": {"name": "logs"},
        "spec": {
            "clickhouse": {
                "endpoints": [pipeline.clickhouse()],
                "database": pipeline.database(),
                "authentication": {"type": "Password", "usernameSecret": {"name": "clickhouse-user", "key": "username"},
 "passwordSecret": {"name": "clickhouse-user", "key": "password"}},
            },
            "signals": {"logs": logs},
            "consent": consent,
        },
    })
    .to_string()
}

/// Scenario: a column is no longer declared, and its drop agreed to, while the gateway pool of the
/// same tables is pinned to an older collector; then the pin goes. Guarantee: the drop waits under
/// its own reason, with the pool's name, and the column stays; once every gateway runs this release
/// the column goes.
#[test]
fn a_column_goes_once_no_older_collector_is_left() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let mut pipeline = Pipeline::apply(&stack, &cluster, "contract", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.clone();
    let declared = json!([{"name": "Route", "from": "Record", "path": "http.route", "type": "LowCardinalityString"}]);
    cluster.apply(&namespace, &logs_schema(&pipeline, &declared, &[])).unwrap();
    let schema = (&*namespace, "telemetryschema", "logs");
    cluster.wait_for(schema, ("Ready", "True", ""), LOOK_LIMIT).unwrap();
    let columns = |pipeline: &Pipeline<'_>| -> anyhow::Result<String> {
        let found = pipeline.query(
            &stack,
            "SELECT count() FROM system.columns \
             WHERE database = 'DATABASE' AND table = 'otel_logs' AND name = 'Route'",
        )?;
        Ok(found.trim().to_owned())
    };
    assert_eq!(columns(&pipeline).unwrap(), "1");

    pipeline.change(|wish| wish.version = Some("0.0.1")).unwrap();
    wait::until("the pin to reach the pool", LOOK_LIMIT, || {
        let pool = cluster.get(&namespace, "gatewaypool", "p")?;
        anyhow::ensure!(pool["spec"]["collector"]["version"] == "0.0.1", "{}", pool["spec"]);
        Ok(())
    })
    .unwrap();
    let consent = [format!("{}.otel_logs.Route", pipeline.database())];
    cluster.apply(&namespace, &logs_schema(&pipeline, &json!([]), &consent)).unwrap();
    let held = cluster.wait_for(schema, ("Applied", "False", "CollectorsOutdated"), LOOK_LIMIT);
    assert!(held.unwrap().message.contains("GatewayPool p"), "the message names the pool");
    assert_eq!(columns(&pipeline).unwrap(), "1");

    pipeline.change(|wish| wish.version = None).unwrap();
    pipeline.ready().unwrap();
    wait::until("the column to go", LOOK_LIMIT, || {
        let found = columns(&pipeline)?;
        anyhow::ensure!(found == "0", "it is still there");
        Ok(())
    })
    .unwrap();
    cluster.wait_for(schema, ("Applied", "True", ""), LOOK_LIMIT).unwrap();
}
