//! A pod's metadata as the API server gives it, and what becomes of it. Pure.

use std::collections::BTreeMap;

use millrace_pipeline::pods::Pod;
use serde::Deserialize;

use crate::owner::{self, OwnerReference};

/// Says `off` where a pod's logs aren't wanted.
pub const OFF_ANNOTATION: &str = "millrace.dev/logs";

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

    /// What becomes of it, and how many attributes had no room.
    pub(crate) fn pod(&self, rules: &Rules) -> (Pod, u64) {
        let is_off = self.annotations.get(OFF_ANNOTATION).is_some_and(|value| value == "off");
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
        (Pod { attributes, is_off }, left_out)
    }
}

fn is_wanted(name: &str, wanted: &[String]) -> bool {
    wanted.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(text: &str) -> Metadata {
        serde_json::from_str(text).unwrap()
    }

    fn rules(labels: &[&str], annotations: &[&str]) -> Rules {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Rules { node: "n1".into(), labels: owned(labels), annotations: owned(annotations) }
    }

    /// Scenario: a pod with labels and annotations, under rules that name all, some by their
    /// beginning, one, and none. Guarantee: what is named becomes attributes under the names of
    /// OpenTelemetry's conventions, and nothing else.
    #[test]
    fn labels_and_annotations_that_are_named_become_attributes() {
        let pod = metadata(
            r#"{"labels": {"app": "cart", "team.io/a": "1", "team.io/b": "2"},
                "annotations": {"note": "n", "secret": "s"}, "managedFields": [{}]}"#,
        );
        for (labels, annotations, expected) in [
            (&["*"][..], &[][..], "label.app=cart label.team.io/a=1 label.team.io/b=2"),
            (&["team.io/*"], &["note"], "label.team.io/a=1 label.team.io/b=2 annotation.note=n"),
            (&["app"], &[], "label.app=cart"),
            (&[], &[], ""),
        ] {
            let (found, left_out) = pod.pod(&rules(labels, annotations));
            let mut names = found.attributes.into_iter();
            assert_eq!(names.next(), Some(("k8s.node.name".into(), "n1".into())));
            let names = names.map(|(name, value)| {
                format!("{}={value}", name.strip_prefix("k8s.pod.").unwrap_or("?"))
            });
            assert_eq!((names.collect::<Vec<_>>().join(" ").as_str(), left_out), (expected, 0));
        }
    }

    /// Scenario: an annotation longer than a pod may have, before one that fits. Guarantee: it is
    /// left out and counted, and the rest is there.
    #[test]
    fn what_is_over_the_bound_is_left_out_and_counted() {
        let long = "x".repeat(POD_BYTES_MAX);
        let pod = metadata(&format!(r#"{{"annotations": {{"a": "{long}", "b": "1"}}}}"#));
        let (found, left_out) = pod.pod(&rules(&[], &["*"]));
        assert_eq!(left_out, 1);
        assert_eq!(found.attributes.last().map(|(name, _)| &**name), Some("k8s.pod.annotation.b"));
    }

    /// Scenario: the annotation of pods that want no logs, with this value, another, and absent.
    /// Guarantee: `off` alone switches off.
    #[test]
    fn off_is_said_by_one_word() {
        for (value, expected) in [("off", true), ("on", false), ("", false)] {
            let pod = metadata(&format!(r#"{{"annotations": {{"{OFF_ANNOTATION}": "{value}"}}}}"#));
            assert_eq!(pod.pod(&rules(&[], &[])).0.is_off, expected, "{value}");
        }
        assert!(!metadata("{}").pod(&rules(&[], &[])).0.is_off);
    }

    /// Scenario: the API server's copy of a pod from a file, and a pod that only claims to be one.
    /// Guarantee: the uid of the former is that of its directory; the latter's is its own.
    #[test]
    fn a_pod_from_a_file_is_known_by_the_uid_of_its_directory() {
        let of = |owners: &str| {
            let text = format!(
                r#"{{"uid": "u", "annotations": {{"{MIRROR_ANNOTATION}": "hash"}}{owners}}}"#
            );
            let pod = metadata(&text);
            let (uid, is_mirror) = pod.path_uid();
            (uid.to_owned(), is_mirror)
        };
        assert_eq!(of(r#", "ownerReferences": [{"kind": "Node"}]"#), ("hash".into(), true));
        assert_eq!(of(""), ("u".into(), false));
    }
}
