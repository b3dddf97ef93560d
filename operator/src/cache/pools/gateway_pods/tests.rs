//! Tests of the private parts of `cache/pools/gateway_pods.rs`.

use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn pod(namespace: &str, pool: &str, name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name,
        "labels": {INSTANCE: pool}}}))
    .unwrap()
}

fn names(pods: &GatewayPods, namespace: &str, pool: &str, now: Timestamp) -> Option<Vec<String>> {
    let pods = pods.pods_of_pool(namespace, pool, now)?;
    Some(pods.iter().map(ResourceExt::name_any).collect())
}

/// Scenario: a watch lists pods of two pools, one comes and one goes. Guarantee: nothing is known
/// before the list is complete; then exactly a pool's pods are returned, and none of a pool without.
#[test]
fn a_pools_pods_are_known_once_the_list_is_complete() {
    let pods = GatewayPods::default();
    let scope = pods.add_scope(None);
    let tell = |event| pods.record_event(scope, event);
    tell(watcher::Event::Init);
    tell(watcher::Event::InitApply(pod("a", "prod", "prod-0")));
    tell(watcher::Event::InitApply(pod("b", "prod", "prod-0")));
    assert_eq!(names(&pods, "a", "prod", NOW), None);
    tell(watcher::Event::InitDone);
    tell(watcher::Event::Apply(pod("a", "prod", "prod-1")));
    assert_eq!(names(&pods, "a", "prod", NOW).unwrap(), ["prod-0", "prod-1"]);
    tell(watcher::Event::Delete(pod("a", "prod", "prod-0")));
    assert_eq!(names(&pods, "a", "prod", NOW).unwrap(), ["prod-1"]);
    assert_eq!(names(&pods, "b", "prod", NOW).unwrap(), ["prod-0"]);
    assert_eq!(names(&pods, "a", "other", NOW).unwrap(), [""; 0]);
    tell(watcher::Event::Init);
    assert_eq!(names(&pods, "a", "prod", NOW), None);
}

/// Scenario: of two watched namespaces, the watch of one fails; a third is not watched. Guarantee:
/// the failed one isn't trusted for a minute, the other is, and nothing is known of the third.
#[test]
fn a_watch_that_fails_is_not_trusted() {
    let pods = GatewayPods::default();
    let scopes = [pods.add_scope(Some("a")), pods.add_scope(Some("b"))];
    for scope in scopes {
        pods.record_event(scope, watcher::Event::Init);
        pods.record_event(scope, watcher::Event::InitDone);
    }
    pods.record_failure(scopes[0], NOW);
    let later = |seconds| NOW + SignedDuration::from_secs(seconds);
    assert_eq!(names(&pods, "a", "prod", later(59)), None);
    assert!(names(&pods, "a", "prod", later(60)).is_some());
    assert!(names(&pods, "b", "prod", NOW).is_some());
    assert_eq!(names(&pods, "c", "prod", NOW), None);
}

/// Scenario: pods with our labels that together are larger than the store's limit. Guarantee: the
/// scope reports once that it is full, stores nothing more, and knows no pool's pods until it lists
/// fewer.
#[test]
fn a_full_place_knows_no_pods() {
    let pods = GatewayPods::default();
    let scope = pods.add_scope(None);
    pods.record_event(scope, watcher::Event::Init);
    let mut large = pod("a", "prod", "prod-0");
    large.annotations_mut().insert("text".into(), "x".repeat(PODS_BYTES_MAX / 2));
    assert!(!pods.record_event(scope, watcher::Event::InitApply(large.clone())));
    // The same pod again replaces the first.
    assert!(!pods.record_event(scope, watcher::Event::InitApply(large.clone())));
    large.metadata.name = Some("prod-1".into());
    assert!(pods.record_event(scope, watcher::Event::InitApply(large.clone())));
    assert!(!pods.record_event(scope, watcher::Event::InitApply(large)));
    pods.record_event(scope, watcher::Event::InitDone);
    assert_eq!(names(&pods, "a", "prod", NOW), None);
    assert!(pods.scopes.lock().unwrap()[0].pools.is_empty());
    pods.record_event(scope, watcher::Event::Init);
    pods.record_event(scope, watcher::Event::InitDone);
    assert_eq!(names(&pods, "a", "prod", NOW).unwrap(), [""; 0]);
}
