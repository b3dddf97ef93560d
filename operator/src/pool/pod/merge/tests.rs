//! Tests the private parts of `pool/pod/merge.rs`.

use super::*;
use proptest::prelude::*;

fn built() -> PodTemplateSpec {
    serde_json::from_value(json!({
    "metadata": {"labels": {"app.kubernetes.io/name": "millrace-collector"}},
    "spec": {
        "serviceAccountName": "prod-edge",
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "collector", "image": "c:1", "args": ["run"],
            "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "POD_NAME", "value": "p"}],
            "volumeMounts": [{"name": "config", "mountPath": "/etc/millrace/config"}],
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
        }],
        "volumes": [{"name": "config", "configMap": {"name": "m"}}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"a": "b"}}}],
    }}))
    .unwrap()
}

fn template(spec: &Value) -> PodTemplate {
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

fn merged_with(spec: &Value) -> Value {
    to_json(&merge_template(built(), &template(spec), false).unwrap()).unwrap()
}

/// Scenario: templates set nothing, some through nulls. Guarantee: the built template is unchanged.
#[test]
fn a_template_that_says_nothing_changes_nothing() {
    for spec in [json!({}), json!({"nodeSelector": null}), json!({"tolerations": []})] {
        assert_eq!(merge_template(built(), &template(&spec), false).unwrap(), built(), "{spec}");
    }
}

/// Scenario: a template adds a container, environment and mounts, and changes a constraint and the
/// account. Guarantee: lists are merged by their keys, and the collector comes first.
#[test]
fn lists_are_merged_by_their_keys() {
    let whole = merged_with(&json!({
        "serviceAccountName": "mine",
        "imagePullSecrets": [{"name": "registry"}],
        "volumes": [{"name": "extra", "emptyDir": {}}],
        "containers": [{"name": "beside", "image": "b:1"}, {"name": "collector",
            "env": [{"name": "TZ", "value": "UTC"}],
            "volumeMounts": [{"name": "extra", "mountPath": "/extra"}]}],
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 3,
                "labelSelector": {"matchLabels": {"c": "d"}}},
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}],
    }));
    let pod = &whole["spec"];
    assert_eq!(pod["serviceAccountName"], "mine");
    assert_eq!(pod["volumes"].as_array().unwrap().len(), 2);
    assert_eq!(pod["containers"][0]["image"], "c:1");
    assert_eq!(pod["containers"][0]["env"][1], json!({"name": "TZ", "value": "UTC"}));
    assert_eq!(pod["containers"][0]["volumeMounts"][1]["mountPath"], "/extra");
    assert_eq!(pod["containers"][1]["name"], "beside");
    let spread = &pod["topologySpreadConstraints"];
    assert_eq!((&spread[0]["maxSkew"], spread.as_array().unwrap().len()), (&json!(3), 2));
    // The API replaces a selector completely.
    assert_eq!(spread[0]["labelSelector"], json!({"matchLabels": {"c": "d"}}));
}

/// Sets a field of the collector's container.
fn collector(field: &str, value: Value) -> Value {
    json!({"containers": [{"name": "collector", field: value}]})
}

/// Asserts that each spec is refused by the path of a field, with advice, and without its value.
fn are_refused(cases: &[(Value, &str, &str)]) {
    for (spec, path, why) in cases {
        let error = merge_template(built(), &template(spec), false).unwrap_err();
        assert_eq!(error.reason, millrace_crds::Reason::SpecInvalid);
        let message = error.message;
        assert!(message.starts_with("spec.podTemplate"), "{message}");
        assert!(message.contains(path) && message.contains(why), "{spec}: {message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

/// Scenario: fields are unknown, have another type, lack their key or are duplicates. Guarantee:
/// they are refused by their path.
#[test]
fn what_is_no_part_of_a_pod_is_refused_by_its_path() {
    are_refused(&[
        (json!({"tolerationz": [{}]}), "spec.tolerationz", "spelling"),
        (json!({"affinity": {"podAfinity": {}}}), "spec.affinity.podAfinity", "spelling"),
        (
            json!({"containers": [{"name": "b", "enw": [{"name": "a"}]}]}),
            "spec.containers.b.enw",
            "spelling",
        ),
        (json!({"nodeSelector": {"a/b": 5}}), "spec.nodeSelector.a/b", "a string"),
        (json!({"containers": {"name": "b"}}), "spec.containers", "another type"),
        (
            json!({"containers": [{"name": "b", "ports": [{"containerPort": "hunter2"}]}]}),
            "spec.containers.b.ports.0.containerPort",
            "i32",
        ),
        (json!({"containers": [{"image": "b:1"}]}), "spec.containers.0", "no name"),
        (json!({"volumes": [{"name": "a"}, {"name": "a"}]}), "spec.volumes.a", "twice"),
    ]);
}

/// Scenario: a template sets fields of a pod that the operator decides. Guarantee: they are refused
/// by their path. The operator's own values, and the node's network if pods don't share a node, are
/// accepted.
#[test]
fn what_would_break_a_pool_is_refused_by_its_path() {
    are_refused(&[
        (json!({"restartPolicy": "Never"}), "spec.restartPolicy", "always restarted"),
        (
            json!({"terminationGracePeriodSeconds": 5}),
            "spec.terminationGracePeriodSeconds",
            "drainSeconds",
        ),
        (json!({"hostNetwork": true}), "spec.hostNetwork", "DaemonSet"),
        (json!({"volumes": [{"name": "secrets"}]}), "spec.volumes.secrets", "rename"),
        (
            json!({"initContainers": [{"name": "collector"}]}),
            "spec.initContainers.collector",
            "another",
        ),
        (
            json!({"securityContext": {"runAsNonRoot": false}}),
            "spec.securityContext.runAsNonRoot",
            "restricted",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
            "spec.securityContext.seccompProfile",
            "restricted",
        ),
    ]);
    merged_with(&json!({"securityContext": {"runAsNonRoot": true}}));
    merge_template(built(), &template(&json!({"hostNetwork": true})), true).unwrap();
}

/// Scenario: a template sets fields of the collector's container that the operator decides, mounts
/// over its files, more rights, or exceeds the size limit. Guarantee: as above.
#[test]
fn what_would_break_the_collector_is_refused_by_its_path() {
    are_refused(&[
        (collector("image", "x".into()), "spec.containers.collector.image", "imageRepository"),
        (collector("command", json!(["x"])), "spec.containers.collector.command", "remove"),
        (collector("ports", json!([{"containerPort": 1}])), "collector.ports", "remove"),
        (collector("livenessProbe", json!({})), "collector.livenessProbe", "remove"),
        (collector("resources", json!({})), "collector.resources", "resources of the pool"),
        (collector("env", json!([{"name": "POD_NAME"}])), "collector.env.POD_NAME", "sets it"),
        (
            collector("volumeMounts", json!([{"name": "a", "mountPath": "/etc/millrace/"}])),
            "collector.volumeMounts./etc/millrace/",
            "elsewhere",
        ),
        (
            collector("volumeMounts", json!([{"name": "a", "mountPath": "/a/../etc"}])),
            "collector.volumeMounts./a/../etc",
            "elsewhere",
        ),
        (
            collector("securityContext", json!({"capabilities": {"add": ["SYS_ADMIN"]}})),
            "collector.securityContext.capabilities",
            "restricted",
        ),
        (
            collector("env", json!([{"name": "a", "value": "x".repeat(TEMPLATE_BYTES_MAX)}])),
            "spec.podTemplate: the template has",
            "at most",
        ),
    ]);
    let restricted = json!({"capabilities": {"drop": ["ALL"]}, "runAsNonRoot": true});
    merged_with(&collector("securityContext", restricted));
}

/// Scenario: a template sets a label of the selector or an annotation of the operator. Guarantee:
/// its key is refused.
#[test]
fn labels_and_annotations_of_the_operator_stay() {
    for (metadata, path) in [
        (json!({"labels": {"app.kubernetes.io/name": "x"}}), "labels.app.kubernetes.io/name"),
        (json!({"annotations": {"millrace.dev/x": "y"}}), "annotations.millrace.dev/x"),
    ] {
        let template = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let message = merge_template(built(), &template, false).unwrap_err().message;
        assert!(message.contains(&format!("spec.podTemplate.metadata.{path}")), "{message}");
    }
}

/// Returns parts of templates, and the operator's field that each changes.
fn parts() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"containers": [{"name": "beside", "image": "b:1"}]}), ""),
        (json!({"containers": [{"name": "collector", "env": [{"name": "A"}]}]}), ""),
        (
            json!({"containers": [{"name": "collector", "imagePullPolicy": "Always"}]}),
            "spec.containers.collector.imagePullPolicy",
        ),
        (json!({"initContainers": [{"name": "before", "image": "b:1"}]}), ""),
        (json!({"volumes": [{"name": "extra", "emptyDir": {}}]}), ""),
        (json!({"nodeSelector": {"a": "b"}, "runtimeClassName": "gvisor"}), ""),
        (json!({"tolerations": [{"operator": "Exists"}], "dnsPolicy": "None"}), ""),
        (json!({"securityContext": {"fsGroup": 7}}), "spec.securityContext.fsGroup"),
        (json!({"serviceAccountName": "mine"}), "spec.serviceAccountName"),
        (
            json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2,
                "whenUnsatisfiable": "ScheduleAnyway"}]}),
            "spec.topologySpreadConstraints.zone.maxSkew",
        ),
    ]
}

proptest! {
    /// Scenario: any parts are combined. Guarantee: of the built template, only fields that users
    /// may decide change; a second merge changes nothing; every written field exists.
    #[test]
    fn what_is_built_survives(parts in prop::sample::subsequence(parts(), 0..=10)) {
        let mut spec = json!({});
        for (part, _) in &parts {
            merge_value(&mut spec, part, &mut "spec".to_owned());
        }
        let once = merged_with(&spec);
        let changed = compare::find_differences(&to_json(&built()).unwrap(), &once);
        let mut may: Vec<&str> = parts.iter().map(|(_, path)| *path).collect();
        may.retain(|path| !path.is_empty());
        may.sort_unstable();
        let mut found = changed.clone();
        found.sort_unstable();
        prop_assert_eq!(found, may);
        let mut twice = once.clone();
        let theirs = json!({"spec": spec});
        merge_value(&mut twice, &theirs, &mut String::new());
        prop_assert_eq!(&twice, &once);
        prop_assert!(compare::find_differences(&theirs, &once).is_empty());
    }
}
