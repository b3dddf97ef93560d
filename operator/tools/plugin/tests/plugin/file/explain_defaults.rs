//! Tests of `explain-defaults`.

use std::collections::BTreeSet;
use std::io::Write;

use serde_json::json;
use tempfile::NamedTempFile;

use crate::plugin::support::{Server, golden};
use crate::plugin::writes::healthy;

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    write!(file, "apiVersion: v1\nkind: Namespace\nmetadata: {{name: obs}}\n---\n{text}").unwrap();
    file
}

/// Scenario: a gateway pool in a file. Guarantee: each field of its reference is listed once, with
/// the written value or the documented default, marked; the cluster is not asked.
#[tokio::test]
async fn each_field_has_its_value_or_its_default() {
    let server = Server::default();
    let file = file(
        "apiVersion: millrace.dev/v1alpha1\nkind: GatewayPool\nmetadata: {name: prod, namespace: \
         obs}\nspec:\n  kafka: {bootstrapServers: [kafka:9092]}\n  clickhouse: {endpoints: \
         [http://db:8123]}\n  signals: {traces: {}}\n  resources: {limits: {memory: 2Gi}}\n  \
         batch: {maxRows: 300000}\n",
    );
    let line = ["explain-defaults", "-f", file.path().to_str().unwrap()];
    let answer = server.run(&line).await.unwrap();
    golden("explain-defaults.txt", &answer.text);
    assert!(server.asked().is_empty());
    let fields = answer.json["fields"].as_array().unwrap();
    let paths: BTreeSet<_> = fields.iter().map(|it| it["path"].as_str().unwrap()).collect();
    assert_eq!(paths.len(), fields.len());
    let at = |path: &str| fields.iter().find(|it| it["path"] == path).unwrap();
    assert_eq!(at("batch.maxRows")["value"], json!(300_000));
    assert_eq!(at("batch.maxBytes")["default"], "48Mi");
    assert!(at("batch.maxBytes")["value"].is_null());
    assert_eq!(at("resources.limits.memory")["value"], "2Gi");
    assert_eq!(at("scaling.maxReplicas")["default"], "12");
    assert_eq!(at("delivery")["default"], "EffectivelyOnce");
    assert_eq!(at("consumerGroup")["default"], "millrace.obs.prod");
}

/// Scenario: a pipeline whose signals share settings. Guarantee: each signal shows its value, and
/// whether it is from the signals' defaults; the defaults are not listed again.
#[tokio::test(start_paused = true)]
async fn a_signals_value_from_the_defaults_is_marked() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["spec"]["signals"] = json!({
            "defaults": {"topic": {"partitions": 24, "retention": "6h"}},
            "traces": {"topic": {"partitions": 48}}, "logs": {},
        });
    });
    let answer = server.run(&["explain-defaults", "prod"]).await.unwrap();
    let fields = answer.json["fields"].as_array().unwrap();
    let at = |path: &str| fields.iter().find(|it| it["path"] == path).unwrap();
    assert_eq!(at("signals.logs.topic.partitions")["value"], 24);
    assert_eq!(at("signals.logs.topic.partitions")["inherited"], true);
    assert_eq!(at("signals.traces.topic.partitions")["value"], 48);
    assert!(at("signals.traces.topic.partitions")["inherited"].is_null());
    assert!(at("signals.traces.topic.replicationFactor")["inherited"].is_null());
    assert!(fields.iter().all(|it| !it["path"].as_str().unwrap().contains("signals.defaults")));
    assert_eq!(answer.text.matches("# signals.defaults").count(), 3, "{}", answer.text);
}

/// Scenario: a pipeline of the cluster that lists no edge pools; a file without an object of
/// Millrace. Guarantee: the default pool is shown as a default; the error names the file.
#[tokio::test(start_paused = true)]
async fn a_pipelines_default_edge_pool_is_shown() {
    let server = healthy();
    server.edit("TelemetryPipeline", "prod", |pipeline| {
        pipeline["spec"].as_object_mut().unwrap().remove("edges");
    });
    let answer = server.run(&["explain-defaults", "prod"]).await.unwrap();
    let fields = answer.json["fields"].as_array().unwrap();
    let at = |path: &str| fields.iter().find(|it| it["path"] == path).unwrap();
    assert_eq!(at("edges[clients].name")["default"], "clients");
    assert!(at("edges[clients].name")["value"].is_null());
    assert_eq!(at("edges[clients].mode")["default"], "Deployment");
    let path = file("kind: Other\n");
    let line = ["explain-defaults", "-f", path.path().to_str().unwrap()];
    let error = server.run(&line).await.unwrap_err().to_string();
    assert!(error.contains("it has no object of millrace.dev"), "{error}");
}
