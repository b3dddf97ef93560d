//! Rules of pipelines and pools: what pods get, and what is refused.

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::pipeline::Pipelines;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const PIPELINE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrypipelines/prod";

fn pool(processing: &Value) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"logs": {}},
            "processing": processing}
    })
}

/// Scenario: a pool with each kind of step, one with a Secret's key. Guarantee: the collector's
/// settings have the steps in order, and the key as a file that is mounted.
#[tokio::test]
async fn pods_get_the_rules_and_the_key_of_hashes() {
    let world = World::new();
    let steps = json!([
        {"name": "team", "statements": ["set(log.attributes[\"team\"], \"web\")"]},
        {"name": "noise", "drop": {"logs": ["log.severity_number < SEVERITY_NUMBER_INFO"]}},
        {"name": "secrets", "redact": {"action": {"hash": {}},
            "hashKeySecret": {"name": "hashes", "key": "key"}}},
        {"name": "share", "sample": {"ratio": 0.5}},
    ]);
    world.server.put(POOL, pool(&steps));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {},
        "data": {"key": "MDEyMzQ1Njc4OWFiY2RlZg=="}});
    world.server.put("/api/v1/namespaces/telemetry/secrets/hashes", secret);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    let settings: Value = serde_norway::from_str(&world.settings_text()).unwrap();
    let names: Vec<_> = settings["processing"].as_array().unwrap().iter().collect();
    let names: Vec<_> = names.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["team", "noise", "secrets", "share"]);
    let file = settings["processing"][2]["redact"]["hashKeyFile"].as_str().unwrap();
    assert_eq!(file, "/etc/millrace/secrets/hashes/key");
}

/// Scenario: a statement with a misspelled editor. Guarantee: SpecInvalid with step, line, column and
/// the nearest name, and no pod.
#[tokio::test]
async fn rules_that_do_not_compile_are_refused_with_their_position() {
    let world = World::new();
    let steps = json!([{"name": "team", "statements": ["sett(log.attributes[\"team\"], 1)"]}]);
    world.server.put(POOL, pool(&steps));
    let _ = world.reconcile::<EdgePools>(POOL).await;
    assert_eq!(world.condition(POOL, "Ready").unwrap().1, "SpecInvalid");
    let status = world.server.get(POOL).unwrap()["status"].to_string();
    let expected = "spec.processing: step \\\\\\\"team\\\\\\\", statements[0], line 1, column 1: ";
    let expected = expected.replace("\\\\\\\"", "\\\"");
    assert!(status.contains(&expected), "{status}");
    assert!(status.contains("did you mean"), "{status}");
}

/// Scenario: a pipeline with a step, and a pool with one of the same name. Guarantee: SpecInvalid
/// with the pool and the step.
#[tokio::test]
async fn a_step_of_a_pool_needs_a_name_of_its_own() {
    let world = World::new();
    let pipeline = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]},
            "clickhouse": {"endpoints": ["http://clickhouse:8123"]}, "signals": {"logs": {}},
            "processing": [{"name": "mask", "redact": {}}],
            "edges": [{"name": "clients", "processing": [{"name": "mask", "redact": {}}]}]}
    });
    world.server.put(PIPELINE, pipeline);
    let _ = world.reconcile::<Pipelines>(PIPELINE).await;
    assert_eq!(world.condition(PIPELINE, "Ready").unwrap().1, "SpecInvalid");
    let status = world.server.get(PIPELINE).unwrap()["status"].to_string();
    assert!(status.contains("spec.edges[clients].processing: step"), "{status}");
}
