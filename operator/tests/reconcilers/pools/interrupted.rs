//! Rollouts that are interrupted: by a pause, a status that can't be written.

use http::Method;
use serde_json::json;

use crate::reconcilers::pools::rollout::{Cluster, all, pull_fails};
use crate::reconcilers::support::world::World;
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET};

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
