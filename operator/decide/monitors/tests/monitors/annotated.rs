//! Tests of annotated pods and Services.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_monitors::{AnnotationSources, Cluster, DiscoveryResult, Namespaces, Selector};
use millrace_scrape::relabel::Rule;

use crate::monitors::cluster::{cluster, faults, lines, pod, port, put, scraped_within, texts};

fn annotated(cluster: &Cluster, own: &[Rule]) -> DiscoveryResult {
    let annotated =
        AnnotationSources::new(("shop", "pool"), &Namespaces::Any, &Selector::default(), own)
            .unwrap();
    let reach = Namespaces::Any;
    scraped_within(cluster, Vec::new(), Some(&annotated), &reach, &BTreeMap::new())
}

/// Scenario: a pod with all annotations, over IPv4 and IPv6, and one with only `scrape`. Guarantee:
/// the first is one target at the annotated port, the second one for each port.
#[test]
fn an_annotated_pod_is_scraped_as_it_says() {
    let mut cluster = Cluster::default();
    let all = [
        ("prometheus.io/scrape", "true"),
        ("prometheus.io/port", "9102"),
        ("prometheus.io/path", "/x"),
        ("prometheus.io/scheme", "https"),
        ("prometheus.io/param_format", "text"),
    ];
    for (name, ip, annotations) in
        [("a", "10.0.0.1", &all[..]), ("b", "fd00::1", &all[..]), ("c", "10.0.0.3", &all[..1])]
    {
        let mut pod = pod("shop", name, ip, vec![port("web", 80), port("admin", 81)]);
        pod.annotations = texts(annotations);
        put(&mut cluster, pod);
    }
    let mut other = pod("shop", "d", "10.0.0.4", vec![port("web", 80)]);
    other.annotations = texts(&[("prometheus.io/scrape", "false")]);
    put(&mut cluster, other);
    let scraped = annotated(&cluster, &[]);
    let line = |inner: &str, pod: &str, at: &str| {
        format!(
            "annotations/pods {at} {inner}instance={at} job=kubernetes-pods namespace=shop node=n1 \
             pod={pod}"
        )
    };
    let inner = "__metrics_path__=/x __param_format=text __scheme__=https ";
    assert_eq!(
        lines(&scraped),
        [
            line(inner, "a", "10.0.0.1:9102"),
            line("", "c", "10.0.0.3:80"),
            line("", "c", "10.0.0.3:81"),
            line(inner, "b", "[fd00::1]:9102"),
        ]
    );
}

/// Scenario: an annotated Service, with its pods. Guarantee: each endpoint is a target at the
/// annotated port, with the Service's name; the pool's own rules come last.
#[test]
fn an_annotated_service_is_scraped_at_its_endpoints() {
    let mut cluster = cluster();
    let services = cluster.services.get_mut("shop").unwrap();
    let service = Arc::make_mut(services.get_mut("api").unwrap());
    service.annotations = texts(&[("prometheus.io/scrape", "true"), ("prometheus.io/port", "7")]);
    let own = Rule {
        source_labels: vec!["service".to_owned()],
        target_label: "job".to_owned(),
        ..Rule::default()
    };
    let scraped = annotated(&cluster, &[own]);
    let line = |pod: &str, at: &str| {
        format!(
            "annotations/services {at}:7 instance={at}:7 job=api namespace=shop node=n1 \
             pod={pod} service=api"
        )
    };
    assert_eq!(lines(&scraped), [line("api-1", "10.0.0.1"), line("api-2", "10.0.0.2")]);
    assert_eq!(faults(&scraped), [""; 0]);
}
