//! Tests of Probe and ScrapeConfig.

use millrace_monitors::MonitorKind::{Probe, ScrapeConfig};

use crate::monitors::cluster::{cluster, faults, lines, monitor, scraped};

/// Scenario: a Probe with two addresses. Guarantee: the prober is scraped, with the address as a
/// parameter and as the instance, as prometheus-operator does it.
#[test]
fn a_probe_asks_the_prober_about_each_address() {
    let spec = r#"
        jobName: pages
        module: http_2xx
        interval: 60s
        prober: {url: "blackbox.infra:9115"}
        targets:
          staticConfig:
            static: ["https://a.example/x?y=1", b.example]
            labels: {env: production}
            relabelingConfigs: [{targetLabel: team, replacement: red}]
    "#;
    let scraped = scraped(&cluster(), vec![monitor(Probe, spec)]);
    let line = |target: &str| {
        format!(
            "probe/shop/m blackbox.infra:9115 __param_target={target} env=production \
             instance={target} job=pages namespace=shop team=red"
        )
    };
    assert_eq!(lines(&scraped), [line("b.example"), line("https://a.example/x?y=1")]);
    let job = &scraped.jobs["probe/shop/m"];
    assert_eq!(job.path_and_query(), "/probe?module=http_2xx");
    assert_eq!(faults(&scraped), [""; 0]);
}

/// Scenario: a ScrapeConfig with addresses and labels, with and without a job name. Guarantee: they
/// are targets with these labels.
#[test]
fn a_scrape_config_has_written_addresses() {
    let groups = "staticConfigs: [{targets: [a:1, 'b:2'], labels: {env: x, __metrics_path__: /p}}]";
    for (job_name, job) in [("jobName: node, ", "node"), ("", "scrapeConfig/shop/m")] {
        let spec = format!("{{{job_name}{groups}, scheme: HTTPS}}");
        let scraped = scraped(&cluster(), vec![monitor(ScrapeConfig, &spec)]);
        let line = |at: &str| {
            format!("scrapeConfig/shop/m {at} __metrics_path__=/p env=x instance={at} job={job}")
        };
        assert_eq!(lines(&scraped), [line("a:1"), line("b:2")]);
        assert_eq!(scraped.jobs["scrapeConfig/shop/m"].scheme.as_str(), "https");
    }
}

/// Scenario: a ScrapeConfig that discovers pods, and one that discovers EndpointSlices. Guarantee:
/// rules see the meta labels of the role.
#[test]
fn a_scrape_config_looks_into_the_cluster() {
    for (role, label, count) in [
        ("Pod", "__meta_kubernetes_pod_container_port_name, regex: web", 3),
        ("EndpointSlice", "__meta_kubernetes_endpointslice_port_name, regex: http", 2),
        ("Endpoints", "__meta_kubernetes_endpoint_port_name, regex: http", 2),
    ] {
        let (label, regex) = label.split_once(", ").unwrap();
        let spec = format!(
            "{{kubernetesSDConfigs: [{{role: {role}}}], relabelings: [{{action: keep, \
             sourceLabels: [{label}], {regex}}}]}}"
        );
        let scraped = scraped(&cluster(), vec![monitor(ScrapeConfig, &spec)]);
        assert_eq!((scraped.targets.len(), faults(&scraped).len()), (count, 0), "{role}");
    }
}

/// Scenario: unsupported and missing fields. Guarantee: the monitor is omitted, and the field is
/// named.
#[test]
fn what_cannot_be_found_is_named() {
    for (kind, spec, field) in [
        (ScrapeConfig, "{consulSDConfigs: [{server: x}]}", "spec.consulSDConfigs"),
        (
            ScrapeConfig,
            "{kubernetesSDConfigs: [{role: Ingress}]}",
            "spec.kubernetesSDConfigs[0].role",
        ),
        (ScrapeConfig, "{jobName: x}", "spec.staticConfigs"),
        (Probe, "{prober: {url: x}, targets: {ingress: {}}}", "spec.targets.ingress"),
        (Probe, "{prober: {url: x}}", "spec.targets.staticConfig"),
        (Probe, "{targets: {staticConfig: {static: [a]}}}", "spec.prober.url"),
    ] {
        let scraped = scraped(&cluster(), vec![monitor(kind, spec)]);
        let told = faults(&scraped);
        let expected = format!("{} shop/m, {field}: ", kind.as_str());
        assert!(told.len() == 1 && told[0].starts_with(&expected), "{told:?}");
        assert!(scraped.targets.is_empty() && scraped.jobs.is_empty());
    }
}
