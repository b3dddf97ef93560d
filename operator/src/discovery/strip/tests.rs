//! Tests of which fields of the API server's objects are retained.

use serde_json::json;

use super::*;

/// Scenario: a pod as the API server sends it, with a status that changes all the time. Guarantee:
/// the fields of meta labels are retained; a long annotation and other fields are not.
#[test]
fn of_a_pod_what_meta_labels_need_is_kept() {
    let long = "x".repeat(millrace_monitors::TEXT_BYTES_MAX + 1);
    let sent = json!({
        "metadata": {"name": "a", "namespace": "shop", "uid": "u",
            "labels": {"app": "a"}, "annotations": {"prometheus.io/scrape": "true", "long": long},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a-1", "uid": "2",
                    "controller": true}]},
        "spec": {"nodeName": "n1", "initContainers": [{"name": "init"}],
            "containers": [{"name": "app", "image": "i",
                "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}]}]},
        "status": {"podIP": "10.0.0.1", "hostIP": "10.1.0.1", "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "app", "containerID": "c://1", "image": "", "imageID": "",
                "ready": true, "restartCount": 0}]}
    });
    let kept = strip_pod(serde_json::from_value(sent).unwrap());
    assert_eq!(
        (kept.ip.as_str(), kept.node.as_str(), kept.ready.as_str()),
        ("10.0.0.1", "n1", "true")
    );
    assert_eq!(kept.controller, Some(("ReplicaSet".to_owned(), "a-1".to_owned())));
    assert_eq!(kept.annotations.keys().collect::<Vec<_>>(), ["prometheus.io/scrape"]);
    let names: Vec<_> = kept.containers.iter().map(|it| (it.name.as_str(), it.is_init)).collect();
    assert_eq!(names, [("app", false), ("init", true)]);
    assert_eq!(
        (kept.containers[0].id.as_str(), kept.containers[0].ports[0].number),
        ("c://1", Some(80))
    );
}

/// Scenario: an EndpointSlice with a terminating endpoint. Guarantee: its Service, ports,
/// conditions and the pod behind it are retained.
#[test]
fn of_a_slice_endpoints_with_their_pods_are_kept() {
    let sent = json!({
        "metadata": {"name": "api-x", "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "api"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 80}, {}],
        "endpoints": [{"addresses": ["10.0.0.1"], "zone": "z1",
            "conditions": {"ready": false, "terminating": true},
            "targetRef": {"kind": "Pod", "name": "api-1"}}]
    });
    let kept = strip_slice(serde_json::from_value(sent).unwrap());
    assert_eq!(kept.service, "api");
    assert_eq!(kept.ports.iter().map(|port| port.number).collect::<Vec<_>>(), [Some(80), None]);
    let endpoint = &kept.endpoints[0];
    assert_eq!((endpoint.is_ready, endpoint.is_terminating), (Some(false), Some(true)));
    assert_eq!(endpoint.target, Some(("Pod".to_owned(), "api-1".to_owned())));
}
