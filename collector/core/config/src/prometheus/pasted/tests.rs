//! Jobs pasted from Prometheus files.

use super::*;

/// A file as people have it: times of `global`, groups with labels, rules, credentials in files.
#[test]
fn a_pasted_file_becomes_jobs() {
    let text = r"
global: {scrape_interval: 15s}
scrape_configs:
  - job_name: node
    static_configs:
      - targets: ['a:9100', 'b:9100']
        labels: {zone: x}
    metric_relabel_configs:
      - source_labels: [__name__]
        regex: go_.*
        action: Drop
  - job_name: apps
    scrape_interval: 1m30s
    scrape_timeout: 20s
    metrics_path: /m
    scheme: https
    honor_labels: true
    params: {module: [http_2xx]}
    sample_limit: 5000
    body_size_limit: 10MB
    bearer_token_file: /run/token
    proxy_url: http://proxy.infra:3128
    no_proxy: '10.0.0.0/8, c'
    tls_config: {ca_file: /run/ca.pem, insecure_skip_verify: true}
    static_configs:
      - {targets: ['c:1'], labels: {env: 'a$b'}}
      - {targets: ['[::1]:2']}
    relabel_configs:
      - {regex: 5, target_label: x, replacement: y}
";
    let jobs = parse_jobs(text).unwrap();
    let [node, apps] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!((node.name.as_str(), node.interval_seconds, node.timeout_seconds), ("node", 15, 10));
    assert_eq!(node.targets.len(), 2);
    assert_eq!(node.labels["zone"], "x");
    assert_eq!(node.metric_relabel[0].action, RelabelAction::Drop);
    assert_eq!((apps.interval_seconds, apps.timeout_seconds, apps.path.as_str()), (90, 20, "/m"));
    assert!(apps.honor_labels && apps.scheme == Scheme::Https && apps.limits.samples == 5000);
    assert!(apps.authorization.is_some() && apps.tls.as_ref().unwrap().insecure_skip_verify);
    assert_eq!(apps.params["module"], ["http_2xx"]);
    assert_eq!(apps.limits.body_bytes, ByteSize::mib(10));
    let proxy = apps.proxy.as_ref().unwrap();
    assert_eq!((proxy.url.authority().as_str(), proxy.no_proxy.len()), ("proxy.infra:3128", 2));
    assert!(apps.labels.is_empty(), "not all targets have them: rules set them");
    let set = &apps.relabel[0];
    assert_eq!((set.regex.as_str(), set.replacement.as_str()), ("c:1", "a$$b"));
    assert_eq!((apps.relabel[1].regex.as_str(), apps.relabel.len()), ("5", 2));
    assert_eq!(escape_regex("[::1]:2.a"), r"\[::1\]:2\.a");
}

/// A job whose targets want a token, from a server behind a proxy.
#[test]
fn a_pasted_job_may_ask_for_tokens() {
    let text = r"
- job_name: a
  body_size_limit: 0
  oauth2:
    client_id: me
    client_secret_file: /run/secret
    token_url: https://sso.infra/token
    scopes: [read]
    endpoint_params: {audience: x}
    tls_config: {ca_file: /run/ca.pem}
    proxy_url: http://proxy.infra:3128
";
    let jobs = parse_jobs(text).unwrap();
    let oauth2 = jobs[0].oauth2.as_ref().unwrap();
    assert_eq!((oauth2.client_id.as_deref(), oauth2.scopes.len()), (Some("me"), 1));
    assert!(oauth2.tls.is_some() && oauth2.proxy.is_some() && jobs[0].proxy.is_none());
    assert_eq!(jobs[0].limits, ScrapeJob::default().limits);
}

/// The list alone, with a short interval: the time-out is no longer.
#[test]
fn a_list_alone_is_taken() {
    let jobs = parse_jobs("- job_name: a\n  scrape_interval: 5s\n").unwrap();
    assert_eq!((jobs[0].interval_seconds, jobs[0].timeout_seconds), (5, 5));
}

/// Each thing that isn't taken: its line, its field, what to do.
#[test]
fn what_is_not_supported_is_named_by_line() {
    for (text, said) in [
        (
            "- job_name: a\n  kubernetes_sd_configs: [{role: pod}]\n",
            "line 2: [0].kubernetes_sd_configs: this discovery is not supported: use \
             static_configs, file_sd_configs or http_sd_configs",
        ),
        (
            "scrape_configs:\n- job_name: a\n  foo: 1\n",
            "line 3: scrape_configs[0].foo: not supported: remove it",
        ),
        (
            "rule_files: []\nscrape_configs: [{job_name: a}]\n",
            "line 1: rule_files: remove it: only global and scrape_configs are supported",
        ),
        (
            "- job_name: a\n  basic_auth:\n    username: u\n    password: p\n",
            "line 4: [0].basic_auth.password: a secret must be in a file: use password_file",
        ),
        (
            "- job_name: a\n  scrape_interval: 500ms\n",
            "line 2: [0].scrape_interval: use whole seconds, as in 15s or 1m30s",
        ),
        (
            "- relabel_configs:\n  - action: nothing\n",
            "line 2: [0].relabel_configs[0].action: unknown action",
        ),
        (
            "- static_configs:\n  - targets:\n    - localhost\n",
            "line 3: [0].static_configs[0].targets[0]: `localhost` is not a target: use host:port \
             without a scheme or path, as in node-exporter.monitoring:9100",
        ),
        (
            "- job_name: a\n  oauth2: {client_id: a, client_secret: s, token_url: 'https://t/'}\n",
            "line 2: [0].oauth2.client_secret: a secret must be in a file: use client_secret_file",
        ),
        (
            "- job_name: a\n  body_size_limit: 10\n",
            "line 2: [0].body_size_limit: use a whole number with a unit, as in 512MB",
        ),
        ("{}", "no job found: paste scrape_configs, or its list"),
    ] {
        assert_eq!(parse_jobs(text).unwrap_err(), [said], "{text}");
    }
}

/// Many problems: the first ones are named, the others counted.
#[test]
fn problems_are_bounded() {
    let text: String = (0..100).map(|at| format!("- f{at}: 1\n")).collect();
    let problems = parse_jobs(&text).unwrap_err();
    assert_eq!((problems.len(), problems[32].as_str()), (33, "and 68 more"));
}
