//! What a gateway pool's status states after its operator started, before it observed anything.

use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::pods::PodSample;
use serde_json::json;

use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

/// Reconciles every ten seconds.
async fn play(world: &World, seconds: i64) {
    for _ in 0..seconds / 10 {
        world.reconcile::<GatewayPools>(POOL).await.unwrap();
        world.finish_rollouts();
        world.pass(10);
    }
}

/// A settled pool, whose pods and broker have answered for over five minutes.
async fn observed_pool() -> World {
    let world = World::new();
    world.server.put(POOL, gateway_pool(json!({"scaling": {"minReplicas": 2}})));
    play(&world, 30).await;
    world.run_pods(SET, json!({"memory": "1Gi", "cpu": "1"}));
    for pod in ["prod-gateway-0", "prod-gateway-1"] {
        let sample = PodSample { resident_bytes: Some(200 << 20), ..PodSample::default() };
        world.set_pod(pod, Some(sample));
    }
    play(&world, 320).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    let sizing = world.server.get(POOL).unwrap()["status"]["sizing"].clone();
    assert_eq!(sizing["signals"]["podsReporting"], 2, "{sizing}");
    world.server.take_writes();
    world
}

/// Scenario: an operator starts over a minute after the last decision; the first answers of the
/// broker and of the pods take two reconciles. Guarantee: the pool stays Ready, and nothing is
/// written, neither before the answers nor after them.
#[tokio::test]
async fn an_operator_that_starts_reports_no_pod_and_no_broker_as_silent() {
    let mut world = observed_pool().await;
    world.pass(70);
    world.restart("0.1.0");
    world.await_answers(true);
    play(&world, 20).await;
    assert!(world.is_ready(POOL), "{:?}", world.condition(POOL, "Ready"));
    assert_eq!(world.server.take_writes(), []);
    world.await_answers(false);
    play(&world, 130).await;
    assert_eq!(world.server.take_writes(), []);
}

/// Scenario: an operator starts after a quarter of an hour without one; another after the spec
/// changed. The broker's first answer is yet to come. Guarantee: the lag is unknown; it is within
/// its bound again once the broker answers.
#[tokio::test]
async fn an_old_lag_figure_and_one_of_another_spec_are_not_retained() {
    for (away, changes_spec) in [(900, false), (70, true)] {
        let mut world = observed_pool().await;
        world.pass(away);
        if changes_spec {
            world.server.edit(POOL, |pool| pool["spec"]["scaling"]["lagBoundSeconds"] = 33.into());
        }
        world.restart("0.1.0");
        world.await_answers(true);
        play(&world, 10).await;
        let (status, reason, _) = world.condition(POOL, "LagWithinBound").unwrap();
        assert_eq!((&*status, &*reason), ("Unknown", "LagUnknown"), "{away} s");
        world.await_answers(false);
        play(&world, 10).await;
        assert_eq!(world.condition(POOL, "LagWithinBound").unwrap().0, "True", "{away} s");
    }
}

/// Scenario: an operator starts, and a pod and the broker turn out to be away. Guarantee: both are
/// reported at the first reconcile that knows it.
#[tokio::test]
async fn what_is_away_after_a_start_is_reported_once_it_is_known() {
    let mut world = observed_pool().await;
    world.pass(70);
    world.restart("0.1.0");
    world.await_answers(true);
    play(&world, 10).await;
    world.await_answers(false);
    world.set_lag(None);
    world.set_pod("prod-gateway-1", None);
    play(&world, 10).await;
    assert_eq!(world.condition(POOL, "LagWithinBound").unwrap().1, "KafkaUnreachable");
    let message = world.server.get(POOL).unwrap()["status"]["sizing"]["message"].clone();
    assert!(message.as_str().unwrap().contains("1 of 2 pods reported"), "{message}");
}
