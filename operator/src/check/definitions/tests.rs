//! Tests of the private parts of `check/definitions.rs`.

use serde_json::json;

use super::*;

/// Returns the page of an API server with these definitions.
fn page() -> Value {
    let schemas = OWN.as_ref().unwrap().iter().map(|OwnSchema { kind, schema, .. }| {
        let mut published = schema.clone();
        published["x-kubernetes-group-version-kind"] =
            json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
        (format!("dev.millrace.{VERSION}.{kind}"), published)
    });
    json!({"components": {"schemas": schemas.collect::<serde_json::Map<_, _>>()}})
}

/// Returns the first field that a kind's published schema lacks, or an empty string.
fn lacking(page: &Value, kind: &str) -> String {
    let own = OWN.as_ref().unwrap().iter().find(|it| it.kind == kind).unwrap();
    missing(&own.schema, published(page, kind).unwrap(), "").unwrap_or_default()
}

/// Scenario: the operator's own definitions; then without a field of the spec, without one in a
/// list's elements, and with a field that the operator doesn't know. Guarantee: the missing field
/// is named with its path; fields of a newer definition don't matter.
#[test]
fn a_field_that_a_definition_lacks_is_named_with_its_path() {
    let whole = page();
    for definition in millrace_crds::all_definitions().unwrap() {
        assert_eq!(lacking(&whole, &definition.spec.names.kind), "");
    }
    let schemas = "/components/schemas/dev.millrace.v1alpha1.";
    let cases = [
        ("EdgePool", "/properties/spec/properties", "kafka", "spec.kafka"),
        (
            "EdgePool",
            "/properties/status/properties/conditions/items/properties",
            "reason",
            "status.conditions[].reason",
        ),
    ];
    for (kind, place, name, told) in cases {
        let mut older = whole.clone();
        let fields = older.pointer_mut(&format!("{schemas}{kind}{place}")).unwrap();
        assert!(fields.as_object_mut().unwrap().remove(name).is_some(), "{told}");
        assert_eq!(lacking(&older, kind), told);
    }
    let mut newer = whole;
    let place = format!("{schemas}EdgePool/properties/spec");
    newer.pointer_mut(&place).unwrap()["properties"]["later"] = json!({"type": "string"});
    assert_eq!(lacking(&newer, "EdgePool"), "");
}
