//! Tests of the private parts of `kafka/failure.rs`.

use super::*;

/// Scenario: the same error twice, with different times. Guarantee: the same message, so that the
/// status is not rewritten.
#[test]
fn what_changes_from_attempt_to_attempt_is_cut_off() {
    let first = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection \
                 refused (after 0ms in state CONNECT)";
    let second = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection \
                  refused (after 12ms in state CONNECT, 2 identical error(s) suppressed)";
    assert_eq!(strip_variable_parts(first), strip_variable_parts(second));
    assert_eq!(
        strip_variable_parts(first),
        "Connect to ipv4#127.0.0.1:1 failed: Connection refused"
    );
}

/// Scenario: a group's coordinator is loading or moves. Guarantee: it is distinguished from a
/// refusal, so that the request is retried.
#[test]
fn a_coordinator_that_is_not_ready_is_asked_again() {
    use RDKafkaErrorCode as Code;
    for code in
        [Code::NotCoordinator, Code::CoordinatorNotAvailable, Code::CoordinatorLoadInProgress]
    {
        let failure = Failure::from_code("fetch committed offsets", code);
        assert!(failure.passes, "{failure:?}");
        assert_eq!(failure.reason, Reason::KafkaUnreachable);
    }
    assert!(!Failure::from_code("ask", Code::GroupAuthorizationFailed).passes);
}

/// Scenario: responses of a broker. Guarantee: each has its stable reason and states what to do.
#[test]
fn answers_of_a_broker_have_stable_reasons() {
    use RDKafkaErrorCode as Code;
    let reason = |code| Failure::from_code("create topic t", code).reason;
    assert_eq!(reason(Code::InvalidReplicationFactor), Reason::TooFewBrokers);
    assert_eq!(reason(Code::TopicAuthorizationFailed), Reason::KafkaNotAuthorized);
    assert_eq!(reason(Code::InvalidConfig), Reason::TopicSettingRejected);
    assert_eq!(reason(Code::OperationTimedOut), Reason::KafkaUnreachable);
    assert_eq!(reason(Code::PolicyViolation), Reason::KafkaRequestRejected);
    // A broker that just restarted does not know yet which partitions it leads.
    assert_eq!(reason(Code::UnknownLeaderEpoch), Reason::KafkaUnreachable);
    let told = Failure::from_code("create topic t", Code::InvalidReplicationFactor).message;
    assert!(told.starts_with("cannot create topic t: "), "{told}");
    assert!(told.contains("at most the number of brokers"), "{told}");
}
