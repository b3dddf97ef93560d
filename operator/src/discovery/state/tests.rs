//! Tests of the stored state of watches: changes, lists, and kinds that no pool needs.

use super::*;

fn path(namespace: &str, name: &str) -> NamespacedName {
    (namespace.to_owned(), name.to_owned())
}

fn pod(ip: &str) -> CachedObject {
    CachedObject::Pod(PodObject { ip: ip.to_owned(), ..PodObject::default() })
}

/// Scenario: pods are added, stay unchanged, change and are deleted. Guarantee: the version moves
/// only with changes.
#[test]
fn the_version_moves_when_something_changes() {
    let mut state = DiscoveryState::default();
    let mut moved = |change: &dyn Fn(&mut DiscoveryState)| {
        let before = state.version;
        change(&mut state);
        state.version != before
    };
    assert!(moved(&|it| it.put_object(path("a", "b"), pod("1"))));
    assert!(!moved(&|it| it.put_object(path("a", "b"), pod("1"))));
    assert!(moved(&|it| it.put_object(path("a", "b"), pod("2"))));
    assert!(moved(&|it| it.remove(Watched::Pods, &path("a", "b"))));
    assert!(moved(&|it| it.set_stage(Watched::Pods, 0, WatchStage::Complete)));
    assert!(!moved(&|it| it.set_stage(Watched::Pods, 0, WatchStage::Complete)));
}

/// Scenario: a watch of one namespace reads its list again, without a deleted pod. Guarantee: that
/// pod is dropped; those of other namespaces and kinds remain.
#[test]
fn a_list_drops_what_it_does_not_have_in_its_namespace() {
    let mut state = DiscoveryState::default();
    for (namespace, name) in [("a", "stays"), ("a", "gone"), ("b", "other")] {
        state.put_object(path(namespace, name), pod("1"));
    }
    state.put_object(path("a", "gone"), CachedObject::Service(ServiceObject::default()));
    state.finish_list(Watched::Pods, Some("a"), &BTreeSet::from([path("a", "stays")]));
    let pods: Vec<_> = state.cluster.pods.values().flat_map(|of| of.keys()).collect();
    assert_eq!(pods, ["stays", "other"]);
    assert_eq!(state.cluster.services["a"].len(), 1);
    state.remove_kind(Watched::Pods);
    assert!(state.cluster.pods.is_empty() && !state.cluster.services.is_empty());
}
