//! Tests of what `conditions.rs` keeps to itself.

use super::*;

fn at(second: i64) -> Time {
    Time(k8s_openapi::jiff::Timestamp::from_second(second).unwrap())
}

fn ready(status: ConditionStatus, generation: i64, second: i64) -> Condition {
    Condition::new(ConditionType::Ready, status, Reason::Reconciled, "", generation, at(second))
}

/// Scenario: the same status again, later. Guarantee: the transition time stays and nothing
/// counts as changed, so a converged object is not written.
#[test]
fn the_same_fact_again_is_no_change() {
    let mut conditions = Vec::new();
    assert!(set_condition(&mut conditions, ready(ConditionStatus::True, 1, 10)));
    assert!(!set_condition(&mut conditions, ready(ConditionStatus::True, 1, 20)));
    assert_eq!(conditions[0].last_transition_time, at(10));
    assert!(set_condition(&mut conditions, ready(ConditionStatus::False, 1, 30)));
    assert_eq!(conditions[0].last_transition_time, at(30));
    assert_eq!(conditions.len(), 1);
}

/// Scenario: true, but for an older spec. Guarantee: it does not hold for the new one.
#[test]
fn an_older_generation_never_counts_as_true() {
    let conditions = vec![ready(ConditionStatus::True, 1, 10)];
    assert!(is_true(&conditions, ConditionType::Ready, 1));
    assert!(!is_true(&conditions, ConditionType::Ready, 2));
    assert!(!is_true(&conditions, ConditionType::TopicReady, 1));
}

/// Scenario: a long message of wide characters. Guarantee: it is cut without breaking one.
#[test]
fn a_long_message_is_cut_at_a_character() {
    let long = "é".repeat(2_000);
    let cut = Condition::new(
        ConditionType::Ready,
        ConditionStatus::False,
        Reason::KafkaRequestRejected,
        long,
        1,
        at(0),
    );
    assert_eq!(cut.message.len(), 1_024);
}

/// Scenario: the whole list. Guarantee: words are unique and can be read back.
#[test]
fn every_word_reads_back_as_itself() {
    for reason in Reason::ALL {
        assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
        assert!(!reason.meaning().trim().is_empty());
    }
    for type_ in ConditionType::ALL {
        assert_eq!(ConditionType::parse(type_.as_str()), Some(*type_));
    }
}
