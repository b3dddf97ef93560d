//! Samples, explained.

use millrace_processing::explain::{TraceError, render_json, render_text, trace_records};
use millrace_processing::{Config, ErrorMode, Step};
use serde_json::{Value, json};

use crate::requests::step as statements;
use millrace_processing::ContextName;

fn sample() -> String {
    let log = |severity: u32, body: &str| {
        json!({"severityNumber": severity, "body": {"stringValue": body},
               "attributes": [{"key": "old", "value": {"stringValue": "v"}}]})
    };
    let logs = json!({"resourceLogs": [{"scopeLogs": [
        {"logRecords": [log(5, "noise"), log(17, "bad")]},
    ]}]});
    let point = |number: u32| json!({"asInt": number.to_string()});
    let metrics = json!({"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "m", "gauge": {"dataPoints": [point(1), point(2)]}},
    ]}]}]});
    format!("{logs}\n{metrics}\n")
}

fn rules() -> Config {
    let rename = statements(
        ContextName::Log,
        &[
            "set(attributes[\"new\"], attributes[\"old\"]) where attributes[\"old\"] != nil",
            "delete_key(attributes, \"old\")",
        ],
    );
    let drop: Step = serde_json::from_value(json!({
        "name": "quiet", "drop": {"logs": ["severity_number < 9"]},
    }))
    .unwrap();
    Config { steps: vec![Step { name: "rename".to_owned(), ..rename }, drop] }
}

/// Scenario: two logs and two points through a rename and a drop. Guarantee: each record is shown
/// alone; each step says which rule did what; points, which no rule touches, are unchanged.
#[test]
fn each_record_is_explained_by_step_and_rule() {
    let traces = trace_records(&rules(), &sample()).unwrap();
    assert_eq!(traces.len(), 4);
    let text = render_text(&traces);
    for line in [
        "record 1 (logs): dropped",
        "    statements[1] changed: delete_key(attributes, \"old\")",
        "    drop.logs[0] dropped: severity_number < 9",
        "record 2 (logs): changed",
        "record 3 (metrics): unchanged",
        "record 4 (metrics): unchanged",
        "4 records: 1 changed, 1 dropped, 0 refused",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in:\n{text}");
    }
    let (gone, come) = ("[\"old\"].stringValue: \"v\"", "[\"new\"].stringValue: \"v\"");
    let has =
        |sign, end| text.lines().any(|line| line.trim().starts_with(sign) && line.ends_with(end));
    assert!(has('-', gone) && has('+', come), "{text}");
    let records: Value = serde_json::from_str(&render_json(&traces)).unwrap();
    assert_eq!(records[0]["after"], Value::Null);
    assert_eq!(records[0]["steps"][1]["outcome"], "dropped");
    assert_eq!(records[1]["steps"][0]["rules"][0]["effect"], "changed");
    assert_eq!(records[3]["before"], records[3]["after"]);
}

/// Scenario: a rule fails whose step propagates; no JSON; another JSON; bad rules. Guarantee: the
/// record is refused with the reason; the others are errors that say what is wrong.
#[test]
fn refusals_and_bad_samples_are_explained() {
    let mut config = rules();
    config.steps.truncate(1);
    config.steps[0].error_mode = ErrorMode::Propagate;
    config.steps[0].statements = vec!["set(severity_number, Int(ParseJSON(body)[\"a\"]))".into()];
    let traces = trace_records(&config, &sample()).unwrap();
    assert!(traces[0].after.is_none());
    let text = render_text(&traces);
    assert!(text.contains("record 1 (logs): refused\n  step \"rename\"\n"), "{text}");
    assert!(matches!(trace_records(&config, "{"), Err(TraceError::Json(_))));
    assert!(matches!(trace_records(&config, "{}"), Err(TraceError::NotOtlp(1))));
    config.steps[0].statements = vec!["sett(body, 1)".into()];
    assert!(matches!(trace_records(&config, "{}"), Err(TraceError::Rules(_))));
}

/// Scenario: a step that adds pods' metadata, and one after it. Guarantee: each record states that
/// the first one doesn't run on samples, and why; the other one runs.
#[test]
fn enrichment_is_stated_as_not_run() {
    let mut config = rules();
    let pods = json!({"name": "pods", "enrich": {"podMetadata": {"labels": ["app"]}}});
    config.steps.insert(0, serde_json::from_value(pods).unwrap());
    let traces = trace_records(&config, &sample()).unwrap();
    let text = render_text(&traces);
    let reason = "    not run on samples: metadata of pods is known in a cluster alone";
    assert_eq!(text.lines().filter(|line| *line == reason).count(), 4, "{text}");
    assert!(text.contains("record 2 (logs): changed"), "{text}");
    let json: Value = serde_json::from_str(&render_json(&traces)).unwrap();
    assert_eq!(json[3]["steps"][0]["outcome"], "not_run");
}
