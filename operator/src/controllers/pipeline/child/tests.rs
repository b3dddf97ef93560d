//! Tests the private parts of `controllers/pipeline/child.rs`.

use super::*;
use millrace_crds::v1alpha1::TelemetryTopicStatus;

fn topic(generation: i64, observed: Option<i64>, condition: Option<(bool, i64)>) -> Child {
    let text = r#"{"apiVersion":"millrace.dev/v1alpha1","kind":"TelemetryTopic",
        "metadata":{"name":"t"},"spec":{"kafka":{"bootstrapServers":["k:9092"]}}}"#;
    let mut topic: TelemetryTopic = serde_json::from_str(text).unwrap();
    topic.metadata.generation = Some(generation);
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    topic.status = Some(TelemetryTopicStatus {
        observed_generation: observed,
        conditions: condition
            .map(|(holds, generation)| {
                let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
                let type_ = ConditionType::Ready;
                Condition::new(type_, status, Reason::Reconciled, "", generation, now)
            })
            .into_iter()
            .collect(),
        ..TelemetryTopicStatus::default()
    });
    Child::from_object(&topic, None)
}

/// Scenario: every combination of generations. Guarantee: a child is ready only if its status and
/// the condition are both about its newest spec.
#[test]
fn a_child_of_an_older_generation_is_never_ready() {
    let ready = |child: &Child| child.current_fact(ConditionType::Ready).is_true();
    assert!(ready(&topic(2, Some(2), Some((true, 2)))));
    assert!(!ready(&topic(2, Some(1), Some((true, 1)))));
    assert!(!ready(&topic(2, Some(2), Some((true, 1)))));
    assert!(!ready(&topic(2, Some(1), Some((true, 2)))));
    assert!(!ready(&topic(2, Some(2), Some((false, 2)))));
    assert!(!ready(&topic(2, Some(2), None)));
    assert!(!ready(&topic(1, None, None)));
}

/// Scenario: a healthy child is held back. Guarantee: it is not ready, and its fact names what it
/// waits for.
#[test]
fn a_held_child_is_not_ready_whatever_it_says() {
    let mut child = topic(1, Some(1), Some((true, 1)));
    child.held = Some(HoldReason::WaitsFor("TelemetrySchema s".into()));
    let fact = child.current_fact(ConditionType::Ready);
    assert_eq!(fact.reason, Reason::Waiting);
    assert!(fact.message.contains("TelemetrySchema s"));
}
