//! A pod's metadata as the API server gives it, and what becomes of it. Pure.

use std::collections::BTreeMap;

use millrace_pipeline::pods::Pod;
use serde::Deserialize;

use crate::owner::{self, OwnerReference};
use crate::reading::{Fault, Readings};

/// Names and values of one pod's attributes, in bytes: 40 labels of the usual 50 bytes are 2 KiB,
/// and each batch of a pod's records repeats them.
pub const POD_BYTES_MAX: usize = 8 * 1024;

/// On the API server's copy of a pod that the kubelet made from a file: the uid that its directory
/// of logs has.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// What is read of a pod's metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    owner_references: Vec<OwnerReference>,
}

/// What of it becomes attributes.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The node's name.
    pub node: String,
    /// Labels: names, `*` for all, a beginning and `*`.
    pub labels: Vec<String>,
    /// Annotations, likewise.
    pub annotations: Vec<String>,
    /// Whether pods' annotations say how their logs are read.
    pub follow_annotations: bool,
}

/// What becomes of a pod's metadata.
#[derive(Debug)]
pub struct Made {
    /// Attributes, and how its logs are read.
    pub pod: Pod,
    /// Attributes that had no room.
    pub left_out: u64,
    /// Annotations that can't be used.
    pub faults: Vec<Fault>,
}

impl Metadata {
    /// The uid in the path of the pod's logs, and whether that is of a pod made from a file.
    pub(crate) fn path_uid(&self) -> (&str, bool) {
        let is_nodes = self.owner_references.iter().any(|owner| owner.kind == "Node");
        match self.annotations.get(MIRROR_ANNOTATION).filter(|_| is_nodes) {
            Some(uid) => (uid, true),
            None => (&self.uid, false),
        }
    }

    /// What becomes of it.
    #[must_use]
    pub fn made(&self, rules: &Rules) -> Made {
        let mut attributes = Vec::new();
        let (mut bytes, mut left_out) = (0, 0);
        let mut put = |name: String, value: &str| {
            let more = name.len() + value.len();
            if bytes + more > POD_BYTES_MAX {
                left_out += 1;
                return;
            }
            bytes += more;
            attributes.push((name, value.to_owned()));
        };
        put("k8s.node.name".to_owned(), &rules.node);
        for (name, value) in owner::attributes(&self.owner_references, &self.labels) {
            put(name.to_owned(), &value);
        }
        for (kind, values, wanted) in [
            ("label", &self.labels, &rules.labels),
            ("annotation", &self.annotations, &rules.annotations),
        ] {
            for (name, value) in values.iter().filter(|(name, _)| is_wanted(name, wanted)) {
                put(format!("k8s.pod.{kind}.{name}"), value);
            }
        }
        let Readings { all, containers, faults } = if rules.follow_annotations {
            Readings::of(&self.annotations)
        } else {
            Readings::default()
        };
        Made { pod: Pod { attributes, reading: all, containers }, left_out, faults }
    }
}

fn is_wanted(name: &str, wanted: &[String]) -> bool {
    wanted.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

#[cfg(test)]
#[path = "../tests/unit/metadata.rs"]
mod tests;
