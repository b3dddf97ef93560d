//! Tests the private parts of `pool/pod/template.rs`.

use super::*;
use crate::context::TagDigest;

/// Scenario: a spec omits the version, for a new pool and for running pools. Guarantee: the running
/// version is retained, whatever the repository and allocator; a declared version has precedence.
#[test]
fn a_version_left_out_is_the_one_that_runs() {
    let images = Images {
        collector_repository: "millrace/collector".into(),
        collector_digests: Default::default(),
        collector_version_default: "0.2.0".into(),
        user: Some(65_532),
    };
    let mut collector = CollectorSettings::default();
    let asked = |collector: &_, running| collector_image(collector, &images, running);
    assert_eq!(asked(&collector, None), "millrace/collector:0.2.0-system");
    let running = Some("host:5000/c:0.1.0-rc.1-mimalloc");
    assert_eq!(asked(&collector, running), "millrace/collector:0.1.0-rc.1-system");
    assert_eq!(asked(&collector, Some("host:5000/c")), "millrace/collector:0.2.0-system");
    collector.version = "0.3.0".parse().ok();
    assert_eq!(asked(&collector, running), "millrace/collector:0.3.0-system");
}

/// Scenario: digests are known for one tag of the operator's repository; pods run by a digest, or
/// by a tag alone. Guarantee: a known digest is used; a running digest remains after an upgrade
/// that knows only newer tags; other repositories' images and other tags get none.
#[test]
fn a_tag_with_a_known_digest_is_run_by_it() {
    let (old, new) = (format!("sha256:{:064}", 1), format!("sha256:{:064}", 2));
    let images = Images {
        collector_repository: "millrace/collector".into(),
        collector_digests: [("0.2.0-system".to_owned(), new.clone())].into(),
        collector_version_default: "0.2.0".into(),
        user: Some(65_532),
    };
    let mut collector = CollectorSettings::default();
    let asked = |collector: &_, running| collector_image(collector, &images, running);
    assert_eq!(asked(&collector, None), format!("millrace/collector:0.2.0-system@{new}"));
    let running = format!("millrace/collector:0.1.0-system@{old}");
    assert_eq!(asked(&collector, Some(&running)), running);
    let plain = Some("millrace/collector:0.1.0-system");
    assert_eq!(asked(&collector, plain), "millrace/collector:0.1.0-system");
    collector.image_repository = "host:5000/c".parse().ok();
    assert_eq!(asked(&collector, None), "host:5000/c:0.2.0-system");
    collector = CollectorSettings { allocator: Allocator::Mimalloc, ..Default::default() };
    assert_eq!(asked(&collector, Some(&running)), "millrace/collector:0.1.0-mimalloc");
}

/// Scenario: `--collector-digest` gets valid and invalid values. Guarantee: only a tag with a
/// complete digest is accepted.
#[test]
fn a_digest_has_a_tag_and_all_its_digits() {
    let hex = "0a".repeat(32);
    let known: TagDigest = format!("0.1.0-system=sha256:{hex}").parse().unwrap();
    assert_eq!((known.tag.as_str(), known.digest), ("0.1.0-system", format!("sha256:{hex}")));
    for bad in ["", "0.1.0-system", &format!("=sha256:{hex}"), "t=sha256:0a", &format!("t={hex}")] {
        assert!(bad.parse::<TagDigest>().is_err(), "{bad}");
    }
}

/// Scenario: users write amounts. Guarantee: they are formatted as by the API server, so that
/// reading them back shows no drift.
#[test]
fn amounts_are_written_as_the_api_server_would() {
    assert_eq!(memory_text(1 << 30), "1Gi");
    assert_eq!(memory_text(1536 << 20), "1536Mi");
    assert_eq!(memory_text(1_000_000_000), "1000000000");
    assert_eq!(cpu_text(2000), "2");
    assert_eq!(cpu_text(250), "250m");
}

/// Scenario: admission adds a container before or after the collector. Guarantee: the collector's
/// image and ConfigMap are read; a pod without a collector has none.
#[test]
fn what_a_pod_runs_is_read_from_the_collectors_container() {
    let pod = |names: &[&str]| -> PodSpec {
        let containers: Vec<_> = names
            .iter()
            .map(|name| serde_json::json!({"name": name, "image": format!("{name}:1")}))
            .collect();
        serde_json::from_value(serde_json::json!({"containers": containers,
            "volumes": [{"name": CONFIG_VOLUME, "configMap": {"name": "m"}}]}))
        .unwrap()
    };
    assert_eq!(
        image_and_config(None, Some(&pod(&["proxy", "collector"]))),
        Some(("collector:1", "m"))
    );
    assert_eq!(
        image_and_config(None, Some(&pod(&["collector", "proxy"]))),
        Some(("collector:1", "m"))
    );
    assert_eq!(image_and_config(None, Some(&pod(&["proxy"]))), None);
}
