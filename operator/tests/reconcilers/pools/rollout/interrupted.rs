//! Rollouts and sizing that are interrupted: by a pause, a status that can't be written, a watch
//! that is late, a broker that is away.

use http::Method;
use millrace_operator::controllers::gateway::GatewayPools;
use millrace_operator::error::Category;
use serde_json::{Value, json};

use crate::reconcilers::pools::rollout::{Cluster, all, pull_fails};
use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET, gateway_pool};

/// A lag above its bound.
const BEHIND: Option<(u64, bool)> = Some((5_000_000, false));

async fn settled(scaling: Value) -> World {
    let world = World::new();
    world.server.put(POOL, gateway_pool(json!({"scaling": scaling})));
    for _ in 0..4 {
        look(&world).await;
    }
    world
}

async fn look(world: &World) {
    world.pass(10);
    world.reconcile::<GatewayPools>(POOL).await.unwrap();
    world.finish_rollouts();
}

fn replicas(world: &World) -> Value {
    world.server.get(SET).unwrap()["spec"]["replicas"].clone()
}

fn writes_to_set(world: &World) -> usize {
    world.server.take_writes().iter().filter(|write| write.path == SET).count()
}

/// Scenario: a change without canaries, which is the default, is paused when two of three pods have
/// it, and resumed later. Guarantee: the third pod isn't replaced during the pause, and nothing is
/// written again and again; it is replaced afterwards.
#[tokio::test]
async fn a_pause_stops_a_rollout_without_canaries() {
    let mut cluster = Cluster::settled(3).await;
    cluster.world.server.edit(POOL, |pool| pool["spec"]["rollout"] = json!({}));
    cluster.lost = Some(0);
    cluster.wants("2.0.0");
    assert_eq!(cluster.play(30).await, ["Waiting", "Promoting"]);
    let two = ["1.0.0-system", "2.0.0-system", "2.0.0-system"];
    assert_eq!(cluster.images(), two);
    cluster.lost = None;
    cluster.says(Some("pause"));
    assert_eq!(cluster.play(60).await, ["Paused"]);
    assert_eq!(cluster.images(), two);
    writes_to_set(&cluster.world);
    cluster.play(120).await;
    assert_eq!(writes_to_set(&cluster.world), 0);
    cluster.says(None);
    assert_eq!(*cluster.play(60).await.last().unwrap(), "Stable");
    assert_eq!(cluster.images(), all("2.0.0-system"));
}

/// Scenario: a bad image is to be rolled back, and the status can't be written. Guarantee: the
/// StatefulSet isn't switched between both templates; the rollback happens once the status is
/// written.
#[tokio::test]
async fn a_rollback_begins_once_its_status_is_written() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = pull_fails;
    cluster.wants("2.0.0-bad");
    while cluster.play(5).await != ["Canary"] {}
    let fault = |_: &Method, path: &str| path.ends_with("/status").then_some(500);
    cluster.world.server.set_fault(Some(Box::new(fault)));
    writes_to_set(&cluster.world);
    cluster.play(120).await;
    assert_eq!(writes_to_set(&cluster.world), 0);
    cluster.world.server.set_fault(None);
    assert_eq!(*cluster.play(60).await.last().unwrap(), "RolledBack");
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: the pool grows, and is reconciled again with the copy from before, as when its watch is
/// late. Guarantee: the growth isn't undone; the outdated copy is a conflict.
#[tokio::test]
async fn a_late_watch_undoes_no_growth() {
    let world = settled(json!({"minReplicas": 2, "maxReplicas": 24})).await;
    world.set_lag(BEHIND);
    let mut copy = Value::Null;
    for _ in 0..60 {
        if replicas(&world) == 2 {
            copy = world.server.get(POOL).unwrap();
            look(&world).await;
        }
    }
    assert_eq!(replicas(&world), 3);
    world.pass(5);
    let outcome = world.reconcile_copy::<GatewayPools>(copy).await;
    assert_eq!(outcome.unwrap_err().category, Category::Conflict);
    assert_eq!(replicas(&world), 3);
}

/// Scenario: a change is promoted to two pods, and the pool is reconciled again with the copy from
/// before. Guarantee: the second pod's permission isn't revoked; the outdated copy is a conflict.
#[tokio::test]
async fn a_late_watch_reverts_no_promotion() {
    let mut cluster = Cluster::settled(3).await;
    let partition = |cluster: &Cluster| {
        let set = cluster.world.server.get(SET).unwrap();
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"].clone()
    };
    cluster.wants("2.0.0");
    let mut copy = Value::Null;
    for _ in 0..60 {
        copy = cluster.world.server.get(POOL).unwrap();
        cluster.world.reconcile::<GatewayPools>(POOL).await.unwrap();
        if cluster.told()["stage"] == "Promoting" {
            break;
        }
        cluster.turn();
        cluster.world.pass(5);
    }
    assert_eq!(partition(&cluster), 1);
    let outcome = cluster.world.reconcile_copy::<GatewayPools>(copy).await;
    assert_eq!(outcome.unwrap_err().category, Category::Conflict);
    assert_eq!(partition(&cluster), 1);
}

/// Scenario: partitions allow fewer pods than the declared minimum; then the broker is away, and the
/// operator is restarted. Guarantee: no pod is added that would have no partition.
#[tokio::test]
async fn a_broker_that_is_away_adds_no_pods() {
    let mut world = settled(json!({"minReplicas": 20, "maxReplicas": 24})).await;
    assert_eq!(replicas(&world), 12);
    world.set_lag(None);
    for is_restarted in [false, true] {
        if is_restarted {
            world.restart("0.1.0");
        }
        for _ in 0..12 {
            look(&world).await;
            assert_eq!(replicas(&world), 12, "{is_restarted}");
        }
    }
}
