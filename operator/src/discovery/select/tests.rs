//! Tests of which monitors a pool selects, and when they are unknown.

use std::collections::BTreeMap;

use millrace_monitors::{Holds, MonitorId, Requirement};
use serde_json::json;

use super::super::strip;
use super::*;

fn wants(kinds: &[MonitorKind], namespaces: Option<Selector>) -> DiscoveryRequest {
    let pick = Pick { selector: Selector::default(), namespaces };
    let monitors = kinds.iter().map(|kind| (*kind, pick.clone())).collect();
    DiscoveryRequest { monitors, annotated: None, interval_seconds: 30 }
}

fn labelled() -> Selector {
    let holds = Holds::In(vec!["red".to_owned()]);
    Selector(vec![Requirement { key: "team".to_owned(), holds }])
}

/// Returns a completely read state, with a PodMonitor in each of three namespaces.
fn state() -> DiscoveryState {
    let mut state = DiscoveryState::default();
    for (namespace, team) in [("own", "red"), ("red", "red"), ("blue", "blue")] {
        let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        state.namespaces.insert(namespace.to_owned(), labels);
        let object = json!({"apiVersion": "v1", "kind": "x", "spec": {"selector": {}},
            "metadata": {"name": "m", "namespace": namespace, "uid": namespace, "generation": 1}});
        let kept =
            strip::strip_monitor(MonitorKind::PodMonitor, &serde_json::from_value(object).unwrap());
        let (kind, namespace) = (MonitorKind::PodMonitor, namespace.to_owned());
        state.monitors.insert(MonitorId { kind, namespace, name: "m".to_owned() }, kept);
    }
    for watched in [
        Watched::Monitors(MonitorKind::PodMonitor),
        Watched::Pods,
        Watched::Nodes,
        Watched::Namespaces,
    ] {
        state.set_stage(watched, 0, WatchStage::Complete);
    }
    state
}

fn found(
    state: &DiscoveryState,
    wants: &DiscoveryRequest,
    is_wide: bool,
) -> Result<Vec<String>, DiscoveryError> {
    let found = select_for_pool(state, ("own", "pool"), wants, is_wide)?;
    Ok(found.uids.into_values().collect())
}

/// Scenario: pools that select monitors of their own namespace, of all, and of namespaces by
/// labels. Guarantee: they get these monitors; a pool that may not select other namespaces is
/// refused, with the field.
#[test]
fn monitors_are_picked_by_namespace_if_the_pool_may() {
    let state = state();
    let kinds = [MonitorKind::PodMonitor];
    assert_eq!(found(&state, &wants(&kinds, None), false).unwrap(), ["own"]);
    let all = wants(&kinds, Some(Selector::default()));
    assert_eq!(found(&state, &all, true).unwrap(), ["blue", "own", "red"]);
    assert_eq!(found(&state, &wants(&kinds, Some(labelled())), true).unwrap(), ["own", "red"]);
    let refused = found(&state, &all, false).unwrap_err();
    assert_eq!(refused, DiscoveryError::Across("podMonitors", "own".to_owned()));
    assert!(refused.to_string().contains("discovery.acrossNamespaces"), "{refused}");
    let reach = |is_wide| {
        select_for_pool(&state, ("own", "pool"), &wants(&kinds, None), is_wide).unwrap().reach
    };
    assert!(
        reach(true).has_namespace("blue")
            && !reach(false).has_namespace("blue")
            && reach(false).has_namespace("own")
    );
}

/// Scenario: a kind that isn't read yet, isn't served, is refused; nodes that are refused.
/// Guarantee: there is no result before all is read; a kind that isn't served has no objects;
/// without nodes only zones are missing.
#[test]
fn nothing_is_said_before_all_is_read() {
    let wanted = wants(&[MonitorKind::PodMonitor], None);
    let mut state = state();
    state.set_stage(Watched::Nodes, 0, WatchStage::Waiting(Some("no right".to_owned())));
    assert!(found(&state, &wanted, false).is_ok());
    state.set_stage(Watched::Pods, 0, WatchStage::Waiting(Some("no right".to_owned())));
    let refused = found(&state, &wanted, false).unwrap_err();
    assert_eq!(refused.to_string(), "Pods are not read yet: no right");
    state.set_stage(Watched::Pods, 0, WatchStage::Complete);
    state.set_stage(Watched::Pods, 1, WatchStage::Waiting(None));
    assert!(found(&state, &wanted, false).is_err());
    state.set_stage(Watched::Pods, 1, WatchStage::Complete);
    state.set_stage(Watched::Monitors(MonitorKind::PodMonitor), 0, WatchStage::NotServed);
    assert!(found(&state, &wanted, false).is_ok());
}

/// Scenario: pools that select one kind each. Guarantee: only the kinds from which its targets are
/// built are watched.
#[test]
fn only_what_targets_are_made_of_is_watched() {
    let needs = |kind, namespaces| {
        needed_watches(&wants(&[kind], namespaces)).into_iter().collect::<Vec<_>>()
    };
    let probe = MonitorKind::Probe;
    assert_eq!(needs(probe, None), [Watched::Monitors(probe)]);
    assert_eq!(needs(probe, Some(Selector::default())), [Watched::Monitors(probe)]);
    let by_labels = needs(probe, Some(labelled()));
    assert_eq!(by_labels, [Watched::Monitors(probe), Watched::Namespaces]);
    let pod = MonitorKind::PodMonitor;
    assert_eq!(needs(pod, None), [Watched::Monitors(pod), Watched::Pods, Watched::Nodes]);
    assert_eq!(needs(MonitorKind::ServiceMonitor, None).len(), 5);
}
