//! Records for another topic.

use millrace_pipeline::publish::PublishError;
use millrace_processing::Config;
use millrace_wire::Signal;
use serde_json::{Value, json};

use crate::rig::{Recorder, Rig, logs, record, steps};

fn by_severity() -> Config {
    steps(json!([
        {"name": "audit", "route": {"topic": "audit", "logs": ["severity_number >= 9"]}},
        {"name": "mark", "context": "log", "statements": ["set(attributes[\"k\"], \"marked\")"]},
    ]))
}

fn severities(recorder: &Recorder) -> Vec<i32> {
    recorder.records().iter().map(|record| record.severity_number).collect()
}

/// Scenario: requests of which some, all and none of the records are routed. Guarantee: each record
/// reaches one exporter, later steps run on those that stay, each part's bytes are covered, counts
/// are of the rule, and nothing stays reserved.
#[test]
fn routed_records_reach_their_own_exporter() {
    let rig = Rig::new(&by_severity());
    let mixed = logs(vec![record(5, "k", "a"), record(9, "k", "b"), record(17, "k", "c")]);
    rig.publish(Signal::Logs, &mixed).unwrap();
    rig.publish_own(Signal::Logs, &logs(vec![record(10, "k", "d")])).unwrap();
    rig.publish(Signal::Logs, &logs(vec![record(1, "k", "e")])).unwrap();
    assert_eq!(severities(&rig.audit), [9, 17, 10]);
    assert_eq!(severities(&rig.recorder), [5, 1]);
    let marked = |recorder: &Recorder| {
        let records = recorder.records();
        records.iter().filter(|record| format!("{record:?}").contains("marked")).count()
    };
    assert_eq!((marked(&rig.audit), marked(&rig.recorder)), (0, 2));
    let rule = ["signal=\"logs\"", "step=\"audit\"", "rule=\"route.logs[0]\""];
    assert_eq!(rig.metric("millrace_records_routed_total", &rule), 3.0);
    assert_eq!(rig.metric("millrace_records_dropped_total", &[]), 0.0);
    assert_eq!(rig.budget.used_bytes(), 0);
    let page: Value = serde_json::from_str(&rig.rules.render_json()).unwrap();
    assert_eq!(page["rules"][0]["signals"]["logs"]["routedRecords"], 3);
}

/// Scenario: one of the two exporters refuses its part, and the client sends again. Guarantee: the
/// client learns it; nothing is missing in the end, what was accepted may be there twice, and counts
/// are of the accepted request alone.
#[test]
fn a_part_that_is_refused_refuses_the_request() {
    for is_audit in [true, false] {
        let rig = Rig::new(&by_severity());
        let request = logs(vec![record(5, "k", "a"), record(9, "k", "b")]);
        let away = if is_audit { &rig.audit } else { &rig.recorder };
        *away.refusal.lock().unwrap() = Some(PublishError::Full);
        assert_eq!(rig.publish(Signal::Logs, &request), Err(PublishError::Full));
        assert_eq!(rig.metric("millrace_records_routed_total", &[]), 0.0);
        *away.refusal.lock().unwrap() = None;
        rig.publish(Signal::Logs, &request).unwrap();
        assert_eq!(rig.metric("millrace_records_routed_total", &[]), 1.0);
        assert_eq!(severities(&rig.recorder), [5]);
        assert_eq!(severities(&rig.audit), if is_audit { vec![9] } else { vec![9, 9] });
        assert_eq!(rig.budget.used_bytes(), 0);
    }
}
