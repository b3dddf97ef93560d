//! Whether a child still is what was last applied, by its metadata alone.
//!
//! Server-side apply records in `managedFields` which manager owns which field, and takes a field
//! from its owner when someone else changes it (Kubernetes' documentation, "Server-Side Apply",
//! field management). So a child that carries the desired state's hash, and of which exactly the
//! desired fields are ours, holds what we wrote and needn't be read. Its watch carries all of that.
//!
//! Whatever is not understood, such as a list merged by an unknown key, makes two states differ:
//! then the child is read.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::compare::{is_atomic, merge_keys, within};
use super::{APPLIED_HASH_ANNOTATION, CHILDREN_MANAGER};

/// Lists merged by a key whose items have one manager each.
const ATOMIC_ITEMS: [&str; 2] = ["ownerReferences", "imagePullSecrets"];
/// What has no manager, or isn't applied.
const NOT_MANAGED: [&str; 5] =
    ["apiVersion", "kind", "status", "metadata.name", "metadata.namespace"];

/// The applied hash and our fields, as a fingerprint of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedState(u64);

impl AppliedState {
    /// The state in a child's metadata. None for one that is being deleted, was never applied by
    /// us, or names no manager.
    #[must_use]
    pub fn of<K: kube::Resource>(child: &K) -> Option<Self> {
        if child.meta().deletion_timestamp.is_some() {
            return None;
        }
        let hash = child.annotations().get(APPLIED_HASH_ANNOTATION)?;
        let mut ours = child.managed_fields().iter().filter(|entry| is_ours(entry));
        let (entry, other) = (ours.next()?, ours.next());
        let fields = &entry.fields_v1.as_ref()?.0;
        other.is_none().then(|| Self::new(hash, fields))
    }

    /// The state that `wanted`, applied as a whole with this hash, has until somebody changes it.
    #[must_use]
    pub fn expected(wanted: &Value, hash: &str) -> Self {
        Self::new(hash, &fields(wanted))
    }

    fn new(hash: &str, fields: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        // Objects are printed in the order of their keys.
        (hash, fields.to_string()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The fields of our last apply; `None` if there was none.
#[must_use]
pub fn ours<K: kube::Resource>(child: &K) -> Option<&Value> {
    let entry = child.managed_fields().iter().find(|entry| is_ours(entry))?;
    Some(&entry.fields_v1.as_ref()?.0)
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(CHILDREN_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or("").is_empty()
}

/// The fields of an applied object in the API server's form (`FieldsV1`).
#[must_use]
pub fn fields(applied: &Value) -> Value {
    owned(applied, &mut String::new())
}

fn owned(value: &Value, path: &mut String) -> Value {
    match value {
        Value::Object(fields) if !is_atomic(path) => {
            let mut all = Map::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                within(path, key, |path| {
                    if !NOT_MANAGED.contains(&path.as_str()) {
                        all.insert(format!("f:{key}"), owned(value, path));
                    }
                });
            }
            Value::Object(all)
        }
        Value::Array(items) => match merge_keys(path) {
            Some(keys) => items.iter().map(|item| owned_item(item, keys, path)).collect(),
            None => json!({}),
        },
        _ => json!({}),
    }
}

/// An item of a list that is merged by `keys`.
fn owned_item(item: &Value, keys: &[&str], path: &mut String) -> (String, Value) {
    let key_of = |key: &&str| match item.get(*key) {
        Some(value) => ((*key).to_owned(), value.clone()),
        // The only key with a default.
        None => ((*key).to_owned(), json!("TCP")),
    };
    let label = format!("k:{}", Value::Object(keys.iter().map(key_of).collect()));
    let list = path.rsplit('.').next().unwrap_or("");
    if ATOMIC_ITEMS.contains(&list) {
        return (label, json!({}));
    }
    let mut fields = owned(item, path);
    fields["."] = json!({});
    (label, fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ObjectMeta};
    use kube::core::PartialObjectMeta;

    type Child = PartialObjectMeta<k8s_openapi::api::apps::v1::DaemonSet>;

    /// What was applied, and the metadata that a watch then carried, for each kind of child,
    /// recorded from Kubernetes 1.34.
    const CAPTURED: [&str; 7] = [
        include_str!("../../testdata/claims/configmap.json"),
        include_str!("../../testdata/claims/daemonset.json"),
        include_str!("../../testdata/claims/networkpolicy.json"),
        include_str!("../../testdata/claims/poddisruptionbudget.json"),
        include_str!("../../testdata/claims/service.json"),
        include_str!("../../testdata/claims/serviceaccount.json"),
        include_str!("../../testdata/claims/statefulset.json"),
    ];

    fn captured(text: &str) -> (Value, String, Child) {
        let mut captured: Value = serde_json::from_str(text).unwrap();
        let metadata: ObjectMeta =
            serde_json::from_value(captured["live"]["metadata"].take()).unwrap();
        let live = Child { metadata, ..Child::default() };
        let hash = live.annotations()[APPLIED_HASH_ANNOTATION].clone();
        (captured["applied"].take(), hash, live)
    }

    /// Scenario: children of every kind as a real API server keeps them. Guarantee: what their
    /// metadata claims is what was expected of what was applied, and of nothing else.
    #[test]
    fn what_is_expected_is_what_a_real_server_says() {
        for text in CAPTURED {
            let (applied, hash, live) = captured(text);
            let ours = live.managed_fields().iter().find(|entry| is_ours(entry)).unwrap();
            assert_eq!(fields(&applied), ours.fields_v1.as_ref().unwrap().0);
            assert_eq!(AppliedState::of(&live), Some(AppliedState::expected(&applied, &hash)));
            assert_ne!(AppliedState::of(&live), Some(AppliedState::expected(&applied, "another")));
            let mut more = applied;
            more["spec"]["more"] = json!(1);
            assert_ne!(AppliedState::of(&live), Some(AppliedState::expected(&more, &hash)));
        }
    }

    /// Scenario: someone else takes a field, whichever; or the child is on its way out, was never
    /// applied by us, or we updated it besides. Guarantee: its claim is another, or none.
    #[test]
    fn a_child_that_was_touched_makes_no_such_claim() {
        let (_, _, live) = captured(CAPTURED[1]);
        let claim = AppliedState::of(&live);
        let ours = live.managed_fields().iter().position(is_ours).unwrap();
        for taken in 0..leaves(&live.managed_fields()[ours].fields_v1.as_ref().unwrap().0) {
            let mut touched = live.clone();
            let FieldsV1(fields) = touched.managed_fields_mut()[ours].fields_v1.as_mut().unwrap();
            take_leaf(fields, &mut taken.clone());
            assert_ne!(AppliedState::of(&touched), claim, "field {taken}");
        }
        let mut going = live.clone();
        going.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-09-21T14:13:20Z")).unwrap());
        assert_eq!(AppliedState::of(&going), None);
        let mut never = live.clone();
        never.managed_fields_mut().retain(|entry| !is_ours(entry));
        assert_eq!(AppliedState::of(&never), None);
        let mut twice = live.clone();
        let entry = twice.managed_fields()[ours].clone();
        twice.managed_fields_mut().push(entry);
        assert_eq!(AppliedState::of(&twice), None);
    }

    fn leaves(fields: &Value) -> usize {
        let inner = fields.as_object().unwrap();
        if inner.is_empty() { 1 } else { inner.values().map(leaves).sum() }
    }

    /// Removes the leaf of this number.
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
}
