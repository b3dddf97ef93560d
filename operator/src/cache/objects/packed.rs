//! One of our own objects in its controller's store: its identity, and the rest as JSON, without
//! managed fields except the owners of the number of pods. A typed object would use several times
//! as much memory.
//!
//! It is unpacked at each use. An object that does not parse fails then, not in the watch, where it
//! would stop the others. Limits: the size of the JSON, about 1.5 KiB for a pool.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use kube::Resource;
use kube::core::error_boundary::InvalidObject;
use kube::core::{DeserializeGuard, ObjectMeta};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// An object of kind `K`, packed.
pub struct Packed<K> {
    /// Name, namespace, uid and resource version only.
    identity: ObjectMeta,
    json: Box<[u8]>,
    kind: PhantomData<fn() -> K>,
}

impl<K: DeserializeOwned> Packed<K> {
    /// Returns the object, or why it does not parse.
    #[must_use]
    pub fn unpack(&self) -> DeserializeGuard<K> {
        DeserializeGuard(serde_json::from_slice(&self.json).map_err(|error| {
            let metadata = serde_json::from_slice(&self.json);
            let metadata = metadata.map(|it: Metadata| it.metadata);
            InvalidObject {
                error: error.to_string(),
                metadata: metadata.unwrap_or_else(|_| self.identity.clone()),
            }
        }))
    }
}

#[derive(Deserialize)]
struct Metadata {
    metadata: ObjectMeta,
}

/// Reduces managed fields to the owners of `spec.replicas`.
fn owners_of_replicas(managed: Value) -> Option<Value> {
    let Value::Array(managed) = managed else { return None };
    let owns = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    let fields = json!({"f:spec": {"f:replicas": {}}});
    let named = |entry: &Value| json!({"manager": entry["manager"], "fieldsV1": fields});
    let owners: Vec<Value> = managed.iter().filter(owns).map(named).collect();
    (!owners.is_empty()).then(|| owners.into())
}

impl<'de, K> Deserialize<'de> for Packed<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // Field ownership would use half of the memory. Only the owner of the number of pods
            // matters (`pool::scale`).
            let owners = metadata.remove("managedFields").and_then(owners_of_replicas);
            metadata.extend(owners.map(|owners| ("managedFields".to_owned(), owners)));
        }
        let metadata = ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
        let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata;
        let identity =
            ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        let json = serde_json::to_vec(&object).map_err(D::Error::custom)?.into_boxed_slice();
        Ok(Self { identity, json, kind: PhantomData })
    }
}

impl<K> Clone for Packed<K> {
    fn clone(&self) -> Self {
        Self { identity: self.identity.clone(), json: self.json.clone(), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Packed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packed").field("name", &self.identity.name).finish_non_exhaustive()
    }
}

impl<K: Resource> Resource for Packed<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &K::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &K::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.identity
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.identity
    }
}

#[cfg(test)]
mod tests;
