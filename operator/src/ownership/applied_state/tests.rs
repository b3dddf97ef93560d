//! Tests of the private parts of `ownership/applied_state.rs`.

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ObjectMeta};
use kube::core::PartialObjectMeta;

type Child = PartialObjectMeta<k8s_openapi::api::apps::v1::DaemonSet>;

/// The applied object, and the metadata that a watch then carried, for each kind of child, recorded
/// from Kubernetes 1.34.
const CAPTURED: [&str; 7] = [
    include_str!("../../../testdata/claims/configmap.json"),
    include_str!("../../../testdata/claims/daemonset.json"),
    include_str!("../../../testdata/claims/networkpolicy.json"),
    include_str!("../../../testdata/claims/poddisruptionbudget.json"),
    include_str!("../../../testdata/claims/service.json"),
    include_str!("../../../testdata/claims/serviceaccount.json"),
    include_str!("../../../testdata/claims/statefulset.json"),
];

fn captured(text: &str) -> (Value, String, Child) {
    let mut captured: Value = serde_json::from_str(text).unwrap();
    let metadata: ObjectMeta = serde_json::from_value(captured["live"]["metadata"].take()).unwrap();
    let live = Child { metadata, ..Child::default() };
    let hash = live.annotations()[APPLIED_HASH_ANNOTATION].clone();
    (captured["applied"].take(), hash, live)
}

/// Scenario: children of every kind as a real API server stores them. Guarantee: the state in their
/// metadata is the expected one of the applied object, and of no other.
#[test]
fn what_is_expected_is_what_a_real_server_says() {
    for text in CAPTURED {
        let (applied, hash, live) = captured(text);
        let ours = live.managed_fields().iter().find(|entry| is_ours(entry)).unwrap();
        assert_eq!(to_managed_fields(&applied), ours.fields_v1.as_ref().unwrap().0);
        assert_eq!(AppliedState::of_child(&live), Some(AppliedState::of_desired(&applied, &hash)));
        assert_ne!(
            AppliedState::of_child(&live),
            Some(AppliedState::of_desired(&applied, "another"))
        );
        let mut more = applied;
        more["spec"]["more"] = json!(1);
        assert_ne!(AppliedState::of_child(&live), Some(AppliedState::of_desired(&more, &hash)));
    }
}

/// Scenario: another manager takes any one field; or the child is being deleted, was never applied
/// by us, or we also updated it. Guarantee: its state is different, or none.
#[test]
fn a_child_that_was_touched_makes_no_such_claim() {
    let (_, _, live) = captured(CAPTURED[1]);
    let claim = AppliedState::of_child(&live);
    let ours = live.managed_fields().iter().position(is_ours).unwrap();
    for taken in 0..leaves(&live.managed_fields()[ours].fields_v1.as_ref().unwrap().0) {
        let mut touched = live.clone();
        let FieldsV1(fields) = touched.managed_fields_mut()[ours].fields_v1.as_mut().unwrap();
        take_leaf(fields, &mut taken.clone());
        assert_ne!(AppliedState::of_child(&touched), claim, "field {taken}");
    }
    let mut going = live.clone();
    going.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-09-21T14:13:20Z")).unwrap());
    assert_eq!(AppliedState::of_child(&going), None);
    let mut never = live.clone();
    never.managed_fields_mut().retain(|entry| !is_ours(entry));
    assert_eq!(AppliedState::of_child(&never), None);
    let mut twice = live.clone();
    let entry = twice.managed_fields()[ours].clone();
    twice.managed_fields_mut().push(entry);
    assert_eq!(AppliedState::of_child(&twice), None);
}

fn leaves(fields: &Value) -> usize {
    let inner = fields.as_object().unwrap();
    if inner.is_empty() { 1 } else { inner.values().map(leaves).sum() }
}

/// Removes the leaf with this number.
fn take_leaf(fields: &mut Value, number: &mut usize) -> bool {
    let inner = fields.as_object_mut().unwrap();
    let mut taken = None;
    for (name, field) in inner.iter_mut() {
        if field.as_object().unwrap().is_empty() {
            if *number == 0 {
                taken = Some(name.clone());
                break;
            }
            *number -= 1;
        } else if take_leaf(field, number) {
            return true;
        }
    }
    taken.is_some_and(|name| inner.remove(&name).is_some())
}
