//! Tests of the private parts of `cache/objects/packed.rs`.

use super::*;
use kube::ResourceExt;
use millrace_crds::v1alpha1::EdgePool;

fn pool(spec: &Value) -> Value {
    json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool",
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "generation": 3, "annotations": {"example.com/note": "a"},
            "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
        },
        "spec": spec,
    })
}

/// Scenario: a pool is packed and unpacked. Guarantee: it is unchanged except for managed fields,
/// and can be identified without unpacking it.
#[test]
fn what_is_unpacked_is_what_was_packed() {
    let spec = json!({"kafka": {"bootstrapServers": ["k:9092"]}, "signals": {"traces": {}}});
    let packed: Packed<EdgePool> = serde_json::from_value(pool(&spec)).unwrap();
    assert_eq!(packed.name_any(), "a");
    assert_eq!(packed.resource_version().as_deref(), Some("7"));
    let mut whole: EdgePool = serde_json::from_value(pool(&spec)).unwrap();
    whole.managed_fields_mut().clear();
    whole.metadata.managed_fields = None;
    assert_eq!(packed.clone().unpack().0.unwrap(), whole);
}

/// Scenario: two managers own a pool's number of pods, a third does not. Guarantee: only the two
/// owners are retained.
#[test]
fn whose_the_number_of_pods_is_stays_known() {
    let mut whole = pool(&json!({"kafka": {"bootstrapServers": ["k:9092"]},
        "signals": {"traces": {}}, "replicas": 3}));
    let fields = json!({"f:spec": {"f:replicas": {}, "f:kafka": {}}});
    let entry = |manager: &str, fields: &Value| json!({"manager": manager, "fieldsV1": fields});
    whole["metadata"]["managedFields"] = json!([
        entry("kubectl", &fields),
        entry("other", &json!({"f:spec": {"f:kafka": {}}})),
        entry("hpa", &fields)
    ]);
    let packed: Packed<EdgePool> = serde_json::from_value(whole).unwrap();
    let pool = packed.unpack().0.unwrap();
    let owners = pool.managed_fields().iter().map(|entry| entry.manager.clone().unwrap());
    assert_eq!(owners.collect::<Vec<_>>(), ["kubectl", "hpa"]);
}

/// Scenario: a pool whose spec doesn't parse. Guarantee: it is packed anyway; unpacking reports the
/// error and the metadata of the pool.
#[test]
fn a_pool_that_does_not_parse_is_told_when_unpacked() {
    let packed: Packed<EdgePool> = serde_json::from_value(pool(&json!({"kafka": 7}))).unwrap();
    let invalid = packed.unpack().0.unwrap_err();
    assert!(!invalid.error.is_empty());
    assert_eq!(invalid.metadata.generation, Some(3));
}
