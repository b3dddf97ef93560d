//! Tests of what the operator is told of a share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use millrace_receivers::prometheus::{EntryReport, ShareReport};
use serde_json::{Value, json};

/// Scenario: no version is taken up yet; then one with a target that is up, one that is down and
/// one that wasn't asked yet. Guarantee: the document is as the operator reads it.
#[test]
fn the_operator_is_told_version_and_samples() {
    let none: Value = serde_json::from_str(&super::json(&ShareReport::default())).unwrap();
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
    let told: Value = serde_json::from_str(&super::json(&report)).unwrap();
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
