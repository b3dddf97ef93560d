//! Rules, by the program: refused settings, a running edge, samples.

use rdkafka::mocking::MockCluster;
use serde_json::{Value, json};

use crate::command::{Running, Settings, binary, edge, request};

const RULES: &str = r#"processing:
  - name: rename
    context: log
    statements:
      - set(attributes["new"], attributes["old"]) where attributes["old"] != nil
      - delete_key(attributes, "old")
  - name: quiet
    drop:
      logs: ["severity_number < 9"]
  - name: strict
    errorMode: Propagate
    context: log
    statements:
      - set(attributes["parsed"], ParseJSON(body)["a"]) where severity_number >= 21
"#;

fn with_rules(servers: &str, rules: &str) -> Settings {
    let settings = std::fs::read_to_string(edge(servers).path()).unwrap();
    let settings = settings.replace("traces: otlp_traces", "traces: otlp_traces, logs: otlp_logs");
    Settings::new(&format!("{rules}{settings}"))
}

fn sample(severities: &[u32]) -> String {
    let log = |severity: &u32| {
        json!({"severityNumber": severity, "body": {"stringValue": "secret"},
               "timeUnixNano": "1700000000000000000",
               "attributes": [{"key": "old", "value": {"stringValue": "v"}}]})
    };
    let records: Vec<Value> = severities.iter().map(log).collect();
    json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string()
}

/// Scenario: rules with a wrong name in their second statement. Guarantee: `validate` and `run`
/// refuse the settings with field, line and column of both the document and the text.
#[test]
fn a_bad_rule_set_is_refused_with_line_and_column() {
    let bad = with_rules("kafka:9092", &RULES.replace("delete_key(", "delete_kye("));
    let said = bad.refused("validate");
    let start = "line 6, column 9: processing[0].statements[1]: ";
    assert!(said.len() == 1 && said[0].starts_with(start), "{said:?}");
    assert!(said[0].contains("(line 1, column 1 of the text)"), "{said:?}");
    assert!(said[0].contains("did you mean \"delete_key\"?"), "{said:?}");
    assert_eq!(bad.refused("run"), said);
    let key = with_rules(
        "kafka:9092",
        "processing: [{name: hash, redact: {hashKeyFile: /absent/key, sets: [Email]}}]\n",
    );
    assert_eq!(key.command("run").status.code(), Some(64));
}

/// Scenario: an edge with rules gets records that are changed, dropped, or refused because a rule
/// fails. Guarantee: clients are answered 200, 200 and 400 with the rule's name; records in are out,
/// dropped or refused; `/rules` has each rule's counts; the record's content is in no log.
#[test]
fn an_edge_runs_rules_and_counts_what_they_do() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("otlp_traces", 1, 1).unwrap();
    mock.create_topic("otlp_logs", 1, 1).unwrap();
    let times = "  otlp:\n    recordTimes: {pastDays: 36500}\n";
    let settings = with_rules(&mock.bootstrap_servers(), RULES);
    let text = std::fs::read_to_string(settings.path()).unwrap();
    let settings = Settings::new(&text.replacen("  otlp:\n", times, 1));
    let mut edge = Running::start(&settings);
    edge.wait_for_readiness(200, "ok");
    let (admin, http) = (edge.admin(), edge.http());
    let send = |severities: &[u32]| {
        let headers = ["content-type: application/json"];
        request(&http, "POST", "/v1/logs", &headers, sample(severities).as_bytes())
    };
    assert_eq!(send(&[5, 9, 17]).0, 200);
    assert_eq!(send(&[1, 2]).0, 200);
    let (status, answer) = send(&[9, 21]);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.contains("rule statements[0] of step") && answer.contains("strict"), "{answer}");
    let (_, metrics) = request(&admin, "GET", "/metrics", &[], b"");
    for line in [
        "millrace_records_in_total{signal=\"logs\"} 7",
        "millrace_records_out_total{signal=\"logs\"} 2",
        "millrace_records_dropped_total{rule=\"drop.logs[0]\",signal=\"logs\",step=\"quiet\"} 3",
        "millrace_records_refused_total{reason=\"rule_failed\",signal=\"logs\"} 2",
        "millrace_records_in_flight{signal=\"logs\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let (status, page) = request(&admin, "GET", "/rules", &[], b"");
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((status, &page["rules"][2]["signals"]["logs"]["droppedRecords"]), (200, &json!(3)));
    assert_eq!(page["rules"][3]["signals"]["logs"]["failed"], 1);
    let (status, log) = edge.end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("a rule failed on records") && !log.contains("secret"), "{log}");
}

/// Scenario: samples for `rules test`, as text and as JSON; a file that isn't there. Guarantee: each
/// record is shown before and after with the rules that did it.
#[test]
fn samples_show_what_rules_do() {
    let settings = with_rules("kafka:9092", RULES);
    let records = settings.path().with_file_name("records.json");
    std::fs::write(&records, sample(&[5, 9, 21])).unwrap();
    let test = |arguments: &[&str]| {
        let mut command = binary();
        command.args(["rules", "test", "--config"]).arg(settings.path());
        command.arg("--records").arg(&records).args(arguments).output().unwrap()
    };
    let output = test(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    for line in [
        "record 1 (logs): dropped",
        "    drop.logs[0] dropped: severity_number < 9",
        "record 2 (logs): changed",
        "record 3 (logs): refused",
        "3 records: 1 changed, 1 dropped, 1 refused",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    let traces: Value = serde_json::from_slice(&test(&["--output", "json"]).stdout).unwrap();
    assert_eq!(traces[0]["after"], Value::Null);
    assert_eq!(traces[1]["steps"][0]["step"], "rename");
    std::fs::remove_file(&records).unwrap();
    assert_eq!(test(&[]).status.code(), Some(1));
}
