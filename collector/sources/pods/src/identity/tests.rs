//! Tests of converting pods.

use serde_json::{Value, json};

use super::*;

fn identity(mut pod: Value, config: Value) -> (PodIdentity, u64) {
    for (name, value) in [("name", "p"), ("namespace", "s"), ("uid", "u")] {
        pod["metadata"][name] = value.into();
    }
    let pod: Object = serde_json::from_value(pod).unwrap();
    PodIdentity::from_pod(&pod, &serde_json::from_value(config).unwrap())
}

fn encode(attributes: &[(&str, &str)]) -> PodAttributes {
    let own = [("k8s.namespace.name", "s"), ("k8s.pod.name", "p"), ("k8s.pod.uid", "u")];
    let all = own.iter().chain(attributes);
    let pairs: Vec<_> = all.map(|(name, value)| (*name, AttributeValue::Text(value))).collect();
    PodAttributes::encode(&pairs)
}

/// Scenario: pods with a node, owners, labels and annotations, and settings that select some.
/// Guarantee: records get what the cluster knows and what is selected, under the names of
/// OpenTelemetry's conventions.
#[test]
fn records_get_what_is_known_and_selected() {
    let pod = json!({
        "metadata": {
            "labels": {"app": "cart", "team.io/a": "1", "pod-template-hash": "f6"},
            "annotations": {"note": "n", "secret": "s"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-f6",
                                 "controller": true}],
        },
        "spec": {"nodeName": "n1", "containers": [{"image": "a:1"}, {"image": "b:2"}]},
    });
    let owned = [
        ("k8s.node.name", "n1"),
        ("k8s.deployment.name", "cart"),
        ("k8s.replicaset.name", "cart-f6"),
    ];
    let selected = [("k8s.pod.label.team.io/a", "1"), ("k8s.pod.annotation.note", "n")];
    for (config, more) in [
        (json!({}), &[][..]),
        (json!({"labels": ["team.io/*"], "annotations": ["note"]}), &selected[..]),
    ] {
        let (found, omitted) = identity(pod.clone(), config);
        assert_eq!(found.attributes, encode(&[&owned[..], more].concat()));
        assert_eq!((found.name_key.as_str(), omitted), ("s/p", 0));
    }
}

/// Scenario: statuses with one address, both families, IPv4 within IPv6, the same twice, none, and
/// text that is no address; pods on the host's network, stated and only by their addresses; pods
/// that end. Guarantee: each address once and as IPv4; whose addresses are the node's; whether the
/// pod has ended.
#[test]
fn addresses_and_states_are_read() {
    let cases = [
        (json!({}), vec![], false, false),
        (json!({"podIP": "10.0.0.1"}), vec!["10.0.0.1"], false, false),
        (
            json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}),
            vec!["10.0.0.1", "fd00::1"],
            false,
            false,
        ),
        (json!({"podIP": "::ffff:10.0.0.1"}), vec!["10.0.0.1"], false, false),
        (json!({"podIP": "", "podIPs": [{"ip": "x"}, {}]}), vec![], false, false),
        (
            json!({"podIP": "192.0.2.1", "hostIP": "192.0.2.1", "phase": "Running"}),
            vec!["192.0.2.1"],
            true,
            false,
        ),
        (
            json!({"podIP": "fd00::2", "hostIP": "192.0.2.1", "hostIPs": [{"ip": "fd00::2"}]}),
            vec!["fd00::2"],
            true,
            false,
        ),
        (json!({"podIP": "10.0.0.1", "phase": "Succeeded"}), vec!["10.0.0.1"], false, true),
        (json!({"podIP": "10.0.0.1", "phase": "Failed"}), vec!["10.0.0.1"], false, true),
    ];
    for (status, addresses, is_on_host_network, has_ended) in cases {
        let (found, _) = identity(json!({"metadata": {}, "status": status}), json!({}));
        let texts: Vec<String> = found.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(texts, addresses, "{status}");
        assert_eq!((found.is_on_host_network, found.has_ended), (is_on_host_network, has_ended));
    }
    let spec = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                      "spec": {"hostNetwork": true}});
    let (found, _) = identity(spec, json!({}));
    assert!(found.is_on_host_network && found.is_terminating);
}

/// Scenario: pods with one container, whose image has a registry's port, a tag, a digest, or none
/// of these. Guarantee: name and tag are separate, and a digest is neither.
#[test]
fn the_only_containers_image_is_an_attribute() {
    for (image, name, tag) in [
        ("cart", "cart", None),
        ("cart:1.2", "cart", Some("1.2")),
        ("r.io:5000/shop/cart", "r.io:5000/shop/cart", None),
        ("r.io:5000/shop/cart:1.2@sha256:ab", "r.io:5000/shop/cart", Some("1.2")),
        ("cart@sha256:ab", "cart", None),
    ] {
        assert_eq!(split_image(image), (name, tag));
        let pod = json!({"metadata": {}, "spec": {"containers": [{"image": image}]}});
        let (found, _) = identity(pod, json!({}));
        let has = |text: &str| {
            found.attributes.bytes().windows(text.len()).any(|bytes| bytes == text.as_bytes())
        };
        assert!(has(IMAGE_NAME) && has(name) && has(IMAGE_TAGS) == tag.is_some(), "{image}");
    }
}

/// Scenario: labels over the limit of one pod. Guarantee: those beyond it are omitted and counted.
#[test]
fn attributes_over_the_limit_are_omitted() {
    let long = "x".repeat(crate::metadata::POD_BYTES_MAX);
    let pod = json!({"metadata": {"labels": {"a": long, "b": "1"}}});
    let (found, omitted) = identity(pod, json!({"labels": ["*"]}));
    assert_eq!((found.attributes, omitted), (encode(&[("k8s.pod.label.b", "1")]), 1));
}
