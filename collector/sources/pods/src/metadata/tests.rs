//! Tests of converting metadata.

use millrace_pipeline::pods::{LogReading, Reading};

use super::*;

fn metadata(text: &str) -> Metadata {
    serde_json::from_str(text).unwrap()
}

fn rules(labels: &[&str], annotations: &[&str]) -> MetadataRules {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    MetadataRules {
        node: "n1".into(),
        labels: owned(labels),
        annotations: owned(annotations),
        follow_annotations: true,
    }
}

/// Scenario: rules name all labels and annotations of a pod, some by a prefix, one, and none.
/// Guarantee: exactly those become attributes, with the names of OpenTelemetry's conventions.
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
        let PodDescription { pod: found, omitted: left_out, .. } =
            pod.describe_pod(&rules(labels, annotations));
        let mut names = found.attributes.into_iter();
        assert_eq!(names.next(), Some(("k8s.node.name".into(), "n1".into())));
        let names = names.map(|(name, value)| {
            format!("{}={value}", name.strip_prefix("k8s.pod.").unwrap_or("?"))
        });
        assert_eq!((names.collect::<Vec<_>>().join(" ").as_str(), left_out), (expected, 0));
    }
}

/// Scenario: an annotation longer than the limit precedes one that fits. Guarantee: it is skipped
/// and counted, and the other one is present.
#[test]
fn what_is_over_the_bound_is_left_out_and_counted() {
    let long = "x".repeat(POD_BYTES_MAX);
    let pod = metadata(&format!(r#"{{"annotations": {{"a": "{long}", "b": "1"}}}}"#));
    let PodDescription { pod: found, omitted: left_out, .. } =
        pod.describe_pod(&rules(&[], &["*"]));
    assert_eq!(left_out, 1);
    assert_eq!(found.attributes.last().map(|(name, _)| &**name), Some("k8s.pod.annotation.b"));
}

/// Scenario: a pod has annotations about its logs, one of them invalid; rules follow them or not.
/// Guarantee: they apply, and the invalid one is reported; or none is read. Other attributes are
/// the same.
#[test]
fn annotations_hold_where_they_are_followed() {
    let pod = metadata(
        r#"{"labels": {"a": "1"}, "annotations": {"millrace.dev/logs": "off",
            "millrace.dev/logs-parser": "xml", "millrace.dev/logs.app": "on"}}"#,
    );
    let rules = rules(&["*"], &[]);
    let followed = pod.describe_pod(&rules);
    let wanted = |container: &str| followed.pod.container_reading(container).logs;
    assert_eq!(
        (wanted("web"), wanted("app")),
        (Some(LogReading::Off), Some(LogReading::On)),
        "a container's own word goes before"
    );
    assert_eq!(followed.faults.len(), 1);
    let ignored = pod.describe_pod(&MetadataRules { follow_annotations: false, ..rules });
    assert_eq!(ignored.pod.container_reading("web"), Reading::default());
    assert_eq!((ignored.faults, ignored.pod.attributes), (vec![], followed.pod.attributes));
}

/// Scenario: the API server has the copy of a static pod, and a pod that only claims to be one.
/// Guarantee: the former's uid is that of its directory; the latter's is its own.
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
