//! Tests of what `deprecated.rs` keeps to itself.

use super::{CustomResourceDefinition, Value, deprecation_policy, json};

/// A definition whose spec has these fields.
fn definition(fields: &Value) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": fields}
                }}},
            }],
        },
    }))
    .unwrap()
}

/// Scenario: no field of a definition is deprecated; no field of our own is. Guarantee: there is no
/// policy, so that the chart installs none.
#[test]
fn nothing_deprecated_needs_no_policy() {
    let fields = json!({"a": {"type": "string", "description": "A text."}});
    assert_eq!(deprecation_policy(&definition(&fields)).unwrap(), None);
    for crd in crate::all_definitions().unwrap() {
        assert_eq!(deprecation_policy(&crd).unwrap(), None, "{}", crd.spec.names.kind);
    }
}

/// Scenario: deprecated fields in the spec, in an object, in a list's objects, in a map's, one with
/// a name that is CEL's own word. Guarantee: each has an expression that is false just for objects
/// with it, and a message with its path and what to write; the policy warns and refuses nothing.
#[test]
fn a_deprecated_field_has_a_warning_with_its_path() {
    let old = json!({"type": "string", "description": "Deprecated: write spec.new. Default: 1."});
    let object = json!({"type": "object", "properties": {"old": old}});
    let fields = json!({
        "a": old,
        "b": object,
        "c": {"type": "array", "items": object},
        "d": {"type": "object", "additionalProperties": object},
        "in": old,
    });
    let [policy, binding] = deprecation_policy(&definition(&fields)).unwrap().unwrap();
    let rules: Vec<(&str, &str)> = policy["spec"]["validations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["expression"].as_str().unwrap(), it["message"].as_str().unwrap()))
        .collect();
    let wanted = [
        ("!(has(object.spec) && has(object.spec.a))", "spec.a"),
        ("!(has(object.spec) && has(object.spec.b) && has(object.spec.b.old))", "spec.b.old"),
        (
            "!(has(object.spec) && has(object.spec.c) && object.spec.c.exists(it0, has(it0.old)))",
            "spec.c[].old",
        ),
        (
            "!(has(object.spec) && has(object.spec.d) && \
             object.spec.d.exists(it0, has(object.spec.d[it0].old)))",
            "spec.d.*.old",
        ),
        ("!(has(object.spec) && has(object.spec.__in__))", "spec.in"),
    ];
    for (rule, (expression, path)) in rules.iter().zip(wanted) {
        assert_eq!(*rule, (expression, &*format!("{path} is deprecated: write spec.new")));
    }
    assert_eq!(rules.len(), wanted.len());
    assert_eq!(policy["spec"]["failurePolicy"], "Ignore");
    assert_eq!(binding["spec"]["validationActions"], json!(["Warn"]));
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
}
