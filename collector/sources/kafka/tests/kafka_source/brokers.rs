//! Brokers that refuse for a while, one code after the other, and leaders and coordinators that
//! move.

use rdkafka::mocking::MockCoordinator;
use rdkafka::types::RDKafkaApiKey;
use rdkafka::types::RDKafkaRespErr::{
    self, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
    RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
    RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
    RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
    RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
};

use super::*;

/// A source on one partition, to which a few messages are sent after each failure.
struct Followed {
    kafka: Kafka,
    sink: Arc<FakeSink>,
    running: Running,
    sent: Vec<String>,
}

impl Followed {
    /// Starts with a session that outlasts what is refused: a coordinator that refuses a commit
    /// also delays heartbeats, and a member that is evicted rightly reads again what it could not
    /// commit.
    fn start(kafka: Kafka) -> Self {
        let sink = FakeSink::new(Mode::Store);
        let options = Options { session_seconds: 60, ..Options::default() };
        let running = Running::start(&kafka, &sink, options);
        let mut followed = Self { kafka, sink, running, sent: Vec::new() };
        followed.goes_on("before");
        followed
    }

    /// Sends some messages and waits until all are stored once and committed.
    fn goes_on(&mut self, after: &str) {
        let more = messages(&format!("{:03}-{after}-", self.sent.len()), 5);
        self.kafka.send(0, more.clone());
        self.sent.extend(more);
        let count = self.sent.len();
        eventually(after, || self.sink.messages().len() >= count);
        assert_eq!(self.sink.messages(), self.sent, "after {after}");
        eventually(after, || self.kafka.committed(0) == i64::try_from(count).ok());
    }

    fn refused(&mut self, key: RDKafkaApiKey, codes: &[RDKafkaRespErr]) {
        for code in codes {
            self.kafka.cluster.request_errors(key, &[*code; 2]);
            self.goes_on(&format!("{code:?}"));
        }
    }
}

/// Scenario: each code with which a broker may refuse a fetch for a while, twice in a row.
/// Guarantee: everything is stored once, in order, and committed. Slow: each of 8 codes comes
/// twice, librdkafka waits after each, and a commit comes once a second.
#[test]
fn every_passing_code_of_a_fetch_is_tried_again() {
    let mut followed = Followed::start(Kafka::new(1));
    followed.refused(
        RDKafkaApiKey::Fetch,
        &[
            RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
            RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
            RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
            RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
        ],
    );
    followed.running.stop();
}

/// Scenario: each code with which a coordinator may refuse a commit for a while, twice in a row.
/// Guarantee: everything is stored once, in order, and committed in the end. Slow: each of 4 codes
/// comes twice, and a commit is retried after half a second or more.
#[test]
fn every_passing_code_of_a_commit_is_tried_again() {
    let mut followed = Followed::start(Kafka::new(1));
    followed.refused(
        RDKafkaApiKey::OffsetCommit,
        &[
            RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        ],
    );
    followed.running.stop();
}

/// Scenario: leader and coordinator move among three brokers, separately and together. Guarantee:
/// everything is stored once, in order, and committed with the current coordinator.
#[test]
fn leaders_and_coordinators_that_move_are_followed() {
    let kafka = Kafka::with_brokers(3, 1);
    let group = || MockCoordinator::Group("millrace-gateway".to_owned());
    kafka.cluster.coordinator(group(), 1).unwrap();
    kafka.cluster.partition_leader(TOPIC, 0, Some(1)).unwrap();
    let mut followed = Followed::start(kafka);
    for (leader, coordinator) in [(2, 1), (2, 3), (1, 2), (3, 1)] {
        followed.kafka.cluster.partition_leader(TOPIC, 0, Some(leader)).unwrap();
        followed.kafka.cluster.coordinator(group(), coordinator).unwrap();
        followed.goes_on(&format!("leader {leader}, coordinator {coordinator}"));
    }
    followed.running.stop();
}

/// Scenario: effectively once; the coordinator forbids the group's commits, which it allowed
/// before, and later allows them again. Guarantee: the source isn't ready for that time and names
/// the refusal, and a metric counts it; then all is stored once and committed.
#[test]
fn commits_that_are_forbidden_show_in_readiness() {
    let kafka = Kafka::new(1);
    let sink = FakeSink::new(Mode::Store);
    let options = Options { delivery: DeliveryMode::EffectivelyOnce, ..Options::default() };
    let running = Running::start(&kafka, &sink, options);
    eventually("ready", || running.readiness.is_ready());
    let refused = [RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; 8];
    kafka.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &refused);
    kafka.send(0, messages("m", 5));
    eventually("not ready", || {
        let reasons = running.readiness.reasons();
        reasons.iter().any(|r| r.contains("commits of group millrace-gateway are refused"))
    });
    assert_eq!(sink.messages(), Vec::<String>::new(), "nothing is sent that no commit names");
    let counter = "millrace_commits_refused_total{error=\"GroupAuthorizationFailed\"}";
    assert!(running.metric(counter) >= 1.0);
    eventually("ready again", || running.readiness.is_ready());
    eventually("committed", || kafka.committed(0) == Some(5));
    assert_eq!(sink.messages(), messages("m", 5));
    running.stop();
}
