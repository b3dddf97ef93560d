//! Trouble that isn't a change's: lost nodes and brokers that are away during a gateway pool's
//! rollout, against the same stand-ins as rollouts.

use serde_json::{Value, json};

use crate::reconcilers::pools::rollout::{Cluster, PODS, all, pull_fails};
use crate::reconcilers::support::{GATEWAY_POOL as POOL, GATEWAY_SET as SET};

impl Cluster {
    fn edit_pod(&self, ordinal: i64, change: impl FnOnce(&mut Value, &str)) {
        let now = self.world.context.clock.now().to_string();
        self.world.server.edit(&format!("{PODS}{ordinal}"), |pod| change(pod, &now));
    }

    /// What Kubernetes tells of a pod that was ready and whose node is gone: its own controller
    /// says that it isn't ready, the kubelet says nothing.
    fn lose_node_of(&mut self, ordinal: i64) {
        self.lost = Some(ordinal);
        self.edit_pod(ordinal, |pod, now| {
            pod["spec"]["nodeName"] = "node-7".into();
            pod["status"]["conditions"] = json!([
                {"type": "Ready", "status": "False", "lastTransitionTime": now},
                {"type": "ContainersReady", "status": "True", "lastTransitionTime": now}]);
        });
    }

    /// It is asked to end, which nobody there hears.
    fn ask_to_end(&mut self, ordinal: i64) {
        self.lost = Some(ordinal);
        self.edit_pod(ordinal, |pod, now| {
            pod["spec"]["nodeName"] = "node-7".into();
            pod["metadata"]["deletionTimestamp"] = now.into();
        });
    }

    /// Somebody deletes the pod for good: another is made.
    fn force_delete(&mut self, ordinal: i64) {
        self.lost = None;
        self.world.server.delete(&format!("{PODS}{ordinal}"));
    }

    fn set_ready(&self, ordinals: std::ops::Range<i64>, ready: bool) {
        for ordinal in ordinals {
            self.edit_pod(ordinal, |pod, now| {
                let status = if ready { "True" } else { "False" };
                pod["status"]["conditions"] =
                    json!([{"type": "Ready", "status": status, "lastTransitionTime": now}]);
                pod["status"]["containerStatuses"][0]["ready"] = ready.into();
            });
        }
    }

    /// Whether a person is asked for, and in what words.
    fn stalled(&self) -> (bool, String) {
        let conditions = self.world.server.get(POOL).unwrap()["status"]["conditions"].clone();
        let of = |type_: &str| {
            let mut all = conditions.as_array().unwrap().iter();
            all.find(|condition| condition["type"] == type_).unwrap().clone()
        };
        let (stalled, progressing) = (of("Stalled"), of("Progressing"));
        let (is, goes_on) = (stalled["status"] == "True", progressing["status"] == "True");
        assert!(!(is && goes_on), "{conditions}");
        (is, stalled["message"].as_str().unwrap().to_owned())
    }
}

/// Scenario: the canary's node is lost while it is judged; after five minutes its pod is asked to
/// end, and stays; then somebody deletes it for good. Guarantee: a good change isn't taken back;
/// the pool says that it waits for a person, for which pod and node, and what to do; then it goes
/// on. Slow: the pool is reconciled every five seconds of half an hour.
#[tokio::test]
async fn a_lost_node_takes_no_good_change_back() {
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    assert_eq!(*cluster.play(40).await.last().unwrap(), "Analyzing");
    cluster.lose_node_of(2);
    assert_eq!(cluster.play(300).await, ["Analyzing"]);
    let (stalled, message) = cluster.stalled();
    assert!(stalled && message.contains("prod-gateway-2"), "{message}");
    assert!(message.contains("node-7") && message.contains("--force"), "{message}");
    cluster.ask_to_end(2);
    assert_eq!(cluster.play(1200).await, ["Analyzing"]);
    assert!(cluster.stalled().0);
    cluster.force_delete(2);
    assert_eq!(*cluster.play(400).await.last().unwrap(), "Stable");
    assert_eq!(cluster.images(), all("2.0.0-system"));
    assert_eq!(cluster.ready().0, "True");
}

/// Scenario: the node of a pod that is to be the canary is lost before it could end. Guarantee:
/// that no pod was made with the change isn't held against it. Slow: the pool is reconciled every
/// five seconds of over half an hour.
#[tokio::test]
async fn a_pod_that_can_not_end_takes_no_good_change_back() {
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    cluster.play(5).await;
    cluster.ask_to_end(2);
    assert_eq!(*cluster.play(1800).await.last().unwrap(), "Canary");
    let (stalled, message) = cluster.stalled();
    assert!(stalled && message.contains("prod-gateway-2"), "{message}");
    cluster.force_delete(2);
    assert_eq!(*cluster.play(400).await.last().unwrap(), "Stable");
}

/// Scenario: a bad change is taken back, and the node of its pod is lost then. Guarantee: the pool
/// doesn't say for ever that it goes on by itself: it says which pod it waits for and what to do.
#[tokio::test]
async fn a_way_back_that_is_blocked_says_so() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = pull_fails;
    cluster.wants("2.0.0-bad");
    while cluster.play(5).await != ["Canary"] {}
    cluster.lost = Some(2);
    while cluster.play(5).await != ["RollingBack"] {}
    cluster.ask_to_end(2);
    assert!(!cluster.stalled().0, "it may still end");
    assert_eq!(cluster.play(600).await, ["RollingBack"]);
    let (stalled, message) = cluster.stalled();
    assert!(stalled && message.contains("prod-gateway-2"), "{message}");
    assert!(message.contains("node-7") && message.contains("--force"), "{message}");
    assert_eq!(cluster.told()["reason"], "ImagePullFailed");
    cluster.force_delete(2);
    assert_eq!(cluster.play(60).await, ["RollingBack", "RolledBack"]);
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: a node is lost before the canary there was ever ready, which looks as a bad start does.
/// Guarantee: it is taken for one: the change is taken back; the way back says which pod and node it
/// waits for, and ends once somebody deletes the pod for good.
#[tokio::test]
async fn a_node_lost_before_its_pod_was_ready_is_a_bad_start() {
    let mut cluster = Cluster::settled(3).await;
    cluster.spoil = |image| image.contains("2.0.0").then(|| json!({}));
    cluster.wants("2.0.0");
    while cluster.play(5).await != ["Canary"] {}
    cluster.lost = Some(2);
    while cluster.play(5).await != ["RollingBack"] {}
    assert_eq!(cluster.told()["reason"], "PodsNotReady");
    cluster.ask_to_end(2);
    assert_eq!(cluster.play(600).await, ["RollingBack"]);
    let (stalled, message) = cluster.stalled();
    assert!(stalled && message.contains("node-7") && message.contains("--force"), "{message}");
    cluster.force_delete(2);
    assert_eq!(cluster.play(60).await, ["RollingBack", "RolledBack"]);
    assert_eq!(cluster.images(), all("1.0.0-system"));
}

/// Scenario: Kafka is away for ten minutes: new pods don't become ready, and old ones aren't any
/// longer; in a pool of three and in one of one pod. Guarantee: a good change isn't taken back, the
/// pool says so, and it goes on when Kafka is back. A change that can't reach it alone is taken
/// back. Slow: two pools are reconciled every five seconds of over ten minutes, and a third one of
/// five.
#[tokio::test]
async fn a_kafka_outage_takes_no_good_change_back() {
    for replicas in [3, 1] {
        let mut cluster = Cluster::settled(replicas).await;
        let last = i64::from(replicas);
        cluster.world.server.edit(POOL, |pool| pool["spec"]["rollout"] = json!({}));
        cluster.wants("2.0.0");
        cluster.spoil = |_| Some(json!({}));
        cluster.world.set_lag(None);
        assert_eq!(cluster.play(20).await, ["Waiting", "Promoting"]);
        cluster.set_ready(0..last - 1, false);
        assert_eq!(cluster.play(600).await, ["Promoting"], "{replicas}");
        let (stalled, message) = cluster.stalled();
        assert!(stalled && message.contains("Kafka"), "{message}");
        cluster.spoil = |_| None;
        cluster.world.set_lag(Some((0, true)));
        cluster.set_ready(0..last, true);
        assert_eq!(*cluster.play(60).await.last().unwrap(), "Stable", "{replicas}");
    }
    let mut cluster = Cluster::settled(3).await;
    cluster.wants("2.0.0");
    cluster.spoil = |image| image.contains("2.0.0").then(|| json!({}));
    assert_eq!(cluster.play(300).await, ["Waiting", "Canary", "RollingBack", "RolledBack"]);
    assert_eq!(cluster.told()["reason"], "PodsNotReady");
    assert!(cluster.world.server.get(SET).is_some());
}

/// Scenario: a settled pool loses a node. Guarantee: it says that it waits for a person.
#[tokio::test]
async fn a_settled_pool_that_loses_a_node_says_so() {
    let mut cluster = Cluster::settled(3).await;
    cluster.lose_node_of(1);
    cluster.play(300).await;
    cluster.ask_to_end(1);
    cluster.play(300).await;
    let (stalled, message) = cluster.stalled();
    assert!(stalled && message.contains("prod-gateway-1"), "{message}");
}
