//! Tests of the private parts of `ownership/compare.rs`.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// Scenario: blocks that lose their last fields, one of them with a field of another manager; one
/// that loses one of two; one that is unchanged. Guarantee: only fields that an apply would make
/// null are removed.
#[test]
fn only_what_would_become_a_null_is_taken_out() {
    let live = json!({"spec": {"a": {"b": {"c": 1}}, "d": {"e": 1, "theirs": 2},
        "f": {"g": 1, "h": 2}, "i": {"j": 1}}});
    let ours = json!({"f:spec": {"f:a": {"f:b": {"f:c": {}}}, "f:d": {"f:e": {}},
        "f:f": {"f:g": {}, "f:h": {}}, "f:i": {"f:j": {}}}});
    let wanted = json!({"spec": {"a": {}, "d": {}, "f": {"g": 1}, "i": {"j": 1}, "new": {}}});
    let expected = json!({"spec": {"a": {"b": null}, "d": {"e": null}}});
    assert_eq!(emptying_patch(&wanted, &live, &ours), Some(expected));
    let wanted = json!({"spec": {"a": {"b": {}}}});
    let expected = json!({"spec": {"a": {"b": {"c": null}}}});
    assert_eq!(emptying_patch(&wanted, &live, &ours), Some(expected));
    assert_eq!(emptying_patch(&live, &live, &ours), None);
    assert_eq!(emptying_patch(&json!({"spec": {"d": {}}}), &live, &json!({})), None);
}

/// Scenario: the API server added defaults, another controller a field. Guarantee: no difference.
#[test]
fn defaults_and_the_fields_of_others_are_no_difference() {
    let wanted = json!({"spec": {"ports": [{"name": "grpc", "port": 4317}]}});
    let live = json!({"spec": {"clusterIP": "10.0.0.1", "ports": [
        {"name": "grpc", "port": 4317, "protocol": "TCP", "targetPort": 4317}]}});
    assert!(find_differences(&wanted, &live).is_empty());
}

/// Scenario: a user edits an image and removes a label. Guarantee: both are reported by their path.
#[test]
fn an_edit_is_named_by_its_path() {
    let wanted = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec":
        {"containers": [{"name": "collector", "image": "x:1"}]}}}});
    let live = json!({"metadata": {"labels": {}}, "spec": {"template": {"spec":
        {"containers": [{"name": "sidecar"}, {"name": "collector", "image": "x:2"}]}}}});
    assert_eq!(
        find_differences(&wanted, &live),
        ["metadata.labels.a", "spec.template.spec.containers.collector.image"]
    );
}

/// Scenario: quantities come back in the API server's own form. Guarantee: they are equal only if
/// their values are, and only in fields that hold quantities.
#[test]
fn quantities_are_compared_by_what_they_mean() {
    let wanted = json!({"c": {"resources": {"limits": {"memory": "1024Mi", "cpu": "0.5"}}}});
    let live = json!({"c": {"resources": {"limits": {"memory": "1Gi", "cpu": "500m"}}}});
    assert!(find_differences(&wanted, &live).is_empty());
    let live = json!({"c": {"resources": {"limits": {"memory": "2Gi", "cpu": "500m"}}}});
    assert_eq!(find_differences(&wanted, &live), ["c.resources.limits.memory"]);
    assert_eq!(find_differences(&json!({"label": "1"}), &json!({"label": "1.0"})), ["label"]);
}

/// Scenario: amounts in the API server's units, and invalid texts. Guarantee: their value, or
/// none; never a zero for an invalid text.
#[test]
fn amounts_are_read_or_left_out() {
    let read = parse_quantity;
    assert_eq!(read("1536Mi"), Some(1_610_612_736.0));
    assert_eq!((read("250m"), read("2"), read("1G")), (Some(0.25), Some(2.0), Some(1e9)));
    assert_eq!((read("5000000n"), read("5000u")), (Some(0.005), Some(0.005)));
    assert_eq!((read("x"), read("-1"), read(""), read("NaN")), (None, None, None, None));
}

/// Scenario: an atomic list lost an item. Guarantee: the complete list is reported as a difference.
#[test]
fn an_atomic_list_must_have_the_same_length() {
    let wanted = json!({"args": ["run", "--config"]});
    assert_eq!(find_differences(&wanted, &json!({"args": ["run"]})), ["args"]);
}

/// Scenario: two mounts of one volume. Guarantee: they are matched by mount path, as the API does.
#[test]
fn mounts_are_matched_by_their_path() {
    let wanted = json!({"volumeMounts": [
        {"name": "v", "mountPath": "/b"}, {"name": "v", "mountPath": "/a"}]});
    let live = json!({"volumeMounts": [
        {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]});
    assert!(find_differences(&wanted, &live).is_empty());
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Scenario: any value. Guarantee: it has no difference from itself.
    #[test]
    fn a_value_holds_itself(value in tree()) {
        prop_assert!(find_differences(&value, &value).is_empty());
    }

    /// Scenario: any object gains an undesired field. Guarantee: still no difference.
    #[test]
    fn more_fields_never_differ(value in tree()) {
        let mut live = json!({"wanted": value, "other": 1});
        let wanted = json!({"wanted": value});
        prop_assert!(find_differences(&wanted, &live).is_empty());
        live["wanted"] = Value::from("changed by hand");
        if !is_nothing(&value) {
            prop_assert_eq!(find_differences(&wanted, &live), vec!["wanted".to_owned()]);
        }
    }
}
