//! What is kept of watches: changes, lists, what nobody asks for.

use super::*;

fn path(namespace: &str, name: &str) -> Path {
    (namespace.to_owned(), name.to_owned())
}

fn pod(ip: &str) -> Kept {
    Kept::Pod(Pod { ip: ip.to_owned(), ..Pod::default() })
}

/// Scenario: pods come, stay as they are, change and go. Guarantee: the version moves with changes
/// alone.
#[test]
fn the_version_moves_when_something_changes() {
    let mut state = State::default();
    let mut moved = |change: &dyn Fn(&mut State)| {
        let before = state.version;
        change(&mut state);
        state.version != before
    };
    assert!(moved(&|it| it.put(path("a", "b"), pod("1"))));
    assert!(!moved(&|it| it.put(path("a", "b"), pod("1"))));
    assert!(moved(&|it| it.put(path("a", "b"), pod("2"))));
    assert!(moved(&|it| it.remove(Watched::Pods, &path("a", "b"))));
    assert!(moved(&|it| it.stage(Watched::Pods, 0, Stage::Whole)));
    assert!(!moved(&|it| it.stage(Watched::Pods, 0, Stage::Whole)));
}

/// Scenario: a watch of one namespace reads its list again, without a pod that is gone. Guarantee:
/// that pod is dropped; those of other namespaces and kinds stay.
#[test]
fn a_list_drops_what_it_does_not_have_in_its_namespace() {
    let mut state = State::default();
    for (namespace, name) in [("a", "stays"), ("a", "gone"), ("b", "other")] {
        state.put(path(namespace, name), pod("1"));
    }
    state.put(path("a", "gone"), Kept::Service(Service::default()));
    state.settle(Watched::Pods, Some("a"), &BTreeSet::from([path("a", "stays")]));
    let pods: Vec<_> = state.cluster.pods.values().flat_map(|of| of.keys()).collect();
    assert_eq!(pods, ["stays", "other"]);
    assert_eq!(state.cluster.services["a"].len(), 1);
    state.forget(Watched::Pods);
    assert!(state.cluster.pods.is_empty() && !state.cluster.services.is_empty());
}
