//! What is scraped: which settings make an edge, and what is said of those that can't be used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_config::{Config, Mode};

fn edge(prometheus: &str, exporter: &str) -> String {
    format!(
        "receivers: {{prometheus: {prometheus}}}\n\
         exporters: {{kafka: {{connection: {{bootstrapServers: [k:1]}}{exporter}}}}}\n"
    )
}

/// Scenario: one job with no more than it needs. Guarantee: an edge, with Prometheus' own defaults.
#[test]
fn targets_make_an_edge() {
    let checked = Config::load(&edge("{jobs: [{name: node, targets: [n:9100]}]}", "")).unwrap();
    let Mode::Edge { sources, .. } = checked.mode else { panic!("not an edge") };
    assert_eq!(sources.names(), "prometheus");
    let prometheus = sources.prometheus.unwrap();
    let job = &prometheus.jobs[0];
    assert_eq!(
        (job.interval_seconds, job.timeout_seconds, job.path.as_str()),
        (60, 10, "/metrics")
    );
    assert!(!job.honor_labels && job.honor_timestamps && !prometheus.allow_local_addresses);
    assert!(!job.native_histograms);
}

/// Scenario: settings that are wrong in one place each. Guarantee: the place is named, and what to
/// write.
#[test]
fn what_cannot_be_scraped_is_named() {
    for (job, said) in [
        ("{name: '', targets: [n:1]}", "receivers.prometheus.jobs[0].name: write a name of 1 to"),
        ("{name: a}", "receivers.prometheus.jobs[0].targets: no target is given"),
        (
            "{name: a, targets: [n:1, n:1]}",
            "receivers.prometheus.jobs[0].targets[1]: `n:1` is there",
        ),
        ("{name: a, targets: ['http://n:1']}", "`http://n:1` is not a target"),
        (
            "{name: a, targets: [n:1], intervalSeconds: 0, timeoutSeconds: 1}",
            "receivers.prometheus.jobs[0].intervalSeconds: 0 is out of range",
        ),
        (
            "{name: a, targets: [n:1], intervalSeconds: 5}",
            "receivers.prometheus.jobs[0].timeoutSeconds: 10 is out of range: write 1 to 5",
        ),
        ("{name: a, targets: [n:1], path: m}", "receivers.prometheus.jobs[0].path: `m` is no path"),
        (
            "{name: a, targets: [n:1], labels: {a-b: c}}",
            "receivers.prometheus.jobs[0].labels: `a-b` is no label",
        ),
        (
            "{name: a, targets: [n:1], labels: {job: c}}",
            "receivers.prometheus.jobs[0].labels: `job` is set by the collector",
        ),
        (
            "{name: a, targets: [n:1], labels: {b: ''}}",
            "receivers.prometheus.jobs[0].labels: the value of `b`: write 1 to 256",
        ),
        (
            "{name: a, targets: [n:1], limits: {labels: 500}}",
            "receivers.prometheus.jobs[0].limits.labels: 500 is out of range: write 1 to 128",
        ),
        (
            "{name: a, targets: [n:1]}, {name: a, targets: [n:2]}",
            "receivers.prometheus.jobs[1].name: `a` is also another job's",
        ),
    ] {
        let error = Config::load(&edge(&format!("{{jobs: [{job}]}}"), "")).unwrap_err();
        assert!(error.to_string().contains(said), "{job}: {error}");
    }
    let error = Config::load(&edge("{}", "")).unwrap_err().to_string();
    assert!(error.contains("receivers.prometheus.jobs: no job is given"), "{error}");
    let topics = ", topics: {traces: t}";
    let error = Config::load(&edge("{jobs: [{name: a, targets: [n:1]}]}", topics)).unwrap_err();
    assert!(error.to_string().contains("metrics have no topic"), "{error}");
    let many: Vec<_> = (0..1001).map(|number| format!("n{number}:1")).collect();
    let job = format!("{{jobs: [{{name: a, targets: [{}]}}]}}", many.join(", "));
    let error = Config::load(&edge(&job, "")).unwrap_err().to_string();
    assert!(error.contains("1001 targets: write 1000 at most"), "{error}");
}
