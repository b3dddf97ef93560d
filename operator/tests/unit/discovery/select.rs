//! Which monitors a pool has, and when nothing can be said of them.

use std::collections::BTreeMap;

use millrace_monitors::{Holds, MonitorId, Requirement};
use serde_json::json;

use super::super::strip;
use super::*;

fn wants(kinds: &[MonitorKind], namespaces: Option<Selector>) -> Wants {
    let pick = Pick { selector: Selector::default(), namespaces };
    let monitors = kinds.iter().map(|kind| (*kind, pick.clone())).collect();
    Wants { monitors, annotated: None, interval_seconds: 30 }
}

fn labelled() -> Selector {
    let holds = Holds::In(vec!["red".to_owned()]);
    Selector(vec![Requirement { key: "team".to_owned(), holds }])
}

/// A state in which all is read, with a PodMonitor in each of three namespaces.
fn state() -> State {
    let mut state = State::default();
    for (namespace, team) in [("own", "red"), ("red", "red"), ("blue", "blue")] {
        let labels = BTreeMap::from([("team".to_owned(), team.to_owned())]);
        state.namespaces.insert(namespace.to_owned(), labels);
        let object = json!({"apiVersion": "v1", "kind": "x", "spec": {"selector": {}},
            "metadata": {"name": "m", "namespace": namespace, "uid": namespace, "generation": 1}});
        let kept =
            strip::monitor(MonitorKind::PodMonitor, &serde_json::from_value(object).unwrap());
        let (kind, namespace) = (MonitorKind::PodMonitor, namespace.to_owned());
        state.monitors.insert(MonitorId { kind, namespace, name: "m".to_owned() }, kept);
    }
    for watched in [
        Watched::Monitors(MonitorKind::PodMonitor),
        Watched::Pods,
        Watched::Nodes,
        Watched::Namespaces,
    ] {
        state.stage(watched, 0, Stage::Whole);
    }
    state
}

fn found(state: &State, wants: &Wants, is_wide: bool) -> Result<Vec<String>, NotFound> {
    let found = find(state, ("own", "pool"), wants, is_wide)?;
    Ok(found.uids.into_values().collect())
}

/// Scenario: pools that pick monitors of their own namespace, of all, and of namespaces by labels.
/// Guarantee: they have these monitors; one that may not look elsewhere is refused, with the field.
#[test]
fn monitors_are_picked_by_namespace_if_the_pool_may() {
    let state = state();
    let kinds = [MonitorKind::PodMonitor];
    assert_eq!(found(&state, &wants(&kinds, None), false).unwrap(), ["own"]);
    let all = wants(&kinds, Some(Selector::default()));
    assert_eq!(found(&state, &all, true).unwrap(), ["blue", "own", "red"]);
    assert_eq!(found(&state, &wants(&kinds, Some(labelled())), true).unwrap(), ["own", "red"]);
    let refused = found(&state, &all, false).unwrap_err();
    assert_eq!(refused, NotFound::Across("podMonitors", "own".to_owned()));
    assert!(refused.to_string().contains("discovery.acrossNamespaces"), "{refused}");
    let reach =
        |is_wide| find(&state, ("own", "pool"), &wants(&kinds, None), is_wide).unwrap().reach;
    assert!(reach(true).has("blue") && !reach(false).has("blue") && reach(false).has("own"));
}

/// Scenario: a kind that isn't read yet, isn't served, is refused; nodes that are refused.
/// Guarantee: nothing is said before all is read; a kind that isn't served has none; without nodes
/// only zones are missing.
#[test]
fn nothing_is_said_before_all_is_read() {
    let wanted = wants(&[MonitorKind::PodMonitor], None);
    let mut state = state();
    state.stage(Watched::Nodes, 0, Stage::Waiting(Some("no right".to_owned())));
    assert!(found(&state, &wanted, false).is_ok());
    state.stage(Watched::Pods, 0, Stage::Waiting(Some("no right".to_owned())));
    let refused = found(&state, &wanted, false).unwrap_err();
    assert_eq!(refused.to_string(), "Pods are not read yet: no right");
    state.stage(Watched::Pods, 0, Stage::Whole);
    state.stage(Watched::Pods, 1, Stage::Waiting(None));
    assert!(found(&state, &wanted, false).is_err());
    state.stage(Watched::Pods, 1, Stage::Whole);
    state.stage(Watched::Monitors(MonitorKind::PodMonitor), 0, Stage::NotServed);
    assert!(found(&state, &wanted, false).is_ok());
}

/// Scenario: pools that ask for one kind each. Guarantee: only what its targets are made of is
/// watched.
#[test]
fn only_what_targets_are_made_of_is_watched() {
    let needs =
        |kind, namespaces| needs(&wants(&[kind], namespaces)).into_iter().collect::<Vec<_>>();
    let probe = MonitorKind::Probe;
    assert_eq!(needs(probe, None), [Watched::Monitors(probe)]);
    assert_eq!(needs(probe, Some(Selector::default())), [Watched::Monitors(probe)]);
    let by_labels = needs(probe, Some(labelled()));
    assert_eq!(by_labels, [Watched::Monitors(probe), Watched::Namespaces]);
    let pod = MonitorKind::PodMonitor;
    assert_eq!(needs(pod, None), [Watched::Monitors(pod), Watched::Pods, Watched::Nodes]);
    assert_eq!(needs(MonitorKind::ServiceMonitor, None).len(), 5);
}
