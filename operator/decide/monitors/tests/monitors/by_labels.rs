//! Tests of ServiceMonitor and PodMonitor. The expected results are those of prometheus-operator
//! 0.86's rules on the same objects.

use std::collections::BTreeMap;

use millrace_monitors::MonitorKind::{PodMonitor, ServiceMonitor};
use millrace_monitors::Namespaces;

use crate::monitors::cluster::{
    cluster, faults, lines, monitor, pod, port, put, scraped, scraped_within,
};

/// Scenario: a ServiceMonitor that names a port of the Service. Guarantee: each pod's address with
/// that port is a target, with the labels that prometheus-operator gives it, and its node's zone.
#[test]
fn a_service_monitor_scrapes_the_endpoints_of_a_port() {
    let spec = "{selector: {matchLabels: {app: shop}}, endpoints: [{port: http}]}";
    let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, spec)]);
    let labels = |pod: &str, ip: &str| {
        format!(
            "serviceMonitor/shop/m/0 {ip}:8080 container=app endpoint=http instance={ip}:8080 \
             job=api namespace=shop pod={pod} service=api"
        )
    };
    assert_eq!(lines(&scraped), [labels("api-1", "10.0.0.1"), labels("api-2", "10.0.0.2")]);
    assert!(scraped.targets.iter().all(|target| target.zone.as_deref() == Some("z1")));
    assert_eq!((scraped.counts.applied, scraped.counts.broken), (1, 0));
    assert_eq!(faults(&scraped), [""; 0]);
}

/// Scenario: a PodMonitor that names a port. Guarantee: its name is the job, and the port's name
/// the endpoint.
#[test]
fn a_pod_monitor_scrapes_the_port_of_pods() {
    let spec = "{selector: {}, podMetricsEndpoints: [{port: admin, interval: 15s, path: /m}]}";
    let scraped = scraped(&cluster(), vec![monitor(PodMonitor, spec)]);
    let labels = |pod: &str, ip: &str| {
        format!(
            "podMonitor/shop/m/0 {ip}:9090 container=app endpoint=admin instance={ip}:9090 \
             job=shop/m namespace=shop pod={pod}"
        )
    };
    assert_eq!(lines(&scraped), [labels("api-1", "10.0.0.1"), labels("api-2", "10.0.0.2")]);
    let job = &scraped.jobs["podMonitor/shop/m/0"];
    assert_eq!((job.interval_seconds, job.timeout_seconds, job.path.as_str()), (15, 10, "/m"));
    assert!(job.relabel.is_empty() && job.targets.is_empty());
}

/// Scenario: a target port that the Service doesn't have, by number and by name. Guarantee: the
/// pods' own port is scraped, and the label `endpoint` has the written value; a PodMonitor's
/// portNumber sets none.
#[test]
fn a_target_port_is_found_in_the_pods() {
    for (written, label) in [("9090", "9090"), ("admin", "admin")] {
        let spec = format!("{{selector: {{}}, endpoints: [{{targetPort: {written}}}]}}");
        let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, &spec)]);
        let addresses: Vec<_> = scraped.targets.iter().map(|it| it.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.1:9090", "10.0.0.2:9090"]);
        assert!(scraped.targets.iter().all(|it| it.labels["endpoint"] == label));
    }
    let spec = "{selector: {}, podMetricsEndpoints: [{portNumber: 8080}]}";
    let scraped = scraped(&cluster(), vec![monitor(PodMonitor, spec)]);
    let addresses: Vec<_> = scraped.targets.iter().map(|it| it.address.as_str()).collect();
    assert_eq!(addresses, ["10.0.0.1:8080", "10.0.0.2:8080"]);
    assert!(scraped.targets.iter().all(|it| !it.labels.contains_key("endpoint")));
}

/// Scenario: selected labels of Services and pods, among them an absent one and one with characters
/// that no label has; a job label. Guarantee: they are labels of the targets, by their sanitized
/// names.
#[test]
fn labels_of_services_and_pods_are_copied_as_asked() {
    let spec = "{selector: {}, jobLabel: team, targetLabels: [team, absent], \
                podTargetLabels: [app.kubernetes.io/version], endpoints: [{port: http}]}";
    let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, spec)]);
    let labels = &scraped.targets[0].labels;
    assert_eq!((labels["team"].as_str(), labels["job"].as_str()), ("red", "red"));
    assert_eq!(labels["app_kubernetes_io_version"], "7");
    assert!(!labels.contains_key("absent"));
}

/// Scenario: selectors of every form. Guarantee: they select as Kubernetes does, a label without a
/// value included.
#[test]
fn selectors_select_as_kubernetes_does() {
    for (selector, count) in [
        ("{}", 2),
        ("{matchLabels: {app: shop, team: red}}", 2),
        ("{matchLabels: {app: shop, team: blue}}", 0),
        ("{matchExpressions: [{key: team, operator: In, values: [red, blue]}]}", 2),
        ("{matchExpressions: [{key: team, operator: NotIn, values: [red]}]}", 0),
        ("{matchExpressions: [{key: absent, operator: NotIn, values: [red]}]}", 2),
        ("{matchExpressions: [{key: track, operator: Exists}]}", 2),
        ("{matchExpressions: [{key: track, operator: DoesNotExist}]}", 0),
        ("{matchExpressions: [{key: absent, operator: Exists}]}", 0),
    ] {
        let spec = format!("{{selector: {selector}, endpoints: [{{port: http}}]}}");
        let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, &spec)]);
        assert_eq!(scraped.targets.len(), count, "{selector}");
    }
}

/// Scenario: monitors that select their own, named or all namespaces, for a pool that may access
/// all, or one. Guarantee: a monitor never reaches a namespace that its pool may not.
#[test]
fn namespaces_are_those_of_the_monitor_and_the_pool() {
    let own = Namespaces::Names(vec!["shop".to_owned()]);
    for (selector, everywhere, within) in [
        ("{}", 2, 2),
        ("{matchNames: [other]}", 1, 0),
        ("{matchNames: [other, shop, absent]}", 3, 2),
        ("{any: true}", 3, 2),
        ("{any: true, matchNames: [other]}", 3, 2),
    ] {
        let spec = format!(
            "{{selector: {{}}, namespaceSelector: {selector}, podMetricsEndpoints: [{{port: web}}]}}"
        );
        for (reach, count) in [(&Namespaces::Any, everywhere), (&own, within)] {
            let monitors = vec![monitor(PodMonitor, &spec)];
            let scraped = scraped_within(&cluster(), monitors, None, reach, &BTreeMap::new());
            assert_eq!(scraped.targets.len(), count, "{selector} {reach:?}");
        }
    }
}

/// Scenario: a pod that has ended, and one without an address. Guarantee: the first is scraped only
/// if the endpoint requests it, the second never.
#[test]
fn pods_that_ended_are_left_out_unless_asked_for() {
    let mut cluster = cluster();
    let mut ended = pod("shop", "job-1", "10.0.0.9", vec![port("web", 8080)]);
    ended.phase = "Succeeded".to_owned();
    put(&mut cluster, ended);
    put(&mut cluster, pod("shop", "new-1", "", vec![port("web", 8080)]));
    for (filter, count) in [("", 2), (", filterRunning: true", 2), (", filterRunning: false", 3)] {
        let spec = format!("{{selector: {{}}, podMetricsEndpoints: [{{port: web{filter}}}]}}");
        let scraped = scraped(&cluster, vec![monitor(PodMonitor, &spec)]);
        assert_eq!(scraped.targets.len(), count, "{filter}");
    }
}

/// Scenario: rules that drop, rename, and change path, scheme, parameters, times and the address.
/// Guarantee: dropped targets are absent; inner labels have the settings that differ from the
/// job's, and no others.
#[test]
fn rules_for_targets_are_applied_here() {
    let spec = r#"
        selector: {}
        endpoints:
          - port: http
            params: {format: [text], other: [a, b]}
            relabelings:
              - {sourceLabels: [__meta_kubernetes_pod_name], regex: api-2, action: drop}
              - {sourceLabels: [__meta_kubernetes_service_label_team], targetLabel: owner}
              - {targetLabel: __metrics_path__, replacement: /other}
              - {targetLabel: __scheme__, replacement: https}
              - {targetLabel: __param_format, replacement: json}
              - {targetLabel: __scrape_interval__, replacement: 1m}
              - {targetLabel: __tmp_x, replacement: y}
              - {targetLabel: endpoint, replacement: ""}
              - {sourceLabels: [__address__], regex: '(.*):.*', targetLabel: __address__, replacement: '$1:1'}
              - {sourceLabels: [__tmp_prometheus_job_name], targetLabel: first}
    "#;
    let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, spec)]);
    let name = "serviceMonitor/shop/m/0";
    assert_eq!(
        lines(&scraped),
        [format!(
            "{name} 10.0.0.1:1 __metrics_path__=/other __param_format=json __scheme__=https \
             __scrape_interval__=1m container=app first={name} instance=10.0.0.1:1 job=api \
             namespace=shop owner=red pod=api-1 service=api"
        )]
    );
}

/// Scenario: rules match all labels' names, with nodes' labels attached. Guarantee: labels that no
/// rule names exist then.
#[test]
fn all_meta_labels_are_there_for_rules_that_map_names() {
    let spec = "{selector: {}, attachMetadata: {node: true}, podMetricsEndpoints: [{port: web, \
                relabelings: [{action: labelmap, regex: '__meta_kubernetes_node_label_(disk)'}]}]}";
    let scraped = scraped(&cluster(), vec![monitor(PodMonitor, spec)]);
    assert_eq!(scraped.targets[0].labels["disk"], "ssd");
}

/// Scenario: more targets than targetLimit; more labels than a target may have; a time-out over the
/// pool's interval. Guarantee: they are omitted, and the fault names the monitor and the reason.
#[test]
fn what_is_over_a_limit_is_left_out_and_told() {
    let labels: Vec<_> =
        (0..12).map(|at| format!("{{targetLabel: l{at}, replacement: x}}")).collect();
    for (spec, field, said) in [
        (
            "{selector: {}, targetLimit: 1, podMetricsEndpoints: [{port: web}]}".to_owned(),
            "spec.podMetricsEndpoints[0]",
            "its 2 targets exceed its targetLimit: none is scraped",
        ),
        (
            format!(
                "{{selector: {{}}, podMetricsEndpoints: [{{port: web, relabelings: [{}]}}]}}",
                labels.join(", ")
            ),
            "spec.podMetricsEndpoints[0].relabelings",
            "2 targets can't be scraped: `10.0.0.1:8080` has 18 labels",
        ),
        (
            "{selector: {}, podMetricsEndpoints: [{port: web, scrapeTimeout: 31s}]}".to_owned(),
            "spec.podMetricsEndpoints[0]",
            "scrapeTimeout of 31 s exceeds the interval of 30 s",
        ),
    ] {
        let scraped = scraped(&cluster(), vec![monitor(PodMonitor, &spec)]);
        assert!(scraped.targets.is_empty());
        assert_eq!((scraped.counts.applied, scraped.counts.broken), (0, 1));
        let told = faults(&scraped);
        assert!(told[0].starts_with(&format!("PodMonitor shop/m, {field}: {said}")), "{told:?}");
    }
}

/// Scenario: a broken endpoint next to a good one. Guarantee: the good one is scraped.
#[test]
fn a_broken_endpoint_leaves_the_others() {
    let spec = "{selector: {}, podMetricsEndpoints: [{port: web, interval: 500ms}, {port: web}]}";
    let scraped = scraped(&cluster(), vec![monitor(PodMonitor, spec)]);
    assert_eq!(scraped.jobs.keys().collect::<Vec<_>>(), ["podMonitor/shop/m/1"]);
    assert_eq!(
        faults(&scraped),
        ["PodMonitor shop/m, spec.podMetricsEndpoints[0].interval: `500ms` can't be used: write \
          whole seconds, 1s to 1h"]
    );
}

/// Scenario: settings of every kind. Guarantee: the job has them as collectors read them.
#[test]
fn settings_of_an_endpoint_become_the_jobs() {
    let spec = r#"
        selector: {}
        sampleLimit: 500
        labelLimit: 20
        bodySizeLimit: 10MB
        scrapeNativeHistograms: true
        endpoints:
          - port: http
            scheme: HTTPS
            metricRelabelings: [{action: drop, sourceLabels: [__name__], regex: go_.*}]
            honorLabels: true
            honorTimestamps: false
            followRedirects: true
            proxyUrl: http://proxy.infra:3128
            noProxy: 10.0.0.0/8, .svc
            tlsConfig: {insecureSkipVerify: true, serverName: api.shop}
    "#;
    let scraped = scraped(&cluster(), vec![monitor(ServiceMonitor, spec)]);
    assert_eq!(faults(&scraped), [""; 0]);
    let job = &scraped.jobs["serviceMonitor/shop/m/0"];
    assert_eq!((job.limits.samples, job.limits.labels), (500, 20));
    assert_eq!(job.limits.body_bytes.get(), 10 << 20);
    assert_eq!(job.metric_relabel.len(), 1);
    assert!(job.native_histograms && job.honor_labels && !job.honor_timestamps);
    assert!(job.follow_redirects && job.scheme.as_str() == "https");
    assert_eq!(job.proxy.as_ref().map(|proxy| proxy.no_proxy.len()), Some(2));
    let tls = job.tls.as_ref().unwrap();
    assert!(tls.insecure_skip_verify && tls.server_name.as_deref() == Some("api.shop"));
}
