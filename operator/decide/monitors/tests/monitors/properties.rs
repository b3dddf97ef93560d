//! Properties of all rules.

use millrace_monitors::MonitorKind::ServiceMonitor;
use millrace_monitors::{Monitor, MonitorId};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::monitors::cluster::{cluster, scraped};

/// Labels that rules read and write: meta labels, inner ones, own ones.
const LABELS: [&str; 10] = [
    "__meta_kubernetes_pod_name",
    "__meta_kubernetes_pod_label_app",
    "__meta_kubernetes_pod_labelpresent_app",
    "__meta_kubernetes_service_label_team",
    "__meta_kubernetes_endpointslice_port_name",
    "__meta_kubernetes_node_label_disk",
    "__metrics_path__",
    "__param_x",
    "namespace",
    "own",
];

fn label() -> impl Strategy<Value = String> {
    proptest::sample::select(&LABELS[..]).prop_map(str::to_owned)
}

/// A rule that matches values, not labels' names.
fn rule() -> impl Strategy<Value = Value> {
    let action = proptest::sample::select(
        &["replace", "keep", "drop", "keepequal", "dropequal", "hashmod", "lowercase", "uppercase"]
            [..],
    );
    let regex = proptest::sample::select(&["(.*)", "(.+)", "api-1", "", "a.*|s.*", ".*-2"][..]);
    (action, proptest::collection::vec(label(), 1..3), regex, label()).prop_map(
        |(action, sources, regex, target)| {
            let mut rule = json!({"action": action, "sourceLabels": sources});
            if !action.ends_with("equal") {
                rule["regex"] = regex.into();
            }
            if action == "hashmod" {
                rule["modulus"] = 3.into();
            }
            if !["keep", "drop"].contains(&action) {
                rule["targetLabel"] = target.into();
            }
            rule
        },
    )
}

fn monitor(name: &str, rules: &[Value]) -> Monitor {
    let id =
        MonitorId { kind: ServiceMonitor, namespace: "shop".to_owned(), name: name.to_owned() };
    let spec = json!({"selector": {}, "attachMetadata": {"node": true},
        "endpoints": [{"targetPort": 8080, "relabelings": rules}]});
    Monitor::new(id, &spec)
}

proptest! {
    /// Scenario: any rules, and the same with one that matches labels' names and changes nothing,
    /// so that all meta labels are created. Guarantee: the targets are the same, so no rule sees
    /// the omitted meta labels.
    #[test]
    fn labels_that_no_rule_sees_need_not_be_made(
        rules in proptest::collection::vec(rule(), 0..6),
    ) {
        let all = json!({"action": "labeldrop", "regex": "no_such_label"});
        let seen: Vec<Value> = rules.iter().cloned().chain([all]).collect();
        let some = scraped(&cluster(), vec![monitor("m", &rules)]);
        let all = scraped(&cluster(), vec![monitor("m", &seen)]);
        prop_assert_eq!(some.targets, all.targets);
        prop_assert_eq!(some.faults, all.faults);
    }

    /// Scenario: monitors in any order. Guarantee: the same result, sorted, without duplicates.
    #[test]
    fn the_order_of_monitors_does_not_matter(
        rules in proptest::collection::vec(proptest::collection::vec(rule(), 0..3), 1..5),
        first in any::<proptest::sample::Index>(),
    ) {
        let names: Vec<String> = (0..rules.len()).map(|at| format!("m{at}")).collect();
        let monitors = || names.iter().zip(&rules).map(|(name, rules)| monitor(name, rules));
        let one = scraped(&cluster(), monitors().collect());
        let mut turned: Vec<Monitor> = monitors().collect();
        let middle = first.index(turned.len());
        turned.rotate_left(middle);
        let other = scraped(&cluster(), turned);
        prop_assert!(one.targets.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(one, other);
    }
}
