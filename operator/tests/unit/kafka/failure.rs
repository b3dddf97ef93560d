//! Tests of what `kafka/failure.rs` keeps to itself.

use super::*;

/// Scenario: the same trouble twice, with other times. Guarantee: the same words, so that the
/// status is not written again.
#[test]
fn what_changes_from_attempt_to_attempt_is_cut_off() {
    let first = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection \
                 refused (after 0ms in state CONNECT)";
    let second = "localhost:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection \
                  refused (after 12ms in state CONNECT, 2 identical error(s) suppressed)";
    assert_eq!(settled(first), settled(second));
    assert_eq!(settled(first), "Connect to ipv4#127.0.0.1:1 failed: Connection refused");
}

/// Scenario: a group's coordinator is loading or moves. Guarantee: told apart from a refusal,
/// so that the question is put again.
#[test]
fn a_coordinator_that_is_not_ready_is_asked_again() {
    use RDKafkaErrorCode as Code;
    for code in
        [Code::NotCoordinator, Code::CoordinatorNotAvailable, Code::CoordinatorLoadInProgress]
    {
        let failure = Failure::answered("ask for committed offsets", code);
        assert!(failure.passes, "{failure:?}");
        assert_eq!(failure.reason, Reason::KafkaUnreachable);
    }
    assert!(!Failure::answered("ask", Code::GroupAuthorizationFailed).passes);
}

/// Scenario: answers of a broker. Guarantee: each has its stable reason and says what to do.
#[test]
fn answers_of_a_broker_have_stable_reasons() {
    use RDKafkaErrorCode as Code;
    let reason = |code| Failure::answered("create topic t", code).reason;
    assert_eq!(reason(Code::InvalidReplicationFactor), Reason::ReplicationImpossible);
    assert_eq!(reason(Code::TopicAuthorizationFailed), Reason::KafkaNotAuthorized);
    assert_eq!(reason(Code::InvalidConfig), Reason::TopicSettingRefused);
    assert_eq!(reason(Code::OperationTimedOut), Reason::KafkaUnreachable);
    assert_eq!(reason(Code::PolicyViolation), Reason::KafkaRefused);
    // A broker that just restarted does not know yet what it leads.
    assert_eq!(reason(Code::UnknownLeaderEpoch), Reason::KafkaUnreachable);
    let told = Failure::answered("create topic t", Code::InvalidReplicationFactor).message;
    assert!(told.starts_with("cannot create topic t: "), "{told}");
    assert!(told.contains("at most the number of brokers"), "{told}");
}
