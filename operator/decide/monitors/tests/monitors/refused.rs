//! Tests that each unsupported field of monitors is named.

use millrace_monitors::{FaultEffect, Monitor, MonitorId, MonitorKind, supported_fields};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns a spec with a value at a path such as `spec.endpoints[].port`, and the path with its
/// indexes.
fn spec_with(path: &str, value: Value) -> (Value, String) {
    let mut out = value;
    for part in path.split('.').skip(1).collect::<Vec<_>>().into_iter().rev() {
        out = match part.strip_suffix("[]") {
            Some(name) => json!({ name: [out] }),
            None => json!({ part: out }),
        };
    }
    if let Some(spec) = out.as_object_mut() {
        // Without a selector a monitor's endpoints aren't read.
        spec.entry("selector").or_insert(json!({}));
    }
    (out, path.replace("[]", "[0]"))
}

fn monitor(kind: MonitorKind, spec: &Value) -> Monitor {
    let id = MonitorId { kind, namespace: "a".to_owned(), name: "b".to_owned() };
    Monitor::new(id, spec)
}

/// Scenario: each field that the table marks as refused, ignored or without effect, alone.
/// Guarantee: reading it gives the table's fault at that field, and none if it has no effect.
#[test]
fn each_field_of_the_table_is_read_as_it_says() {
    for known in supported_fields() {
        let (spec, at) = spec_with(&known.field, json!("x"));
        let monitor = monitor(known.kind, &spec);
        let told = monitor.faults().iter().find(|fault| fault.field == at);
        let effect = told.map(|fault| fault.effect);
        let (word, why) = known.becomes.split_once(": ").unwrap_or((&known.becomes, ""));
        match word {
            "refused" => assert_eq!(effect, Some(FaultEffect::NotScraped), "{known:?}"),
            "ignored" => assert_eq!(effect, Some(FaultEffect::Ignored), "{known:?}"),
            "no effect" => assert_eq!(effect, None, "{known:?}"),
            _ => assert_eq!(known.becomes, "supported"),
        }
        if let Some(fault) = told {
            assert!(fault.why.contains(why), "{known:?}: {fault}");
        }
    }
}

/// Scenario: an unknown field. Guarantee: it is named, and everything else is applied.
#[test]
fn an_unknown_field_is_named_and_the_rest_taken() {
    let spec = json!({"selector": {}, "new": 1, "endpoints": [{"port": "x", "newer": {}}]});
    let monitor = monitor(MonitorKind::ServiceMonitor, &spec);
    let told: Vec<_> = monitor.faults().iter().map(|fault| fault.field.as_str()).collect();
    assert_eq!(told, ["spec.new", "spec.endpoints[0].newer"]);
    assert!(monitor.faults().iter().all(|fault| fault.effect == FaultEffect::Ignored));
}

/// Scenario: rules, patterns and paths that can't be used. Guarantee: the fault names the index in
/// the monitor's own list.
#[test]
fn a_rule_that_cannot_be_used_is_named_by_its_place() {
    for (spec, field) in [
        (
            json!({"port": "x", "relabelings": [{"targetLabel": "a"}, {"regex": "("}]}),
            "spec.endpoints[0].relabelings[1]",
        ),
        (
            json!({"metricRelabelings": [{"action": "keep", "regex": "("}]}),
            "spec.endpoints[0].metricRelabelings[0]",
        ),
        (json!({"port": "("}), "spec.endpoints[0]"),
        (json!({"relabelings": [{"action": "no"}]}), "spec.endpoints[0].relabelings[0].action"),
        (json!({"path": "/a b"}), "spec.endpoints[0].path"),
        (json!({"proxyUrl": "https://p:1"}), "spec.endpoints[0].proxyUrl"),
        (
            json!({"tlsConfig": {"cert": {"secret": {"name": "a", "key": "b"}}}}),
            "spec.endpoints[0].tlsConfig",
        ),
        (json!({"authorization": {}}), "spec.endpoints[0].authorization"),
    ] {
        let spec = json!({"selector": {}, "endpoints": [spec]});
        let monitor = monitor(MonitorKind::ServiceMonitor, &spec);
        let told: Vec<_> = monitor.faults().iter().map(|fault| fault.field.as_str()).collect();
        assert!(told.contains(&field), "{field}: {:?}", monitor.faults());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/(:.$0-9]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-zA-Z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Scenario: any value in any field, as anyone who may write monitors could send. Guarantee:
    /// reading ends, with a bounded number of faults, each at a field.
    #[test]
    fn any_spec_can_be_read(
        place in any::<proptest::sample::Index>(),
        value in any_json(),
    ) {
        let known = supported_fields();
        let known = &known[place.index(known.len())];
        let (spec, _) = spec_with(&known.field, value);
        let monitor = monitor(known.kind, &spec);
        prop_assert!(monitor.faults().len() <= millrace_monitors::FAULTS_MAX);
        prop_assert!(monitor.faults().iter().all(|fault| fault.field.starts_with("spec")));
    }
}
