//! What statuses report of records that rules route to topics of other pipelines, against an API
//! server in memory.

use millrace_crds::v1alpha1::GatewayPool;
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::pipeline::Pipelines;
use millrace_operator::pods::PodSample;
use serde_json::{Value, json};

use crate::reconcilers::support::world::{World, store};

const BASE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry";
const POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const PIPELINE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrypipelines/prod";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/telemetry/deployments/prod-edge";

fn processing() -> Value {
    json!([
        {"name": "mask", "redact": {}},
        {"name": "audit", "route": {"topic": "audit-logs",
            "logs": ["log.attributes[\"audit\"] == true"]}},
        {"name": "slow", "route": {"topic": "slow-spans", "spans": ["span.name == \"slow\""]}},
    ])
}

/// A pool that routes logs and spans, with two pods that have not been asked.
async fn routing_pool() -> World {
    let world = World::new();
    let pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]},
            "signals": {"logs": {}, "traces": {}}, "processing": processing()}
    });
    world.server.put(POOL, pool);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.finish_rollouts();
    let labels = world.server.get(DEPLOYMENT).unwrap()["spec"]["selector"]["matchLabels"].clone();
    for number in [1, 2] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "collector"}]},
            "status": {"podIP": format!("10.0.0.{number}")}});
        world.server.put(&format!("/api/v1/namespaces/telemetry/pods/prod-edge-{number}"), pod);
    }
    world
}

/// Sets what a pod has routed, by step; `None` is a pod that does not answer.
fn set_routed(world: &World, pod: u32, routed: Option<&[(&str, u64)]>) {
    let sample = routed.map(|routed| PodSample {
        records_routed: routed.iter().map(|(step, count)| ((*step).to_owned(), *count)).collect(),
        ..PodSample::default()
    });
    world.set_pod(&format!("prod-edge-{pod}"), sample);
}

async fn reconcile_after(world: &World, seconds: i64) -> Value {
    world.pass(seconds);
    world.reconcile::<EdgePools>(POOL).await.unwrap();
    world.server.get(POOL).unwrap()["status"]["routes"].clone()
}

/// Returns step, signal, topic and records of each route.
fn figures(routes: &Value) -> Vec<Value> {
    let routes = routes.as_array().unwrap().iter();
    let figures = |it: &Value| json!([it["step"], it["signal"], it["topic"], it["records"]]);
    routes.map(figures).collect()
}

/// Scenario: pods of a pool with two routes don't answer, then answer, one of them about one step
/// only, then don't answer again; a step is removed. Guarantee: each route has the sum over pods,
/// unknown before the first answer and unchanged without one; nothing is written while only counts
/// of the last minute changed; a removed step is gone.
#[tokio::test]
async fn a_pool_reports_the_records_of_each_route() {
    let world = routing_pool().await;
    let routes = reconcile_after(&world, 10).await;
    let unknown = [
        json!(["audit", "Logs", "audit-logs", null]),
        json!(["slow", "Traces", "slow-spans", null]),
    ];
    assert_eq!(figures(&routes), unknown);
    set_routed(&world, 1, Some(&[("audit", 5)]));
    set_routed(&world, 2, Some(&[("audit", 2), ("gone", 9)]));
    let routes = reconcile_after(&world, 10).await;
    let counted =
        [json!(["audit", "Logs", "audit-logs", 7]), json!(["slow", "Traces", "slow-spans", 0])];
    assert_eq!(figures(&routes), counted);
    world.server.take_writes();
    set_routed(&world, 1, Some(&[("audit", 6)]));
    assert_eq!(figures(&reconcile_after(&world, 30).await), counted);
    assert_eq!(world.server.take_writes(), []);
    assert_eq!(figures(&reconcile_after(&world, 30).await)[0][3], 8);
    for pod in [1, 2] {
        set_routed(&world, pod, None);
    }
    assert_eq!(figures(&reconcile_after(&world, 600).await)[0][3], 8);
    world.server.edit(POOL, |pool| {
        pool["spec"]["processing"].as_array_mut().unwrap().remove(1);
    });
    assert_eq!(figures(&reconcile_after(&world, 10).await).len(), 1);
}

/// Another pipeline's gateway pool, or one without a pipeline, that reads this topic as logs.
fn reading_pool(name: &str, owner: Option<&str>, kafka: &str, topic: &str) -> Value {
    let owners: Vec<Value> = owner
        .iter()
        .map(|owner| {
            json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
                "name": owner, "uid": "uid", "controller": true})
        })
        .collect();
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "GatewayPool",
        "metadata": {"name": name, "namespace": "audit", "uid": name, "ownerReferences": owners},
        "spec": {"kafka": {"bootstrapServers": ["other:9092", kafka]},
            "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
            "signals": {"logs": {"topicName": topic}}},
        "status": {"lag": {"messages": 12, "seconds": 40, "withinBound": false,
            "boundSeconds": 30, "observedAt": "2026-01-01T00:00:00Z"}},
    })
}

/// Returns the routes of a pipeline whose two edge pools routed logs, while these gateway pools
/// exist; without any, none is known yet.
async fn pipeline_routes(gateways: Option<Vec<Value>>) -> Value {
    let world = World::new();
    let pipeline = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]},
            "clickhouse": {"endpoints": ["http://clickhouse:8123"]}, "signals": {"logs": {}},
            "processing": processing(), "edges": [{"name": "clients"}, {"name": "nodes"}]}
    });
    world.server.put(PIPELINE, pipeline);
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
    for topic in ["logs", "logs-dead-letter"] {
        let path = format!("{BASE}/telemetrytopics/prod-{topic}");
        world.say(&path, 0, &[("Ready", true)], json!({"partitions": 12}));
    }
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
    for (edge, records) in [("clients", json!(5)), ("nodes", json!(2))] {
        let route = json!({"step": "audit", "signal": "Logs", "topic": "audit-logs",
            "records": records, "observedAt": "2026-01-01T00:00:00Z"});
        let path = format!("{BASE}/edgepools/prod-{edge}");
        world.say(&path, 0, &[("Ready", true)], json!({"routes": [route]}));
    }
    if let Some(gateways) = gateways {
        store::<GatewayPool>(&world.context, gateways);
    }
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
    world.server.take_writes();
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
    assert_eq!(world.server.take_writes(), []);
    world.server.get(PIPELINE).unwrap()["status"]["routes"].clone()
}

/// Scenario: two edge pools of a pipeline route logs to a topic that another pipeline's gateways
/// read, or a pool without a pipeline. Guarantee: the status has the sum of the records, the reader
/// and its lag; a converged reconcile writes nothing.
#[tokio::test]
async fn a_pipeline_reports_the_lag_of_whoever_reads_a_routed_topic() {
    let reader = reading_pool("audit", Some("audit"), "kafka:9092", "audit-logs");
    let other = reading_pool("a", Some("a"), "kafka:9092", "debug-logs");
    let routes = pipeline_routes(Some(vec![reader, other])).await;
    assert_eq!(figures(&routes), [json!(["audit", "Logs", "audit-logs", 7])]);
    let route = &routes[0];
    let owner = json!({"kind": "TelemetryPipeline", "namespace": "audit", "name": "audit"});
    assert_eq!(route["consumer"], owner);
    assert_eq!((&route["lag"]["messages"], &route["lag"]["seconds"]), (&json!(12), &json!(40)));
    assert!(route["message"].is_null(), "{route}");
    let alone = reading_pool("alone", None, "kafka:9092", "audit-logs");
    let routes = pipeline_routes(Some(vec![alone])).await;
    assert_eq!(routes[0]["consumer"]["kind"], "GatewayPool");
}

/// Scenario: a routed topic that nobody reads, or only a pool of another Kafka cluster; and an
/// operator that doesn't know all pools yet. Guarantee: a message that nobody reads it, but no
/// claim about what isn't known.
#[tokio::test]
async fn a_topic_that_nobody_reads_is_reported() {
    let elsewhere = reading_pool("audit", Some("audit"), "another:9092", "audit-logs");
    for gateways in [vec![], vec![elsewhere]] {
        let routes = pipeline_routes(Some(gateways)).await;
        let message = routes[0]["message"].as_str().unwrap();
        assert!(message.starts_with("no GatewayPool"), "{message}");
        assert!(routes[0]["consumer"].is_null() && routes[0]["lag"].is_null());
    }
    let routes = pipeline_routes(None).await;
    assert!(routes[0]["message"].is_null() && routes[0]["consumer"].is_null(), "{routes}");
}
