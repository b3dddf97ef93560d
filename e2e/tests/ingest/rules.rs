//! Rules on the way, all parts real: an edge that edits and drops, Kafka, a gateway, the engine.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::lab::{Lab, Variant};
use millrace_e2e::{http, topics, wait};
use serde_json::json;

/// For a load of some hundred thousand spans on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// A rename, a value by a condition, and dropped records.
const LOG_RULES: &str = r#"processing:
  - name: rename
    context: log
    statements:
      - set(attributes["user.id"], attributes["uid"]) where attributes["uid"] != nil
      - delete_key(attributes, "uid")
      - set(severity_text, "LOUD") where severity_number >= 17
  - name: quiet
    drop:
      logs: ["severity_number < 9"]
"#;

/// A value, and a route.
const ROUTE_RULES: &str = r#"processing:
  - name: mark
    statements: ['set(log.severity_text, "marked")']
  - name: audit
    route: {topic: audit.logs, logs: ['log.attributes["team"] == "audit"']}
"#;

/// One of 16 traces goes, all others are marked.
const SPAN_RULES: &str = r#"processing:
  - name: thin
    drop:
      spans: ['IsMatch(trace_id.string, "^0")']
  - name: mark
    context: span
    statements:
      - set(attributes["ruled"], "yes")
"#;

fn query(lab: &Lab, sql: &str) -> Result<String> {
    Ok(lab.engine.query(sql)?.trim().to_owned())
}

/// Scenario: logs through an edge that renames, sets and drops. Guarantee: the rows are as the rules
/// say, and the edge's counts of records add up. Slow: a broker and an engine start.
#[test]
fn rows_are_as_the_rules_say() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge_with(LOG_RULES).unwrap();
    let _gateway = lab.gateway("gateway", "    batch: {maxAgeMillis: 100}\n").unwrap();
    let log = |severity: u32, body: &str| {
        json!({"severityNumber": severity, "severityText": "x", "body": {"stringValue": body},
               "timeUnixNano": "1700000000000000000",
               "attributes": [{"key": "uid", "value": {"stringValue": "u-7"}}]})
    };
    let records = [log(5, "debug"), log(9, "info"), log(17, "error")];
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let json = ("content-type", "application/json");
    let answer = http::send(edge.ports.http, "POST", "/v1/logs", &[json], request.as_bytes());
    assert_eq!(answer.unwrap().status, 200);
    let rows = "SELECT Body, SeverityText, LogAttributes.`user.id`, LogAttributes.uid \
                FROM otel.otel_logs ORDER BY SeverityNumber FORMAT TSV";
    let expected = "info\tx\tu-7\t\\N\nerror\tLOUD\tu-7\t\\N";
    wait::until("the rows", LIMIT, || {
        let found = query(&lab, rows)?;
        ensure!(found == expected, "{found}");
        Ok(())
    })
    .unwrap();
    let count = |name| edge.metric(name, "signal=\"logs\"").unwrap();
    assert_eq!(count("millrace_records_in_total"), 3.0);
    assert_eq!(count("millrace_records_out_total"), 2.0);
    assert_eq!(count("millrace_records_dropped_total"), 1.0);
}

/// Scenario: logs through an edge that routes some to another topic, with a gateway and a database
/// for each topic. Guarantee: each record is in one database, edited by the steps before the route,
/// and counts of records add up. Slow: a broker and an engine start.
#[test]
fn routed_records_are_in_the_tables_of_their_topic() {
    let lab = Lab::start().unwrap();
    let bootstrap = lab.broker.bootstrap();
    topics::create(&bootstrap, "audit.logs", 1).unwrap();
    lab.make_tables(Variant::Map.database(), Variant::Map).unwrap();
    let edge = lab.edge_with(ROUTE_RULES).unwrap();
    let _main = lab.gateway("main", "    batch: {maxAgeMillis: 100}\n").unwrap();
    let receiver =
        "    topics: {logs: audit.logs}\n    deadLetterTopics: {logs: otlp_logs_dead_letter}\n";
    let exporter = "    batch: {maxAgeMillis: 100}\n";
    let _audit = lab.gateway_of("audit", "audit", Variant::Map, (receiver, exporter)).unwrap();
    let log = |body: &str, team: &str| {
        json!({"severityNumber": 9, "body": {"stringValue": body},
               "timeUnixNano": "1700000000000000000",
               "attributes": [{"key": "team", "value": {"stringValue": team}}]})
    };
    let records = [log("one", "web"), log("two", "audit"), log("three", "web")];
    let request = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).to_string();
    let json = ("content-type", "application/json");
    let answer = http::send(edge.ports.http, "POST", "/v1/logs", &[json], request.as_bytes());
    assert_eq!(answer.unwrap().status, 200);
    for (database, expected) in
        [("otel", "one\tmarked\nthree\tmarked"), ("otel_map", "two\tmarked")]
    {
        let rows =
            format!("SELECT Body, SeverityText FROM {database}.otel_logs ORDER BY Body FORMAT TSV");
        wait::until("the rows", LIMIT, || {
            let found = query(&lab, &rows)?;
            ensure!(found == expected, "{database}: {found}");
            Ok(())
        })
        .unwrap();
    }
    let count = |name| edge.metric(name, "signal=\"logs\"").unwrap();
    assert_eq!(count("millrace_records_in_total"), 3.0);
    assert_eq!(count("millrace_records_out_total"), 3.0);
    assert_eq!(count("millrace_records_routed_total"), 1.0);
}

/// Scenario: spans through an edge that drops some traces and marks the others, to a gateway with
/// effectively-once delivery that is killed in between. Guarantee: every span that no rule dropped
/// is stored once, with its mark; the dropped ones are counted, all of them. Slow: a broker and an
/// engine start, and 100,000 spans pass.
#[test]
fn rules_leave_effectively_once_as_it_is() {
    const SPANS: u64 = 100_000;
    let lab = Lab::start().unwrap();
    let edge = lab.edge_with(SPAN_RULES).unwrap();
    let receiver = "    workers: 1\n    delivery: EffectivelyOnce\n";
    let mut gateway = lab.gateway_with("gateway", receiver, "").unwrap();
    lab.load(&edge, 48, SPANS / 2).send(lab.folder(), LIMIT).unwrap();
    gateway.crash_and_restart().unwrap();
    gateway.ready().unwrap();
    lab.load(&edge, 49, SPANS / 2).send(lab.folder(), LIMIT).unwrap();
    lab.committed(LIMIT).unwrap();
    let dropped = edge.metric("millrace_records_dropped_total", "step=\"thin\"").unwrap() as u64;
    assert!((SPANS / 32..SPANS / 8).contains(&dropped), "{dropped}");
    let rows = query(
        &lab,
        "SELECT count(), uniqExact(TraceId, SpanId), countIf(TraceId LIKE '0%'), \
         countIf(toString(SpanAttributes.ruled) = 'yes') FROM otel.otel_traces FORMAT TSV",
    )
    .unwrap();
    let stored = SPANS - dropped;
    assert_eq!(rows, format!("{stored}\t{stored}\t0\t{stored}"));
}
