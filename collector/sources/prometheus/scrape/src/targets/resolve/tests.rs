//! Tests of resolving discovered labels.

use super::*;
use crate::relabel::{Action, Rule};

fn resolved(rules: &[Rule], pairs: &[(&str, &str)]) -> Result<Option<ResolvedTarget>, String> {
    let rules = Rules::new(rules).map_err(|error| error.to_string())?;
    let parameters = [("module".to_owned(), vec!["tcp".to_owned(), "icmp".to_owned()])];
    let defaults = Defaults {
        job: "node",
        scheme: Scheme::Http,
        path: "/metrics",
        parameters: &parameters,
        interval: Duration::from_secs(90),
        timeout: Duration::from_secs(10),
        rules: &rules,
    };
    let mut labels: LabelSet = pairs.iter().copied().collect();
    resolve_target(&defaults, &mut labels, &mut RelabelScratch::default())
        .map_err(|error| error.to_string())
}

fn set(target: &str, value: &str) -> Rule {
    Rule { target_label: target.to_owned(), replacement: value.to_owned(), ..Rule::default() }
}

/// Scenario: a job has no rules. Guarantee: a target has the settings' values, its address as
/// `instance`, and no `__` label.
#[test]
fn a_target_without_rules_has_the_settings_values() {
    let found = resolved(
        &[],
        &[("__address__", "10.0.0.1:9100"), ("zone", "a"), ("__meta_pod", "x"), ("env", "")],
    );
    let expected = ResolvedTarget {
        job: "node".to_owned(),
        instance: "10.0.0.1:9100".to_owned(),
        scheme: Scheme::Http,
        host: "10.0.0.1".to_owned(),
        port: 9100,
        path: "/metrics?module=tcp&module=icmp".to_owned(),
        interval: Duration::from_secs(90),
        timeout: Duration::from_secs(10),
        labels: vec![("zone".to_owned(), "a".to_owned())],
    };
    assert_eq!(found, Ok(Some(expected)));
}

/// Scenario: the blackbox exporter's usual rules turn the target into a parameter, and the exporter
/// into the address.
#[test]
fn rules_change_address_scheme_path_parameters_and_times() {
    let copy = |from: &str, to: &str| Rule {
        source_labels: vec![from.to_owned()],
        target_label: to.to_owned(),
        ..Rule::default()
    };
    let rules = [
        copy("__address__", "__param_target"),
        copy("__param_target", "instance"),
        set("__address__", "[2001:db8::1]"),
        set("__scheme__", "https"),
        set("__metrics_path__", "probe it"),
        set("__param_module", "http 2xx"),
        set("__scrape_interval__", "1m"),
        set("__scrape_timeout__", "5s"),
        set("job", "probes"),
    ];
    let found = resolved(&rules, &[("__address__", "https://example.com/a?b=c")]).unwrap().unwrap();
    assert_eq!(
        found.path,
        "/probe%20it?module=http+2xx&module=icmp&target=https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc"
    );
    assert_eq!((found.host.as_str(), found.port), ("[2001:db8::1]", 443));
    assert_eq!(
        (found.job.as_str(), found.instance.as_str()),
        ("probes", "https://example.com/a?b=c")
    );
    assert_eq!((found.interval.as_secs(), found.timeout.as_secs()), (60, 5));
}

/// Scenario: a rule drops a target; labels are invalid. Guarantee: each error names target and
/// label.
#[test]
fn a_target_is_dropped_or_its_wrong_label_is_named() {
    let drop = Rule {
        action: Action::Drop,
        source_labels: vec!["zone".to_owned()],
        regex: "b|c".to_owned(),
        ..Rule::default()
    };
    let at = ("__address__", "x:1");
    assert_eq!(resolved(&[drop], &[at, ("zone", "c")]), Ok(None));
    for (label, value, said) in [
        ("__address__", "", "missing: discovery or a rule must set it"),
        (
            "__address__",
            "x:1/metrics",
            "`x:1/metrics` is not an address: use host:port, with IPv6 in brackets",
        ),
        ("__address__", "::1", "`::1` is not an address: use host:port, with IPv6 in brackets"),
        ("__address__", "x:0", "`x:0` is not an address: use host:port, with IPv6 in brackets"),
        ("__scheme__", "ftp", "`ftp` is not a scheme: use http or https"),
        (
            "__scrape_interval__",
            "5",
            "`5` is not a duration: use a number and a unit, as in 30s or 1m30s",
        ),
        ("__scrape_interval__", "2h", "`2h` is out of range: use 1s to 1h"),
        (
            "__scrape_timeout__",
            "91s",
            "`91s` is out of range: use more than 0 and at most the interval",
        ),
    ] {
        let error = resolved(&[set(label, value)], &[at]).unwrap_err();
        assert_eq!(error, format!("target `x:1`, label `{label}`: {said}"));
    }
}
