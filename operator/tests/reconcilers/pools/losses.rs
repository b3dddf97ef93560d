//! What a gateway pool says of data that is gone or set aside, against an API server in memory.

use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::{Value, json};

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

/// A settled pool of two pods that answer.
async fn settled() -> World {
    let world = World::new();
    world.server.put(POOL, gateway_pool(json!({"replicas": 2})));
    for _ in 0..3 {
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
    }
    world.run_pods(SET, json!({"memory": "1000", "cpu": "1"}));
    for pod in [0, 1] {
        tell(&world, pod, 1, 0, 0);
    }
    look(&world, 10).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    world.server.take_writes();
    world.server.take_event_reasons();
    world
}

/// Sets what a pod's process, begun at this second, has lost and set aside.
fn tell(world: &World, pod: u32, began: i64, lost: u64, letters: u64) {
    let sample = PodSample {
        started_at: Some(began),
        lost_to_retention: [("otlp_traces".to_owned(), lost)].into(),
        dead_lettered: [("traces".to_owned(), letters)].into(),
        ..PodSample::default()
    };
    world.set_pod(&format!("prod-gateway-{pod}"), Some(sample));
}

/// Looks again after so many seconds.
async fn look(world: &World, seconds: i64) {
    world.pass(seconds);
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
}

fn status(world: &World) -> Value {
    world.server.get(POOL).unwrap()["status"].clone()
}

/// Status and reason of a condition.
fn says(world: &World, type_: &str) -> (String, String) {
    let (status, reason, _) = world.condition(POOL, type_).unwrap();
    (status, reason)
}

fn acknowledge(world: &World, what: &str, total: i64) {
    world.server.edit(POOL, |pool| pool["spec"]["acknowledged"][what] = total.into());
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

/// Scenario: retention overtakes a pod; the pod is started anew, the operator too; the pod loses
/// more. Guarantee: DataLost is true with the whole count, told by one event, while Ready stays
/// true; nothing is written while nothing grows.
#[tokio::test]
async fn data_lost_to_retention_is_told_and_never_forgotten() {
    let mut world = settled().await;
    assert_eq!(says(&world, "DataLost"), is("False", "NoDataLost"));
    tell(&world, 1, 1, 40, 0);
    look(&world, 10).await;
    assert_eq!(says(&world, "DataLost"), is("True", "MessagesLostToRetention"));
    assert_eq!(status(&world)["dataLost"]["total"], 40);
    assert_eq!(status(&world)["dataLost"]["parts"], json!([{"name": "otlp_traces", "count": 40}]));
    assert_eq!(world.server.take_event_reasons(), ["MessagesLostToRetention"]);
    assert!(world.is_ready(POOL), "what is gone holds nothing up");
    world.server.take_writes();
    tell(&world, 1, 2, 0, 0);
    look(&world, 100).await;
    world.restart("0.1.0");
    look(&world, 10).await;
    assert_eq!(world.server.take_writes(), []);
    tell(&world, 1, 2, 3, 0);
    look(&world, 10).await;
    assert_eq!(status(&world)["dataLost"]["total"], 43);
    assert_eq!(world.server.take_event_reasons(), Vec::<String>::new(), "told two minutes ago");
    tell(&world, 1, 2, 5, 0);
    look(&world, 900).await;
    assert_eq!(status(&world)["dataLost"]["total"], 45);
    assert_eq!(world.server.take_event_reasons(), ["MessagesLostToRetention"], "it began again");
}

/// Scenario: a loss is acknowledged by a number that is too large, by one that is too small, then by
/// its own; then more is lost. Guarantee: only the very number counts, and only for what was lost by
/// then; a pod that doesn't answer changes nothing.
#[tokio::test]
async fn a_loss_is_told_until_its_number_is_acknowledged() {
    let world = settled().await;
    tell(&world, 0, 1, 7, 0);
    look(&world, 10).await;
    for (value, fact) in [
        (8, is("True", "MessagesLostToRetention")),
        (3, is("True", "MessagesLostToRetention")),
        (7, is("False", "LossAcknowledged")),
    ] {
        acknowledge(&world, "dataLost", value);
        look(&world, 10).await;
        assert_eq!(says(&world, "DataLost"), fact, "{value}");
        assert!(world.is_ready(POOL));
    }
    world.set_pod("prod-gateway-0", None);
    look(&world, 100).await;
    assert_eq!(says(&world, "DataLost"), is("False", "LossAcknowledged"));
    world.server.take_event_reasons();
    tell(&world, 0, 1, 9, 0);
    look(&world, 10).await;
    assert_eq!(says(&world, "DataLost"), is("True", "MessagesLostToRetention"));
    assert_eq!(world.server.take_event_reasons(), ["MessagesLostToRetention"]);
    let conditions = status(&world)["conditions"].clone();
    let lost = conditions.as_array().unwrap().iter().find(|it| it["type"] == "DataLost").unwrap();
    let message = lost["message"].as_str().unwrap();
    assert!(message.starts_with("9 messages") && message.contains("2 since"), "{message}");
    assert!(message.contains("spec.acknowledged.dataLost to 9"), "{message}");
}

/// Scenario: records are kept as dead letters; then the spec becomes invalid. Guarantee: told and
/// acknowledged apart from losses; an invalid spec doesn't hide them.
#[tokio::test]
async fn dead_letters_are_told_apart_from_losses() {
    let world = settled().await;
    tell(&world, 0, 1, 0, 4);
    tell(&world, 1, 1, 0, 2);
    look(&world, 10).await;
    assert_eq!(says(&world, "DeadLettersPresent"), is("True", "RecordsDeadLettered"));
    assert_eq!(says(&world, "DataLost"), is("False", "NoDataLost"));
    assert_eq!(status(&world)["deadLetters"]["total"], 6);
    assert!(world.is_ready(POOL));
    acknowledge(&world, "dataLost", 6);
    look(&world, 10).await;
    assert_eq!(says(&world, "DeadLettersPresent"), is("True", "RecordsDeadLettered"));
    world.server.edit(POOL, |pool| {
        pool["spec"]["signals"]["logs"] = json!({"attributes": "JSON"});
    });
    let _ = world.reconcile::<GatewayPools>(POOL).await;
    assert_eq!(says(&world, "Ready"), is("False", "SpecInvalid"));
    assert_eq!(says(&world, "DeadLettersPresent"), is("True", "RecordsDeadLettered"));
    acknowledge(&world, "deadLetters", 6);
    let _ = world.reconcile::<GatewayPools>(POOL).await;
    assert_eq!(says(&world, "DeadLettersPresent"), is("False", "DeadLettersAcknowledged"));
}
