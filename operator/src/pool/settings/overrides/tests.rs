//! Which settings of `spec.config` are merged, and which are refused.

use serde_json::json;

use super::*;

fn rendered() -> config::Config {
    config::Config::parse(
        "receivers: {otlp: {}, containers: {namespaces: [shop]}}\nexporters: {kafka: {connection: \
         {bootstrapServers: [kafka:9092]}, lingerMillis: 5}}\n",
    )
    .unwrap()
}

fn merge(theirs: &Value) -> Result<config::Config, String> {
    merge_config(rendered(), theirs.as_object().unwrap()).map_err(|error| error.message)
}

/// Scenario: settings without a field in the spec. Guarantee: they are merged by field, and what
/// the operator rendered next to them stays.
#[test]
fn other_settings_are_merged_over_rendered_ones() {
    let merged = merge(&json!({
        "shutdown": {"announceSeconds": 3},
        "receivers": {
            "otlp": {"limits": {"idleSeconds": 7}, "recordTimes": {"pastDays": 90}},
            "containers": {"maxLineBytes": "64Ki"},
        },
    }))
    .unwrap();
    let otlp = merged.receivers.otlp.unwrap();
    assert_eq!((otlp.limits.idle_seconds, otlp.record_times.past_days), (7, 90));
    assert_eq!(merged.shutdown.announce_seconds, 3);
    let containers = merged.receivers.containers.unwrap();
    assert_eq!(containers.max_line_bytes, config::ByteSize::kib(64));
    assert_eq!(containers.namespaces, ["shop"]);
    assert_eq!(merged.exporters.kafka.unwrap().linger_millis, 5);
    assert_eq!(merge(&json!({})).unwrap(), rendered());
}

/// Scenario: each reserved setting is set, and each section that holds one is removed by null.
/// Guarantee: the message names the setting and what to use instead.
#[test]
fn reserved_settings_are_refused_by_field() {
    for setting in RESERVED {
        let steps: Vec<&str> = setting.path.split('.').collect();
        for length in 1..=steps.len() {
            let value = if length == steps.len() { json!("x") } else { Value::Null };
            let nested = steps[..length].iter().rev().fold(value, |value, step| {
                Value::Object([((*step).to_owned(), value)].into_iter().collect())
            });
            let refused = merge(&nested).unwrap_err();
            assert!(refused.starts_with("spec.config."), "{nested}: {refused}");
            if length == steps.len() {
                let expected = format!("spec.config.{}: can't be changed", setting.path);
                assert!(refused.starts_with(&expected), "{refused}");
                assert!(refused.ends_with(setting.instead), "{refused}");
            }
        }
    }
}

/// Scenario: an exception alone, and next to a reserved setting. Guarantee: only the second is
/// refused.
#[test]
fn an_exception_hides_no_reserved_setting() {
    let at = |containers: Value| merge(&json!({"receivers": {"containers": containers}}));
    assert!(at(json!({"maxLineBytes": "64Ki"})).is_ok());
    let refused = at(json!({"maxLineBytes": "64Ki", "directory": "/"})).unwrap_err();
    assert!(refused.contains("receivers.containers: can't be changed"), "{refused}");
}

/// Scenario: an unknown setting, a wrong type, a section that the pool lacks, too much text.
/// Guarantee: the message names the field.
#[test]
fn what_is_no_setting_is_refused() {
    for (theirs, expected) in [
        (json!({"receivers": {"otlp": {"limit": {}}}}), "receivers.otlp: unknown field `limit`"),
        (json!({"shutdown": {"announceSeconds": "x"}}), "shutdown.announceSeconds: invalid type"),
        (json!({"exporters": {"clickhouse": {"maxInsertsInFlight": 8}}}), "has no such section"),
        (json!({"x": "a".repeat(BYTES_MAX)}), "at most 65536 are allowed"),
    ] {
        let refused = merge(&theirs).unwrap_err();
        assert!(refused.starts_with("spec.config"), "{refused}");
        assert!(refused.contains(expected), "{refused}");
    }
}

/// Scenario: the user page of `config`. Guarantee: it lists each reserved setting with its reason,
/// and each exception.
#[test]
fn the_page_lists_reserved_settings() {
    let page = include_str!("../../../../../docs/collector-config.md");
    for setting in RESERVED {
        let row = format!("| `{}` | {} |", setting.path, setting.instead);
        assert!(page.contains(&row), "{row}");
        for except in setting.except {
            assert!(page.contains(&format!("`{except}`")), "{except}");
        }
    }
}

/// Scenario: numbers set and absent. Guarantee: the set one, or the default.
#[test]
fn numbers_are_read_by_path() {
    let theirs = json!({"receivers": {"kafka": {"sessionTimeoutSeconds": 90}}});
    let at = |path: &[&str]| number_or(theirs.as_object().unwrap(), path, 45);
    assert_eq!(at(&["receivers", "kafka", "sessionTimeoutSeconds"]), 90);
    assert_eq!(at(&["receivers", "kafka", "workers"]), 45);
    assert_eq!(at(&["exporters", "clickhouse", "insertTimeoutSeconds"]), 45);
}
