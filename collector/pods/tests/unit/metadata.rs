//! Tests of what `metadata.rs` keeps to itself.

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
        let text =
            format!(r#"{{"uid": "u", "annotations": {{"{MIRROR_ANNOTATION}": "hash"}}{owners}}}"#);
        let pod = metadata(&text);
        let (uid, is_mirror) = pod.path_uid();
        (uid.to_owned(), is_mirror)
    };
    assert_eq!(of(r#", "ownerReferences": [{"kind": "Node"}]"#), ("hash".into(), true));
    assert_eq!(of(""), ("u".into(), false));
}
