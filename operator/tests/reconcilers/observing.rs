//! What an object says while the API server doesn't let its operator look: one rule for all kinds.

use kube::runtime::controller::Action;
use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::controllers::schema::Schemas;
use millrace_operator::controllers::topic::Topics;
use millrace_operator::error::StepError;
use millrace_operator::reconcile::controller::Reconciler;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL, gateway_pool};

const EDGE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const TOPIC: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrytopics/prod-traces";
const SCHEMA: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetryschemas/prod";
const USER: &str = "/api/v1/namespaces/telemetry/secrets/kafka-user";

fn kafka() -> Value {
    json!({
           "bootstrapServers": ["kafka:9093"],
           "authentication": {"type": "ScramSha512", "usernameSecret": {"name": "kafka-user", "key": "username"},
    "passwordSecret": {"name": "kafka-user", "key": "password"}},
       })
}

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "millrace.dev/v1alpha1", "kind": kind, "metadata": {}, "spec": spec})
}

/// A pool at `path` that was ready before.
async fn ready<R: Reconciler>(path: &str, pool: Value) -> World {
    let world = World::new();
    let encode = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    let data = json!({"username": encode("edge"), "password": encode("hunter2")});
    world.server.put(
        USER,
        json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {}, "data": data}),
    );
    world.server.put(path, pool);
    for _ in 0..4 {
        world.reconcile::<R>(path).await.unwrap();
        world.finish_rollouts();
    }
    assert!(world.is_ready(path), "{:?}", world.condition(path, "Ready"));
    world.server.take_writes();
    world.server.take_event_reasons();
    world
}

/// One look while reads of paths that hold `what` are answered with `code`.
async fn look<R: Reconciler>(
    world: &World,
    path: &str,
    what: &'static str,
    code: u16,
) -> Result<Action, StepError> {
    world.server.set_fault(Some(Box::new(move |method, path| {
        (*method == http::Method::GET && path.contains(what)).then_some(code)
    })));
    let outcome = world.reconcile::<R>(path).await;
    world.server.set_fault(None);
    outcome
}

fn says(world: &World, path: &str, types: &[&str]) -> Vec<String> {
    let one = |type_: &&str| world.condition(path, type_).map_or("nothing".into(), |told| told.0);
    types.iter().map(one).collect()
}

/// The rule, for a pool whose reads of `what` fail.
async fn check<R: Reconciler>(path: &str, pool: Value, what: &'static str) {
    let types = ["Ready", "PodsReady", "SecretsFound", "Progressing", "Stalled"];
    for (code, stalled) in [(503, false), (429, false), (403, true), (422, true)] {
        let world = ready::<R>(path, pool.clone()).await;
        let before = world.server.get(path).unwrap()["status"].clone();
        // By then a gateway pool at rest reads its Secrets again.
        world.pass(300);
        look::<R>(&world, path, what, code).await.unwrap_err();
        let now = if stalled { "True" } else { "False" };
        let told = says(&world, path, &types);
        assert_eq!(told, ["Unknown", "True", "True", "False", now], "{code} of {what}");
        let status = world.server.get(path).unwrap()["status"].clone();
        for field in ["replicas", "pods", "image", "selector"] {
            assert_eq!(status[field], before[field], "{field}");
        }
        assert_eq!(status["observedGeneration"], 1);
        let conditions = status["conditions"].as_array().unwrap().iter();
        let ready = conditions.clone().find(|it| it["type"] == "Ready").unwrap();
        assert_eq!(ready["reason"], "ApiServerFailed");
        let message = ready["message"].as_str().unwrap();
        let what_failed = what.trim_matches('/').trim_end_matches('s');
        assert!(message.to_lowercase().contains(what_failed), "{message}");
        assert_eq!(message.contains("role"), code == 403, "{message}");
        assert_eq!(world.server.take_event_reasons(), ["ApiServerFailed"]);
        // The same again says nothing more.
        world.server.take_writes();
        look::<R>(&world, path, what, code).await.unwrap_err();
        assert_eq!(world.server.take_writes(), []);
        world.reconcile::<R>(path).await.unwrap();
        let told = says(&world, path, &types);
        assert_eq!(told, ["True", "True", "True", "False", "False"], "{code} is over");
    }
}

/// Scenario: the API server fails, is busy, forbids or refuses to answer what a ready edge pool's
/// observe step asks. Guarantee: Ready is unknown, with the reason, and what is known otherwise
/// stays; what is refused for good is stalled, a missing role says what to do; told once, and over
/// with the trouble.
#[tokio::test]
async fn an_edge_pool_that_can_not_be_looked_at_is_unknown() {
    let spec = json!({"kafka": kafka(), "signals": {"traces": {}}, "replicas": 3});
    check::<EdgePools>(EDGE, object("EdgePool", spec), "/secrets/").await;
}

/// Scenario: the same of a gateway pool, for its pods, its workload and its Secret. Guarantee: the
/// same.
#[tokio::test]
async fn a_gateway_pool_that_can_not_be_looked_at_is_unknown() {
    let pool = gateway_pool(json!({"kafka": kafka(), "replicas": 2}));
    for what in ["/pods", "/statefulsets/", "/secrets/"] {
        check::<GatewayPools>(GATEWAY_POOL, pool.clone(), what).await;
    }
}

/// Scenario: a new spec of a ready pool, and the API server refuses what its observe step asks.
/// Guarantee: the refusal is told of the new spec, what was known is of the old one.
#[tokio::test]
async fn a_refusal_is_told_of_the_newest_spec() {
    let pool = gateway_pool(json!({"replicas": 2}));
    let world = ready::<GatewayPools>(GATEWAY_POOL, pool).await;
    world.server.edit(GATEWAY_POOL, |pool| pool["spec"]["replicas"] = 3.into());
    look::<GatewayPools>(&world, GATEWAY_POOL, "/pods", 403).await.unwrap_err();
    let at = |type_: &str| world.condition(GATEWAY_POOL, type_).unwrap().2;
    assert_eq!([at("Ready"), at("Stalled"), at("PodsReady")], [2, 2, 1]);
    assert_eq!(world.server.get(GATEWAY_POOL).unwrap()["status"]["observedGeneration"], 2);
}

/// Scenario: the finalizer of a topic and of a schema can't be put on, for now or for good; and
/// their Secret can't be read. Guarantee: Ready is unknown, and stalled what is refused for good.
#[tokio::test]
async fn topics_and_schemas_that_can_not_be_looked_at_are_unknown() {
    async fn check<R: Reconciler>(path: &'static str, object: Value) {
        for (method, what) in [(http::Method::PATCH, path), (http::Method::GET, "/secrets/")] {
            for (code, stalled) in [(503, false), (403, true)] {
                let world = World::new();
                world.server.put(path, object.clone());
                let method = method.clone();
                world.server.set_fault(Some(Box::new(move |asked, at| {
                    (*asked == method && at.contains(what) && !at.ends_with("/status"))
                        .then_some(code)
                })));
                world.reconcile::<R>(path).await.unwrap_err();
                let (status, reason, _) = world.condition(path, "Ready").unwrap();
                assert_eq!((&*status, &*reason), ("Unknown", "ApiServerFailed"), "{what} {code}");
                let told = world.condition(path, "Stalled").is_some_and(|told| told.0 == "True");
                assert_eq!(told, stalled, "{what} {code}");
            }
        }
    }
    let topic = json!({"kafka": kafka(), "topicName": "t", "deletionPolicy": "Delete"});
    check::<Topics>(TOPIC, object("TelemetryTopic", topic)).await;
    let clickhouse = json!({"endpoints": ["http://127.0.0.1:1"],
        "authentication": {"type": "Password", "usernameSecret": {"name": "clickhouse-user", "key": "username"},
 "passwordSecret": {"name": "clickhouse-user", "key": "password"}}});
    let schema = json!({"clickhouse": clickhouse, "signals": {"traces": {}},
        "deletionPolicy": "Delete"});
    check::<Schemas>(SCHEMA, object("TelemetrySchema", schema)).await;
}
