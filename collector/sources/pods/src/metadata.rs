//! Converts a pod's metadata from the API server to attributes and reading settings. Pure.

mod owner;
pub(crate) mod reading;

use std::collections::BTreeMap;

use millrace_pipeline::pods::PodInfo;
use millrace_processing::enrich::{AttributeValue, PodAttributes};
use serde::Deserialize;

use crate::metadata::owner::OwnerReference;
use crate::metadata::reading::{AnnotationFault, Readings};

/// The most bytes of one pod's attributes, names and values: 40 labels of the usual 50 bytes are 2
/// KiB, and each batch of a pod's records repeats them.
pub const POD_BYTES_MAX: usize = 8 * 1024;

/// The annotation on the API server's copy of a static pod: the uid in its log directory's name.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The parts of a pod's metadata that are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) deletion_timestamp: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<OwnerReference>,
}

/// The rules that select attributes.
#[derive(Clone, Debug)]
pub struct MetadataRules {
    /// The node's name.
    pub node: String,
    /// Labels: names, `*` for all, or a prefix and `*`.
    pub labels: Vec<String>,
    /// Annotations, in the same form.
    pub annotations: Vec<String>,
    /// Whether pods' annotations determine how their logs are read.
    pub follow_annotations: bool,
}

/// The result of converting a pod's metadata.
#[derive(Debug)]
pub struct PodDescription {
    /// Attributes, and how its logs are read.
    pub pod: PodInfo,
    /// The number of attributes that exceed the limit.
    pub omitted: u64,
    /// Invalid annotations.
    pub faults: Vec<AnnotationFault>,
}

impl Metadata {
    /// Returns the uid in the path of the pod's logs, and whether it is a static pod's.
    pub(crate) fn path_uid(&self) -> (&str, bool) {
        let is_nodes = self.owner_references.iter().any(|owner| owner.kind == "Node");
        match self.annotations.get(MIRROR_ANNOTATION).filter(|_| is_nodes) {
            Some(uid) => (uid, true),
            None => (&self.uid, false),
        }
    }

    /// Converts the metadata.
    #[must_use]
    pub fn describe_pod(&self, rules: &MetadataRules) -> PodDescription {
        let mut selected = SelectedAttributes::default();
        selected.put("k8s.node.name", &rules.node);
        self.select(&mut selected, &rules.labels, &rules.annotations);
        let SelectedAttributes { attributes, omitted, .. } = selected;
        let Readings { all, containers, faults } = if rules.follow_annotations {
            Readings::from_annotations(&self.annotations)
        } else {
            Readings::default()
        };
        PodDescription { pod: PodInfo { attributes, reading: all, containers }, omitted, faults }
    }

    /// Returns the attributes that a namespace's pods get: its labels that the list selects. Also
    /// returns the number of those that exceed the limit.
    pub(crate) fn namespace_attributes(&self, patterns: &[String]) -> (PodAttributes, u64) {
        let mut selected = SelectedAttributes::default();
        for (name, value) in self.labels.iter().filter(|(name, _)| is_selected(name, patterns)) {
            selected.put(&format!("k8s.namespace.label.{name}"), value);
        }
        let SelectedAttributes { attributes, omitted, .. } = selected;
        let encoded: Vec<(&str, AttributeValue<'_>)> =
            attributes.iter().map(|(name, value)| (&**name, AttributeValue::Text(value))).collect();
        (PodAttributes::encode(&encoded), omitted)
    }

    /// Adds the owners, and the labels and annotations that the lists select.
    pub(crate) fn select(
        &self,
        selected: &mut SelectedAttributes,
        labels: &[String],
        annotations: &[String],
    ) {
        for (name, value) in owner::owner_attributes(&self.owner_references, &self.labels) {
            selected.put(name, &value);
        }
        for (kind, values, patterns) in
            [("label", &self.labels, labels), ("annotation", &self.annotations, annotations)]
        {
            for (name, value) in values.iter().filter(|(name, _)| is_selected(name, patterns)) {
                selected.put(&format!("k8s.pod.{kind}.{name}"), value);
            }
        }
    }
}

/// A pod's attributes, within [`POD_BYTES_MAX`].
#[derive(Debug, Default)]
pub(crate) struct SelectedAttributes {
    pub(crate) attributes: Vec<(String, String)>,
    bytes: usize,
    /// The number of attributes that exceed the limit.
    pub(crate) omitted: u64,
}

impl SelectedAttributes {
    /// Adds an attribute, or counts it as omitted.
    pub(crate) fn put(&mut self, name: &str, value: &str) {
        let more = name.len() + value.len();
        if self.bytes + more > POD_BYTES_MAX {
            self.omitted += 1;
            return;
        }
        self.bytes += more;
        self.attributes.push((name.to_owned(), value.to_owned()));
    }
}

fn is_selected(name: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

#[cfg(test)]
mod tests;
