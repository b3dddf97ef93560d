//! Steps that add metadata to records. The fields are those of the collector's setting
//! `processing`, but for the scope of the watch, which follows from the pool's mode.
//!
//! Limits: 4 associations, 64 labels and 64 annotations of 317 characters.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::v1alpha1::rules;

/// The most names of labels or annotations in a list.
const NAMES_MAX: usize = 64;
/// The most characters of one: a prefix of 253, a slash and a name of 63.
const NAME_CHARACTERS_MAX: usize = 317;

/// Adds metadata to the records of OTLP clients, as resource attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrichStep {
    /// Metadata of the pod that sent the records: namespace, name, uid, node, owners, the image of
    /// its only container, and chosen labels and annotations. An empty object uses the defaults.
    /// The pool's service account needs the right to watch pods (podAccess.grant of the
    /// chart). A pool in mode DaemonSet knows the pods of each node, another one those of the
    /// cluster. Records never wait for it.
    pub pod_metadata: PodMetadataStep,
}

/// Metadata of the pod that sent the records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMetadataStep {
    /// How the pod is found, in this order: Connection (the address of the client's connection),
    /// PodUid (k8s.pod.uid), PodIp (k8s.pod.ip), PodName (k8s.namespace.name and k8s.pod.name). A
    /// resource that names an unknown pod gets no metadata. Default: Connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "set"))]
    pub association: Vec<PodAssociation>,
    /// Pod labels to add (k8s.pod.label.NAME): names, or prefixes that end in `*`, at most 64.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = bound_names)]
    pub labels: Vec<String>,
    /// Pod annotations to add (k8s.pod.annotation.NAME): names, or prefixes that end in `*`, at
    /// most 64. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = bound_names)]
    pub annotations: Vec<String>,
    /// Labels of the pod's namespace to add (k8s.namespace.label.NAME): names, or prefixes that end
    /// in `*`, at most 64. The pool's service account needs the right to list and watch namespaces,
    /// too. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(transform = bound_names)]
    pub namespace_labels: Vec<String>,
    /// What happens to attributes that clients sent under the same names: Overwrite (the cluster's
    /// values replace them, also forged ones) or Keep. Default: Overwrite.
    #[serde(default, skip_serializing_if = "OnConflict::is_default")]
    pub on_conflict: OnConflict,
}

/// Bounds a list of names, or prefixes that end in `*`.
fn bound_names(schema: &mut Schema) {
    rules::bound_texts(schema, NAMES_MAX, NAME_CHARACTERS_MAX);
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("pattern".to_owned(), json!(r"^[^*]*\*?$"));
    }
}

/// How the pod that sent records is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodAssociation {
    /// By the address of the client's connection.
    Connection,
    /// By the attribute k8s.pod.uid.
    PodUid,
    /// By the attribute k8s.pod.ip.
    PodIp,
    /// By the attributes k8s.namespace.name and k8s.pod.name.
    PodName,
}

/// What happens to attributes that clients sent under the names of metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnConflict {
    /// The cluster's values replace them.
    #[default]
    Overwrite,
    /// They stay.
    Keep,
}

impl OnConflict {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
