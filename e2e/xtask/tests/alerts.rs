//! The alerts that the chart brings, against the code and the docs they speak of. They are read
//! from `manifests/monitoring.yaml`, which `manifests/render --check` holds to the chart.
//!
//! Must not judge the expressions: only Prometheus can.

use std::collections::BTreeSet;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files of a folder, one after another.
fn read_all(folder: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = std::fs::read_dir(root.join(folder)).unwrap();
    let files = files.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// The words of a text that begin so.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(start)).map(str::to_owned).collect()
}

/// Scenario: every metric that an alert or a dashboard asks for. Guarantee: a collector or the operator has one of
/// that name; an alert on a metric that was renamed would never fire again.
#[test]
fn alerts_ask_only_for_metrics_that_exist() {
    // A test of the generator holds the page to the sources.
    let page = read("docs/reference/metrics.md");
    let monitoring = read("manifests/monitoring.yaml");
    // Names of what rules record have the metric's between colons, without the ending of a counter.
    let written = monitoring.split_whitespace().filter(|word| !word.contains(":millrace_"));
    let metrics = words(&written.collect::<Vec<_>>().join(" "), "millrace_");
    assert!(metrics.len() >= 6, "{metrics:?}");
    for metric in metrics {
        let parts = ["_count", "_sum", "_bucket"];
        let family = parts.iter().fold(&*metric, |name, part| name.trim_end_matches(part));
        assert!(page.contains(&format!("| `{family}` |")), "no part has the metric {metric}");
    }
}

/// Scenario: every series that a rule records. Guarantee: its name has a level, a metric and what was
/// done to it, and a dashboard asks for it: a rule that nobody reads only costs.
#[test]
fn what_rules_record_is_asked_for() {
    let rules = read("charts/millrace/templates/prometheusrule.yaml");
    let dashboards = read_all("charts/millrace/dashboards");
    let records = parts(&rules, "- record: ");
    assert!(records.len() >= 5, "{records:?}");
    for (record, _) in records {
        assert_eq!(record.split(':').filter(|part| !part.is_empty()).count(), 3, "{record}");
        assert!(dashboards.contains(&format!("{record}{{")), "no dashboard asks for {record}");
    }
}

/// What stands behind each of these words, up to the next of them.
fn parts<'t>(text: &'t str, word: &str) -> Vec<(&'t str, &'t str)> {
    let parts = text.split(word).skip(1);
    parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect()
}

/// Scenario: every alert. Guarantee: the page of alerts has a section for it, which says that it is
/// critical if it is, and where the chart's link leads; no section is about an alert that is gone.
#[test]
fn every_alert_is_documented() {
    let page = read("docs/alerts.md");
    let sections = parts(&page, "\n## ");
    let rules = read("charts/millrace/templates/prometheusrule.yaml");
    let alerts = parts(&rules, "- alert: ");
    assert!(alerts.len() >= 6, "{alerts:?}");
    for (alert, rule) in &alerts {
        let section = sections.iter().find(|(name, _)| name == alert);
        let (_, section) = section.unwrap_or_else(|| panic!("docs/alerts.md lacks {alert}"));
        let is_critical = rule.contains("severity: critical");
        assert_eq!(section.trim_start().starts_with("Critical."), is_critical, "{alert}");
        assert!(section.contains("\n1. "), "{alert} has no first step");
        let link = format!("{{{{- include \"millrace.runbook\" (list $ \"{alert}\") }}}}");
        assert!(rule.contains(&link), "{alert} has no runbook: write {link}");
    }
    assert_eq!(sections.len(), alerts.len(), "docs/alerts.md has sections of other alerts");
}

/// Scenario: the labels by which the collectors are found and told apart. Guarantee: the operator
/// gives its pods these very labels.
#[test]
fn the_collectors_are_found_by_labels_they_have() {
    let monitoring = read("manifests/monitoring.yaml");
    let names = read("operator/src/pool/names.rs");
    for (label, value, meta) in [
        ("app.kubernetes.io/name", "millrace-collector", None),
        ("app.kubernetes.io/instance", "", Some("app_kubernetes_io_instance")),
        ("app.kubernetes.io/component", "", Some("app_kubernetes_io_component")),
    ] {
        assert!(names.contains(&format!("\"{label}\"")), "{label}");
        let asked = match meta {
            Some(meta) => format!("[__meta_kubernetes_pod_label_{meta}]"),
            None => format!("{label}: {value}"),
        };
        assert!(monitoring.contains(&asked), "{asked}");
    }
}
