//! The pipeline of the tests: obs/prod with traces and logs, two edge pods, two gateways.

use serde_json::{Value, json};

use crate::plugin::support::{NAMESPACE, Server};

const KAFKA: &str = "kafka.data:9092";
const IMAGE: &str = "registry.example/millrace/collector:0.1.0-system";

/// Returns a server with the healthy pipeline; each signal gets a thousand records a second.
pub(crate) fn healthy() -> Server {
    let server = Server::default();
    server.put(pipeline());
    for (name, topic, partitions) in [
        ("prod-logs", "otlp_logs", 12),
        ("prod-logs-dead-letter", "otlp_logs_dead_letter", 1),
        ("prod-traces", "otlp_traces", 12),
        ("prod-traces-dead-letter", "otlp_traces_dead_letter", 1),
    ] {
        let status = json!({"topicName": topic, "partitions": partitions, "replicationFactor": 3});
        let spec = json!({"kafka": {"bootstrapServers": [KAFKA]}, "topicName": topic});
        server.put(child("TelemetryTopic", name, spec, status, &["TopicReady"]));
    }
    let spec = json!({"clickhouse": {"endpoints": ["http://ch.data:8123"]},
                      "signals": {"traces": {}, "logs": {}}});
    let status = json!({"database": "otel", "revision": "324eddb85d3a"});
    server.put(child("TelemetrySchema", "prod", spec, status, &["SchemaReady"]));
    let spec =
        json!({"kafka": {"bootstrapServers": [KAFKA]}, "signals": {"traces": {}, "logs": {}}});
    let status = json!({"replicas": 2, "readyReplicas": 2, "pods": "2/2", "image": IMAGE,
                        "endpoint": "prod-clients-edge.obs.svc:4317"});
    server.put(child("EdgePool", "prod-clients", spec, status, &["PodsReady"]));
    server.put(gateway());
    for (at, node) in [(0, "node-a"), (1, "node-b")] {
        let edge = format!("prod-clients-edge-7d9f-{at}");
        server.put(pod(&edge, "prod-clients", "edge", node));
        server.metrics(&edge, &[edge_text(0), edge_text(1)]);
        let name = format!("prod-gateway-{at}");
        server.put(pod(&name, "prod", "gateway", node));
        server.metrics(&name, &[gateway_text(at, 0, 4), gateway_text(at, 1, 2)]);
        server.log(&name, "{\"level\":\"INFO\",\"message\":\"ready\"}\n");
        server.log(&edge, "{\"level\":\"INFO\",\"message\":\"ready\"}\n");
    }
    server
}

/// The pipeline itself.
pub(crate) fn pipeline() -> Value {
    let status = json!({
        "observedGeneration": 3,
        "conditions": good(&["Ready", "TopicsReady", "SchemaReady", "EdgeReady", "GatewayReady",
                             "LagWithinBound"]),
        "lag": {"messages": 12, "seconds": 1, "withinBound": true, "boundSeconds": 60,
                "observedAt": "2026-11-26T11:59:55Z"},
        "pods": "4/4",
        "edges": [{"name": "clients", "desired": 2, "ready": 2,
                   "endpoint": "prod-clients-edge.obs.svc:4317"}],
        "schemaRevision": "324eddb85d3a",
    });
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": "TelemetryPipeline",
        "metadata": {"name": "prod", "namespace": NAMESPACE, "generation": 3, "uid": "uid-prod"},
        "spec": {
            "kafka": {"bootstrapServers": [KAFKA]},
            "clickhouse": {"endpoints": ["http://ch.data:8123"]},
            "signals": {"traces": {"topic": {"partitions": 12}}, "logs": {}},
            "edges": [{"name": "clients"}],
            "gateway": {"scaling": {"minReplicas": 1, "maxReplicas": 6}},
        },
        "status": status,
    })
}

/// Returns a child of the pipeline, with good conditions.
pub(crate) fn child(
    kind: &str,
    name: &str,
    spec: Value,
    mut status: Value,
    conditions: &[&str],
) -> Value {
    status["observedGeneration"] = json!(3);
    status["conditions"] = good(&[conditions, &["Ready"]].concat());
    json!({
        "apiVersion": "millrace.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name, "namespace": NAMESPACE, "generation": 3, "annotations": {},
            "labels": {"app.kubernetes.io/component": "pipeline",
                       "app.kubernetes.io/instance": "prod"},
            "ownerReferences": [{"apiVersion": "millrace.dev/v1alpha1", "uid": "uid-prod",
                                 "kind": "TelemetryPipeline", "name": "prod"}],
        },
        "spec": spec,
        "status": status,
    })
}

fn gateway() -> Value {
    let spec = json!({
        "kafka": {"bootstrapServers": [KAFKA]},
        "clickhouse": {"endpoints": ["http://ch.data:8123"]},
        "signals": {"traces": {}, "logs": {}},
        "scaling": {"minReplicas": 1, "maxReplicas": 6},
        "replicas": 2,
    });
    let status = json!({
        "replicas": 2, "readyReplicas": 2, "pods": "2/2", "image": IMAGE,
        "lag": {"messages": 12, "seconds": 1, "withinBound": true, "boundSeconds": 60,
                "observedAt": "2026-11-26T11:59:55Z"},
        "sizing": sizing(),
    });
    let mut pool = child("GatewayPool", "prod", spec, status, &["PodsReady", "LagWithinBound"]);
    pool["metadata"]["managedFields"] = json!([{
        "manager": "millrace-operator/scale", "operation": "Apply", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    }]);
    pool
}

fn sizing() -> Value {
    json!({
        "replicas": 2, "proposedReplicas": 3, "reason": "HoldWindow", "decidedAt": "2026-11-26T11:59:50Z",
        "message": "a change is due once its window has passed (arrivals 800/s, backlog 5400 \
                    messages, needed 1310/s, capacity of a pod 520/s)",
        "earliestChangeAt": "2026-11-26T12:01:20Z", "partitions": 24,
        "changedAt": "2026-11-26T10:00:00Z", "changedFrom": 1,
        "signals": {"pods": 2, "podsReporting": 2, "memoryPercent": 41, "cpuPercent": 93,
                    "insertsRejectedPercent": 0},
        "terms": {"arrivalPerSecond": 800, "expectedPerSecond": 950, "backlogMessages": 5400,
                  "backlogPerSecond": 18, "rebalancePerSecond": 40, "neededPerSecond": 1310,
                  "capacityPerSecond": 520, "capacityMeasured": true, "hottestPerSecond": 90,
                  "sizeNeeded": 3},
    })
}

fn pod(name: &str, pool: &str, role: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
            "app.kubernetes.io/name": "millrace-collector",
            "app.kubernetes.io/managed-by": "millrace-operator",
            "app.kubernetes.io/component": role,
            "app.kubernetes.io/instance": pool,
        }},
        "spec": {"nodeName": node, "containers": [{
            "name": "collector", "image": IMAGE,
            "resources": {"limits": {"memory": "512Mi", "cpu": "1"}},
        }]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "collector", "image": IMAGE, "imageID": "",
                                   "ready": true, "restartCount": 0}],
        },
    })
}

/// Returns good conditions that are an hour old.
pub(crate) fn good(types: &[&str]) -> Value {
    types
        .iter()
        .map(|type_| condition(type_, "True", "Reconciled", "all resources match the spec"))
        .collect()
}

/// One condition.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-11-26T11:00:00Z", "observedGeneration": 3})
}

/// Replaces a condition of an object.
pub(crate) fn set(object: &mut Value, new: Value) {
    let conditions = object["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|old| old["type"] != new["type"]);
    conditions.push(new);
}

/// Returns an edge pod's metrics, three seconds later with each number: 500 records a second and
/// signal.
fn edge_text(at: u64) -> String {
    let records = 1_000_000 + at * 1_500;
    let mut text = common(at, 0.9);
    for signal in ["logs", "traces"] {
        text.push_str(&format!(
            "millrace_records_in_total{{signal=\"{signal}\"}} {records}\n\
             millrace_records_out_total{{signal=\"{signal}\"}} {}\n\
             millrace_records_in_flight{{signal=\"{signal}\"}} 40\n",
            records - 60
        ));
    }
    text.push_str("millrace_records_refused_total{signal=\"logs\",reason=\"malformed\"} 7\n");
    text
}

/// Returns a gateway's metrics; `behind` messages wait in each of its partitions.
fn gateway_text(pod: i32, at: u64, behind: u64) -> String {
    let records = 900_000 + at * 1_500;
    let mut text = common(at, 2.1);
    for signal in ["logs", "traces"] {
        text.push_str(&format!(
            "millrace_records_in_total{{signal=\"{signal}\"}} {records}\n\
             millrace_records_out_total{{signal=\"{signal}\"}} {}\n\
             millrace_records_in_flight{{signal=\"{signal}\"}} 120\n",
            records - 120
        ));
        for partition in [pod, pod + 2] {
            let labels = format!("{{topic=\"otlp_{signal}\",partition=\"{partition}\"}}");
            text.push_str(&format!(
                "millrace_consumer_lag_messages{labels} {behind}\n\
                 millrace_consumer_lag_seconds{labels} 1.2\n"
            ));
        }
    }
    text
}

fn common(at: u64, cpu: f64) -> String {
    format!(
        "millrace_build_info{{version=\"0.1.0\",allocator=\"system\"}} 1\n\
         millrace_budget_bytes 268435456\n\
         millrace_bytes_in_flight 13421772\n\
         process_start_time_seconds 1790000000\n\
         process_cpu_seconds_total {}\n\
         process_resident_memory_bytes 88080384\n",
        100.0 + at as f64 * cpu
    )
}
