//! What `/scale` of a pool shows, and who else may size it: against an API server in memory.

use std::sync::Arc;

use millrace_operator::controllers::edge::EdgePools;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::error::Category;
use millrace_operator::reconcile::controller;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL, GATEWAY_SET, gateway_pool};

const EDGE_POOL: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/edgepools/prod";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/telemetry/deployments/prod-edge";
const DAEMON_SET: &str = "/apis/apps/v1/namespaces/telemetry/daemonsets/prod-edge";
const HPA: &str = "/apis/autoscaling/v2/namespaces/telemetry/horizontalpodautoscalers/ours";
/// Who writes the number while nobody else does.
const OURS: &str = "millrace-operator/scale";

fn edge_pool(more: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {},
        "spec": {"kafka": {"bootstrapServers": ["kafka:9092"]}, "signals": {"traces": {}}}
    });
    for (field, value) in more.as_object().unwrap() {
        pool["spec"][field] = value.clone();
    }
    pool
}

async fn edge(world: &World, times: u32) {
    for _ in 0..times {
        world.reconcile::<EdgePools>(EDGE_POOL).await.unwrap();
        world.finish_rollouts();
        world.pass(31);
    }
}

async fn gateway(world: &World, times: u32) {
    for _ in 0..times {
        world.reconcile::<GatewayPools>(GATEWAY_POOL).await.unwrap();
        world.finish_rollouts();
        world.pass(10);
    }
}

fn replicas(world: &World, path: &str) -> Value {
    world.server.get(path).unwrap()["spec"]["replicas"].clone()
}

/// What the `/scale` subresource writes when an autoscaler or `kubectl scale` asks for a number.
fn scale(world: &World, path: &str, size: u32) {
    world.server.edit(path, |object| object["spec"]["replicas"] = size.into());
    // Whoever owned the number owns it no longer; now the writer does.
    world.server.edit(path, |object| {
        let entry = json!({"manager": "kube-controller-manager", "operation": "Update",
            "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
        let entries = object["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.push(entry);
    });
}

/// Scenario: an edge pool that says no number of pods is looked at for the first time. Guarantee:
/// the number is in its spec, where `/scale` reads it, and the status is about that very spec;
/// looked at again nothing is written.
#[tokio::test]
async fn a_fresh_edge_pool_has_a_number_for_scale() {
    let world = World::new();
    world.server.put(EDGE_POOL, edge_pool(&json!({})));
    edge(&world, 1).await;
    let pool = world.server.get(EDGE_POOL).unwrap();
    assert_eq!(pool["spec"]["replicas"], 2);
    assert_eq!(pool["status"]["observedGeneration"], pool["metadata"]["generation"]);
    assert_eq!(replicas(&world, DEPLOYMENT), 2);
    edge(&world, 2).await;
    assert!(world.is_ready(EDGE_POOL));
    world.server.take_writes();
    edge(&world, 3).await;
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: the spec changes after it was read and before the number is written. Guarantee: the
/// newer spec gets neither that number nor a status of the older one; the next reconcile writes
/// both.
#[tokio::test]
async fn a_number_is_not_written_onto_a_newer_spec() {
    let world = World::new();
    world.server.put(EDGE_POOL, edge_pool(&json!({})));
    let read = serde_json::from_value(world.server.get(EDGE_POOL).unwrap()).unwrap();
    let budget = json!({"enabled": false});
    world.server.edit(EDGE_POOL, |pool| pool["spec"]["disruptionBudget"] = budget);
    let stale =
        controller::reconcile_object::<EdgePools>(Arc::new(read), world.context.clone()).await;
    assert_eq!(stale.unwrap_err().category, Category::Conflict);
    let pool = world.server.get(EDGE_POOL).unwrap();
    assert_eq!((&pool["spec"]["replicas"], &pool["status"]), (&Value::Null, &Value::Null));
    edge(&world, 2).await;
    assert_eq!(replicas(&world, EDGE_POOL), 2);
    assert!(world.is_ready(EDGE_POOL));
}

/// Scenario: an autoscaler asks the pool for another number, through `/scale`. Guarantee: the pods
/// follow, and the operator never writes another.
#[tokio::test]
async fn the_number_an_autoscaler_asks_an_edge_pool_for_stays() {
    let world = World::new();
    world.server.put(EDGE_POOL, edge_pool(&json!({})));
    edge(&world, 2).await;
    scale(&world, EDGE_POOL, 7);
    edge(&world, 3).await;
    assert_eq!(replicas(&world, EDGE_POOL), 7);
    assert_eq!(replicas(&world, DEPLOYMENT), 7);
}

/// Scenario: the pool becomes one pod on each node. Guarantee: the number that was the operator's
/// goes; one that a person wrote would have been refused.
#[tokio::test]
async fn one_pod_on_each_node_has_no_number() {
    let world = World::new();
    world.server.put(EDGE_POOL, edge_pool(&json!({})));
    edge(&world, 2).await;
    world.server.edit(EDGE_POOL, |pool| pool["spec"]["mode"] = "DaemonSet".into());
    edge(&world, 2).await;
    assert_eq!(replicas(&world, EDGE_POOL), Value::Null);
    assert!(world.server.get(DAEMON_SET).is_some());
}

/// Scenario: a HorizontalPodAutoscaler targets the Deployment itself and sets its size; a person
/// does so by hand without one; the autoscaler goes. Guarantee: the autoscaler's size stays, look
/// after look, also after a restart; a hand's is put back, and so is the autoscaler's once it is
/// gone.
#[tokio::test]
async fn a_deployment_is_left_to_the_autoscaler_that_targets_it() {
    let mut world = World::new();
    world.server.put(EDGE_POOL, edge_pool(&json!({"replicas": 3})));
    edge(&world, 3).await;
    scale(&world, DEPLOYMENT, 9);
    edge(&world, 1).await;
    assert_eq!(replicas(&world, DEPLOYMENT), 3);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "prod-edge"});
    world.server.put(
        HPA,
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {}, "spec": {"maxReplicas": 9, "scaleTargetRef": target}}),
    );
    edge(&world, 2).await;
    assert_eq!(replicas(&world, DEPLOYMENT), 3);
    scale(&world, DEPLOYMENT, 6);
    world.server.take_event_reasons();
    for _ in 0..2 {
        edge(&world, 3).await;
        assert_eq!(replicas(&world, DEPLOYMENT), 6);
        world.restart("0.1.0");
    }
    let events = world.server.take_event_reasons();
    assert!(!events.contains(&"DriftRepaired".to_owned()), "{events:?}");
    edge(&world, 2).await;
    world.server.take_writes();
    edge(&world, 2).await;
    assert_eq!(world.server.take_writes(), []);
    world.server.delete(HPA);
    edge(&world, 2).await;
    assert_eq!(replicas(&world, DEPLOYMENT), 3);
}

/// Scenario: a gateway pool that says no number of pods, caught up and then behind. Guarantee: its
/// spec shows the size for `/scale`, from the first look on, and follows what lag decides, though
/// the number is there: it is the operator's own; the status is always about the newest spec.
#[tokio::test]
async fn a_gateway_pools_number_follows_its_lag() {
    let world = World::new();
    world.server.put(GATEWAY_POOL, gateway_pool(json!({})));
    gateway(&world, 3).await;
    assert_eq!(replicas(&world, GATEWAY_POOL), 1);
    let owners = world.server.get(GATEWAY_POOL).unwrap()["metadata"]["managedFields"].clone();
    assert_eq!(owners[0]["manager"], OURS);
    world.set_lag(Some((5_000_000, false)));
    let mut most = 1;
    for _ in 0..60 {
        gateway(&world, 1).await;
        let pool = world.server.get(GATEWAY_POOL).unwrap();
        assert_eq!(pool["status"]["observedGeneration"], pool["metadata"]["generation"]);
        assert_eq!(pool["spec"]["replicas"], replicas(&world, GATEWAY_SET));
        most = most.max(pool["spec"]["replicas"].as_i64().unwrap());
    }
    assert!(most > 1, "the lag was to make it grow");
    assert_ne!(world.server.get(GATEWAY_POOL).unwrap()["status"]["sizing"]["reason"], "Fixed");
}

/// Scenario: an autoscaler asks a gateway pool for a number while the lag asks for more; later the
/// number is taken out of the spec. Guarantee: the number stays and the pods follow; afterwards the
/// pool is sized by lag again.
#[tokio::test]
async fn the_number_an_autoscaler_asks_a_gateway_pool_for_stays() {
    let world = World::new();
    world.server.put(GATEWAY_POOL, gateway_pool(json!({})));
    gateway(&world, 3).await;
    scale(&world, GATEWAY_POOL, 2);
    world.set_lag(Some((5_000_000, false)));
    gateway(&world, 60).await;
    assert_eq!(replicas(&world, GATEWAY_POOL), 2);
    assert_eq!(replicas(&world, GATEWAY_SET), 2);
    world.server.edit(GATEWAY_POOL, |pool| {
        pool["spec"].as_object_mut().unwrap().remove("replicas");
        pool["metadata"]["managedFields"] = json!([]);
    });
    gateway(&world, 60).await;
    assert!(replicas(&world, GATEWAY_SET).as_i64() > Some(2));
    assert_eq!(replicas(&world, GATEWAY_POOL), replicas(&world, GATEWAY_SET));
}
