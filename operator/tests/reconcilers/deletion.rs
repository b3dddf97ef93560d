//! How a pipeline goes whose deletion policy is `Delete`: in steps, each once the one before is
//! done; the children's own controllers and the garbage collector are played by the tests.

use millrace_operator::controllers::pipeline::Pipelines;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;

const BASE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry";
const PIPELINE: &str = "/apis/millrace.dev/v1alpha1/namespaces/telemetry/telemetrypipelines/prod";
const EDGE: &str = "edgepools/prod-clients";
const GATEWAY: &str = "gatewaypools/prod";
const KEPT: [&str; 3] = [
    "telemetrytopics/prod-traces",
    "telemetrytopics/prod-traces-dead-letter",
    "telemetryschemas/prod",
];
/// Longer than all steps may take.
const TOO_LONG_SECONDS: i64 = 3_600;

async fn reconcile(world: &World) {
    world.reconcile::<Pipelines>(PIPELINE).await.unwrap();
}

fn child(world: &World, path: &str) -> Option<Value> {
    world.server.get(&format!("{BASE}/{path}"))
}

fn is_going(world: &World, path: &str) -> bool {
    child(world, path).is_none_or(|it| !it["metadata"]["deletionTimestamp"].is_null())
}

fn policy(world: &World, path: &str) -> Value {
    child(world, path).unwrap()["spec"]["deletionPolicy"].clone()
}

/// Pods that stop, or a child's own controller, hold an object.
fn hold(world: &World, path: &str, finalizer: &str) {
    world.server.edit(&format!("{BASE}/{path}"), |it| {
        it["metadata"]["finalizers"] = json!([finalizer]);
    });
}

/// A pipeline with its children, the pools held by their pods, which was asked to go.
async fn going(policy: &str) -> World {
    let world = World::new();
    let spec = json!({"kafka": {"bootstrapServers": ["kafka:9092"]},
        "clickhouse": {"endpoints": ["http://clickhouse:8123"]},
        "signals": {"traces": {}}, "deletionPolicy": policy});
    world.server.put(
        PIPELINE,
        json!({"apiVersion": "millrace.dev/v1alpha1", "kind": "TelemetryPipeline",
            "metadata": {}, "spec": spec}),
    );
    reconcile(&world).await;
    for path in KEPT {
        let more = json!({"partitions": 12, "revision": "abc"});
        world.say(&format!("{BASE}/{path}"), 0, &[("Ready", true)], more);
    }
    reconcile(&world).await;
    for path in [EDGE, GATEWAY] {
        hold(&world, path, "foregroundDeletion");
    }
    world.server.ask_to_delete(PIPELINE);
    world
}

/// Scenario: a pipeline that says Delete goes; its edge pods, then its gateways' take their time.
/// Guarantee: gateways are not deleted before edges are gone, nor topics and tables before
/// gateways; those keep their data until it is their turn, and go once they will delete it; the
/// pipeline goes last, and tells meanwhile which child it waits for.
#[tokio::test]
async fn edges_go_before_gateways_and_those_before_data() {
    let world = going("Delete").await;
    reconcile(&world).await;
    assert!(is_going(&world, EDGE) && !is_going(&world, GATEWAY));
    let status = world.server.get(PIPELINE).unwrap()["status"].to_string();
    assert!(status.contains("waiting until EdgePool prod-clients is deleted"), "{status}");
    world.server.delete(&format!("{BASE}/{EDGE}"));
    reconcile(&world).await;
    assert!(is_going(&world, GATEWAY));
    assert!(KEPT.iter().all(|path| !is_going(&world, path) && policy(&world, path) == "Retain"));
    world.server.delete(&format!("{BASE}/{GATEWAY}"));
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| !is_going(&world, path) && policy(&world, path) == "Delete"));
    for path in KEPT {
        hold(&world, path, "millrace.dev/external");
    }
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| is_going(&world, path)));
    assert!(world.server.get(PIPELINE).is_some());
    for path in KEPT {
        world.server.delete(&format!("{BASE}/{path}"));
    }
    reconcile(&world).await;
    assert!(world.server.get(PIPELINE).is_none());
}

/// Scenario: a paused pipeline that says Delete goes. Guarantee: its steps are taken as if it were
/// not paused: the pools, then topics and tables, which delete what they stand for.
#[tokio::test]
async fn a_pause_does_not_hold_up_deletion() {
    let world = going("Delete").await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["paused"] = true.into();
    });
    for pool in [EDGE, GATEWAY] {
        reconcile(&world).await;
        assert!(is_going(&world, pool));
        world.server.delete(&format!("{BASE}/{pool}"));
    }
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| policy(&world, path) == "Delete"));
    for path in KEPT {
        hold(&world, path, "millrace.dev/external");
    }
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| is_going(&world, path)));
}

/// Scenario: a pipeline that says Delete goes after an edit that made its spec invalid. Guarantee:
/// its steps are taken all the same: the children of the spec before delete what they stand for.
#[tokio::test]
async fn an_invalid_spec_does_not_leave_data_behind() {
    let world = going("Delete").await;
    world.server.edit(PIPELINE, |it| {
        it["spec"]["signals"]["traces"]["table"] = json!({"attributes": "JSON"});
    });
    for pool in [EDGE, GATEWAY] {
        reconcile(&world).await;
        assert!(is_going(&world, pool), "{pool}");
        world.server.delete(&format!("{BASE}/{pool}"));
    }
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| policy(&world, path) == "Delete"));
    let schema = child(&world, "telemetryschemas/prod").unwrap();
    assert_eq!(schema["spec"]["signals"]["traces"]["attributes"], "Map");
}

/// Scenario: a pipeline goes that says Retain, or nothing; or that said Delete, and Retain when its
/// topics had been told. Guarantee: it waits for nothing, deletes no child itself, and its topics
/// and schema keep their data.
#[tokio::test]
async fn a_pipeline_that_retains_waits_for_nothing() {
    assert!(going("Retain").await.server.get(PIPELINE).is_none());

    let world = going("Delete").await;
    for path in [EDGE, GATEWAY] {
        world.server.delete(&format!("{BASE}/{path}"));
    }
    reconcile(&world).await;
    assert!(KEPT.iter().all(|path| policy(&world, path) == "Delete"));
    world.server.edit(PIPELINE, |it| it["spec"]["deletionPolicy"] = "Retain".into());
    reconcile(&world).await;
    assert!(world.server.get(PIPELINE).is_none());
    assert!(KEPT.iter().all(|path| !is_going(&world, path) && policy(&world, path) == "Retain"));
}

/// Scenario: the pods of a pipeline that goes never end; or the API server never answers. Guarantee:
/// the pipeline is released in the end, with an event; topics and tables keep their data.
#[tokio::test]
async fn a_pipeline_that_cannot_go_is_released_in_the_end() {
    for is_away in [false, true] {
        let world = going("Delete").await;
        reconcile(&world).await;
        world.server.take_event_reasons();
        world.pass(TOO_LONG_SECONDS);
        if is_away {
            world
                .server
                .set_fault(Some(Box::new(|_, path| path.ends_with("/edgepools").then_some(503))));
        }
        reconcile(&world).await;
        assert!(world.server.get(PIPELINE).is_none());
        assert_eq!(world.server.take_event_reasons(), ["DeletionFailed"]);
        assert!(KEPT.iter().all(|path| !is_going(&world, path)));
        assert!(KEPT.iter().all(|path| policy(&world, path) == "Retain"));
    }
}
