//! Tests the private parts of `pool/rollout/workload.rs`.

use super::*;
use millrace_rollout::{RolloutVerdict, assess_rollout};
use serde_json::json;

/// Scenario: the API server returns a Deployment after a complete rollout. Guarantee: the rollout
/// is complete, and with one available pod fewer it is not.
#[test]
fn a_deployment_as_the_api_server_gives_it_is_judged_right() {
    let mut value = json!({
        "metadata": {"generation": 3}, "spec": {"replicas": 2, "selector": {}, "template": {}},
        "status": {"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2,
            "readyReplicas": 2, "availableReplicas": 2}});
    let live: Deployment = serde_json::from_value(value.clone()).unwrap();
    assert_eq!(assess_rollout(&observe_deployment(&live)), RolloutVerdict::Complete);
    value["status"]["availableReplicas"] = json!(1);
    let live: Deployment = serde_json::from_value(value).unwrap();
    assert_ne!(assess_rollout(&observe_deployment(&live)), RolloutVerdict::Complete);
}

/// Scenario: a workload was just written and has no status. Guarantee: it is not complete.
#[test]
fn a_workload_without_a_status_is_never_complete() {
    assert_ne!(
        assess_rollout(&observe_deployment(&Deployment::default())),
        RolloutVerdict::Complete
    );
    assert_ne!(
        assess_rollout(&observe_stateful_set(&StatefulSet::default())),
        RolloutVerdict::Complete
    );
    assert_ne!(
        assess_rollout(&observe_daemon_set(&DaemonSet::default())),
        RolloutVerdict::Complete
    );
}

/// Scenario: a pod's image cannot be pulled. Guarantee: the figures contain the cause.
#[test]
fn a_pods_trouble_is_read_from_its_container() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "status": {"containerStatuses": [{"name": "collector", "ready": false, "image": "x",
            "imageID": "", "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}
    }))
    .unwrap();
    let figures = pod_figures(&pod, Timestamp::UNIX_EPOCH);
    assert_eq!(figures.find_trouble(), Some(millrace_rollout::Trouble::ImagePull));
    assert_eq!(figures.message, "not found");
}

/// Scenario: a pod has failing containers before and after the collector; a StatefulSet has another
/// container. Guarantee: only the collector's own container counts.
#[test]
fn what_runs_beside_the_collector_says_nothing_about_it() {
    let other = |name: &str| {
        json!({"name": name, "ready": false, "image": "x", "imageID": "", "restartCount": 9,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "proxy"}},
            "lastState": {"terminated": {"exitCode": 64, "reason": "OOMKilled"}}})
    };
    let own = json!({"name": "collector", "ready": true, "image": "x", "imageID": "",
        "restartCount": 1, "state": {"running": {}}});
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"},
        "status": {"containerStatuses": [other("istio-proxy"), own, other("a-last-one")]}}))
    .unwrap();
    let expected = PodFigures { name: "p".into(), ..PodFigures::default() };
    assert_eq!(pod_figures(&pod, Timestamp::UNIX_EPOCH), expected);
    let member = crate::pool::rollout::member::member_of_pod(&pod, None, Timestamp::UNIX_EPOCH);
    assert_eq!((member.restarts, member.exit_code), (1, None));
    let spec = serde_json::from_value(json!({"containers": [
        {"name": "istio-proxy", "image": "theirs:9"},
        {"name": "collector", "image": "c:1-system"}]}))
    .unwrap();
    let image = crate::pool::template::image_of(None, Some(&spec));
    assert_eq!(image, Some("c:1-system"));
}

/// Scenario: a pod's node has been lost for one, two and three minutes. For the same times, another
/// pod's container isn't ready, one has someone else's readiness gate, and one is overdue for
/// deletion. Guarantee: after two minutes a lost node is distinguished from a pod that isn't ready
/// for its own reasons.
#[test]
fn a_lost_node_is_told_from_a_pod_that_is_not_ready() {
    let lost = |metadata: serde_json::Value, ready: serde_json::Value, containers: &str| {
        let mut ready = ready;
        ready["type"] = "Ready".into();
        ready["lastTransitionTime"] = "1970-01-01T00:00:00Z".into();
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata,
            "spec": {"nodeName": "n", "containers": []},
            "status": {"conditions": [ready,
                {"type": "ContainersReady", "status": containers}]}}))
        .unwrap();
        let at = |second| pod_figures(&pod, Timestamp::from_second(second).unwrap());
        [60, 120, 180].map(|second| at(second).find_trouble())
    };
    let gone = Some(millrace_rollout::Trouble::NodeLost);
    let not = json!({"status": "False"});
    assert_eq!(lost(json!({}), not.clone(), "True"), [None, gone, gone]);
    assert_eq!(lost(json!({}), not, "False"), [None; 3]);
    let gate = json!({"status": "False", "reason": "ReadinessGatesNotReady"});
    assert_eq!(lost(json!({}), gate, "True"), [None; 3]);
    assert_eq!(lost(json!({}), json!({"status": "True"}), "True"), [None; 3]);
    let ends = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
    assert_eq!(lost(ends, json!({"status": "True"}), "True"), [None, gone, gone]);
}
