//! Tests of what `metadata.rs` keeps to itself.

use millrace_pipeline::pods::{Reading, Wanted};

use super::*;

fn metadata(text: &str) -> Metadata {
    serde_json::from_str(text).unwrap()
}

fn rules(labels: &[&str], annotations: &[&str]) -> Rules {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Rules {
        node: "n1".into(),
        labels: owned(labels),
        annotations: owned(annotations),
        follow_annotations: true,
    }
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
        let Made { pod: found, left_out, .. } = pod.made(&rules(labels, annotations));
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
    let Made { pod: found, left_out, .. } = pod.made(&rules(&[], &["*"]));
    assert_eq!(left_out, 1);
    assert_eq!(found.attributes.last().map(|(name, _)| &**name), Some("k8s.pod.annotation.b"));
}

/// Scenario: a pod with annotations of how its logs are read, one of which is wrong, where they are
/// followed and where they aren't. Guarantee: they hold, and the wrong one is told; or nothing of
/// it. Other attributes are the same.
#[test]
fn annotations_hold_where_they_are_followed() {
    let pod = metadata(
        r#"{"labels": {"a": "1"}, "annotations": {"millrace.dev/logs": "off",
            "millrace.dev/logs-parser": "xml", "millrace.dev/logs.app": "on"}}"#,
    );
    let rules = rules(&["*"], &[]);
    let followed = pod.made(&rules);
    let wanted = |container: &str| followed.pod.reading(container).wanted;
    assert_eq!(
        (wanted("web"), wanted("app")),
        (Some(Wanted::Off), Some(Wanted::On)),
        "a container's own word goes before"
    );
    assert_eq!(followed.faults.len(), 1);
    let ignored = pod.made(&Rules { follow_annotations: false, ..rules });
    assert_eq!(ignored.pod.reading("web"), Reading::default());
    assert_eq!((ignored.faults, ignored.pod.attributes), (vec![], followed.pod.attributes));
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
