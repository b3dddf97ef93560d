//! Tests of the share's report to the operator.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use millrace_source_prometheus::{EntryReport, ShareReport};
use serde_json::{Value, json};

/// Scenario: no version is applied yet; then one with a target that is up, one that is down and one
/// that was not scraped yet. Guarantee: the document is as the operator reads it.
#[test]
fn the_operator_is_told_version_and_samples() {
    let none: Value = serde_json::from_str(&super::render_json(&ShareReport::default())).unwrap();
    assert_eq!(none, json!({"version": null, "targets": {}, "up": 0, "down": 0}));
    let up = EntryReport { samples: Some(1234), up: Some(true), error: String::new() };
    let down = EntryReport { samples: Some(7), up: Some(false), error: "a \"b\"".into() };
    let [one, two, three] = ["0", "1", "f"].map(|digit| digit.repeat(32));
    let report = ShareReport {
        version: Some(7),
        targets: vec![
            (one.parse().unwrap(), up),
            (two.parse().unwrap(), down),
            (three.parse().unwrap(), EntryReport::default()),
        ],
        up: 1,
        down: 1,
    };
    let told: Value = serde_json::from_str(&super::render_json(&report)).unwrap();
    let wanted = json!({
        "version": 7,
        "targets": {
            (one): {"samples": 1234, "up": true, "error": null},
            (two): {"samples": 7, "up": false, "error": "a \"b\""},
            (three): {"samples": null, "up": null, "error": null},
        },
        "up": 1,
        "down": 1,
    });
    assert_eq!(told, wanted);
}

/// Scenario: the maximum number of a pod's targets, all down, each with the longest error.
/// Guarantee: the answer is within the operator's limit (4 MiB), with samples and state of each
/// target, and the first errors.
#[test]
fn the_longest_report_is_within_what_the_operator_reads() {
    let error = "\u{1F4A5}".repeat(300);
    let down = EntryReport { samples: Some(u64::MAX), up: Some(false), error: error.clone() };
    let targets = (0..10_000_u32).map(|n| (format!("{n:032x}").parse().unwrap(), down.clone()));
    let report = ShareReport { targets: targets.collect(), down: 10_000, ..ShareReport::default() };
    let text = super::render_json(&report);
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
    let told: Value = serde_json::from_str(&text).unwrap();
    let told = told["targets"].as_object().unwrap();
    assert_eq!(told.len(), 10_000);
    assert!(told.values().all(|it| it["up"] == json!(false) && it["samples"] == json!(u64::MAX)));
    assert_eq!(told.values().filter(|it| it["error"] == json!(error)).count(), 54);
}
