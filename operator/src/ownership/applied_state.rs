//! Whether a child is unchanged since the last apply, from its metadata only.
//!
//! Server-side apply records in `managedFields` which manager owns which field, and removes a field
//! from its owner when another manager changes it (Kubernetes' documentation, "Server-Side Apply",
//! field management). So a child that carries the desired state's hash, and of which exactly the
//! desired fields are ours, holds what we wrote and needn't be read. Its watch carries all of that.
//!
//! Anything unknown, such as a list merged by an unknown key, makes two states differ: then the
//! child is read.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::compare::{is_atomic, merge_keys, with_field};
use super::{APPLIED_HASH_ANNOTATION, CHILDREN_MANAGER};

/// Lists merged by a key whose items have one manager each.
const ATOMIC_ITEMS: [&str; 2] = ["ownerReferences", "imagePullSecrets"];
/// Fields that have no manager, or aren't applied.
const NOT_MANAGED: [&str; 5] =
    ["apiVersion", "kind", "status", "metadata.name", "metadata.namespace"];

/// The applied hash and our fields, as a fingerprint of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedState(u64);

impl AppliedState {
    /// Returns the state in a child's metadata; `None` for one that is being deleted, was never
    /// applied by us, or names no manager.
    #[must_use]
    pub fn of_child<K: kube::Resource>(child: &K) -> Option<Self> {
        if child.meta().deletion_timestamp.is_some() {
            return None;
        }
        let hash = child.annotations().get(APPLIED_HASH_ANNOTATION)?;
        let mut ours = child.managed_fields().iter().filter(|entry| is_ours(entry));
        let (entry, other) = (ours.next()?, ours.next());
        let fields = &entry.fields_v1.as_ref()?.0;
        other.is_none().then(|| Self::new(hash, fields))
    }

    /// Returns the state that `desired`, completely applied with this hash, has until another
    /// manager changes it.
    #[must_use]
    pub fn of_desired(desired: &Value, hash: &str) -> Self {
        Self::new(hash, &to_managed_fields(desired))
    }

    fn new(hash: &str, fields: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        // Objects are printed in the order of their keys.
        (hash, fields.to_string()).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Returns the fields of our last apply; `None` if there was none.
#[must_use]
pub fn our_fields<K: kube::Resource>(child: &K) -> Option<&Value> {
    let entry = child.managed_fields().iter().find(|entry| is_ours(entry))?;
    Some(&entry.fields_v1.as_ref()?.0)
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(CHILDREN_MANAGER)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.as_deref().unwrap_or("").is_empty()
}

/// Returns the fields of an applied object in the API server's form (`FieldsV1`).
#[must_use]
pub fn to_managed_fields(applied: &Value) -> Value {
    owned_fields(applied, &mut String::new())
}

fn owned_fields(value: &Value, path: &mut String) -> Value {
    match value {
        Value::Object(fields) if !is_atomic(path) => {
            let mut all = Map::new();
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                with_field(path, key, |path| {
                    if !NOT_MANAGED.contains(&path.as_str()) {
                        all.insert(format!("f:{key}"), owned_fields(value, path));
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

/// Returns the fields of an item of a list that is merged by `keys`.
fn owned_item(item: &Value, keys: &[&str], path: &mut String) -> (String, Value) {
    let key_of = |key: &&str| match item.get(*key) {
        Some(value) => ((*key).to_owned(), value.clone()),
        // `protocol` is the only key with a default.
        None => ((*key).to_owned(), json!("TCP")),
    };
    let label = format!("k:{}", Value::Object(keys.iter().map(key_of).collect()));
    let list = path.rsplit('.').next().unwrap_or("");
    if ATOMIC_ITEMS.contains(&list) {
        return (label, json!({}));
    }
    let mut fields = owned_fields(item, path);
    fields["."] = json!({});
    (label, fields)
}

#[cfg(test)]
mod tests;
