//! The table of what may stop producing, and how far each fault may reach.
//!
//! The mock's brokers can't refuse for one partition alone, so a partition or topic under its
//! minimum of in-sync replicas has a leader that doesn't answer; for all topics the code is real.
//! Kafka has no rights, lengths and deletions of one partition, so these cells don't exist.

use std::sync::atomic::{AtomicU64, Ordering};

use rdkafka::types::RDKafkaRespErr::{
    RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_NO_ERROR,
    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
    RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
};

use super::*;

const TOPICS: [(Signal, &str); 3] = [
    (Signal::Traces, "otlp_traces"),
    (Signal::Logs, "otlp_logs"),
    (Signal::Metrics, "otlp_metrics"),
];
const PARTITIONS: i32 = 4;
/// The messages of one partition with the client library, with this many partitions.
const SLOTS: usize = 2;
/// The broker that leads the faulty partitions, and the one that leads all others.
const STRUCK: i32 = 1;
const SPARED: i32 = 2;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Leaderless,
    UnderMinIsr,
    Deleted,
    Forbidden,
    TooLarge,
    Throttled,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Scope {
    Partition,
    Topic,
    All,
}

/// How clients and operators observe a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// Everything is stored.
    Stored,
    /// All but the first few are stored, in other partitions, and a note names the partition.
    Avoided,
    /// The topics concerned refuse at once, by name; the others store everything.
    Refused,
    /// Each message is returned separately; the topic accepts others.
    GivenBack,
}

const TABLE: [(Fault, Scope, Outcome); 14] = [
    (Fault::Leaderless, Scope::Partition, Outcome::Avoided),
    (Fault::Leaderless, Scope::Topic, Outcome::Refused),
    (Fault::Leaderless, Scope::All, Outcome::Refused),
    (Fault::UnderMinIsr, Scope::Partition, Outcome::Avoided),
    (Fault::UnderMinIsr, Scope::Topic, Outcome::Refused),
    (Fault::UnderMinIsr, Scope::All, Outcome::Refused),
    (Fault::Deleted, Scope::Topic, Outcome::Refused),
    (Fault::Deleted, Scope::All, Outcome::Refused),
    (Fault::Forbidden, Scope::Topic, Outcome::Refused),
    (Fault::Forbidden, Scope::All, Outcome::Refused),
    (Fault::TooLarge, Scope::All, Outcome::GivenBack),
    (Fault::Throttled, Scope::Partition, Outcome::Stored),
    (Fault::Throttled, Scope::Topic, Outcome::Stored),
    (Fault::Throttled, Scope::All, Outcome::Stored),
];

struct Stand {
    // It is dropped before its brokers.
    rig: Rig,
    mock: Mock,
    fault: Fault,
    scope: Scope,
    sent: AtomicU64,
}

impl Stand {
    async fn start(fault: Fault, scope: Scope) -> Self {
        let mock: Mock = MockCluster::new(2).unwrap();
        without_leader_hints(&mock);
        for (_, topic) in TOPICS {
            mock.create_topic(topic, PARTITIONS, 2).unwrap();
        }
        let rig = Rig::start(&mock, |settings| {
            settings.linger_millis = 0;
            settings.delivery_timeout_seconds = 3;
            settings.topics = Topics {
                traces: Some(TopicName::new("otlp_traces").unwrap()),
                logs: Some(TopicName::new("otlp_logs").unwrap()),
                metrics: Some(TopicName::new("otlp_metrics").unwrap()),
            };
        });
        let stand = Self { rig, mock, fault, scope, sent: AtomicU64::new(0) };
        stand.for_partitions(|stand, topic, partition, struck| {
            let leader = if struck { STRUCK } else { SPARED };
            stand.mock.partition_leader(topic, partition, Some(leader)).unwrap();
        });
        stand.all_stored().await;
        stand
    }

    fn for_partitions(&self, each: impl Fn(&Self, &str, i32, bool)) {
        for (signal, topic) in TOPICS {
            for partition in 0..PARTITIONS {
                let struck =
                    self.is_struck(signal) && (self.scope != Scope::Partition || partition == 0);
                each(self, topic, partition, struck);
            }
        }
    }

    fn is_struck(&self, signal: Signal) -> bool {
        self.scope == Scope::All || signal == Signal::Traces
    }

    /// Begins the fault, or ends it.
    fn strike(&self, begins: bool) {
        let struck_topics = TOPICS.iter().filter(|(signal, _)| self.is_struck(*signal));
        let topic_error = |code| {
            let code = if begins { code } else { RD_KAFKA_RESP_ERR_NO_ERROR };
            struck_topics.for_each(|(_, topic)| self.mock.topic_error(topic, code).unwrap());
        };
        let produce_error = |code| match begins {
            true => self.mock.request_errors(RDKafkaApiKey::Produce, &[code; 10_000]),
            false => self.mock.clear_request_errors(RDKafkaApiKey::Produce),
        };
        let slow = |time| {
            let time = if begins { time } else { Duration::ZERO };
            self.mock.broker_round_trip_time(STRUCK, time).unwrap();
        };
        match (self.fault, self.scope) {
            (Fault::Leaderless, _) => self.for_partitions(|stand, topic, partition, struck| {
                if struck {
                    let leader = (!begins).then_some(STRUCK);
                    stand.mock.partition_leader(topic, partition, leader).unwrap();
                }
            }),
            (Fault::UnderMinIsr, Scope::All) => {
                produce_error(RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
            }
            (Fault::UnderMinIsr, _) => slow(Duration::from_secs(120)),
            (Fault::Deleted, _) => topic_error(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART),
            (Fault::Forbidden, Scope::All) => {
                produce_error(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
            }
            (Fault::Forbidden, _) => topic_error(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED),
            (Fault::TooLarge, _) => produce_error(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE),
            (Fault::Throttled, _) => slow(Duration::from_millis(700)),
        }
    }

    fn send(&self, signal: Signal) -> Result<PendingDelivery, PublishError> {
        // Nothing on this path decodes it, but the same bytes would be a client's retry.
        let text = format!("record {}", self.sent.fetch_add(1, Ordering::Relaxed));
        let (bytes, checked) = (text.as_bytes(), RequestOutline::unjoinable(1));
        let reservation = self.rig.budget.try_reserve(bytes.len() as u64).unwrap();
        let cancellation = Cancellation::default();
        self.rig.publisher.publish(PublishRequest {
            signal,
            bytes,
            checked,
            reservation,
            cancellation,
            client: None,
        })
    }

    async fn publish(&self, signal: Signal) -> Result<DeliveryReceipt, PublishError> {
        self.send(signal)?.await
    }

    /// Waits until all topics store again, and readiness agrees.
    async fn all_stored(&self) {
        let start = Instant::now();
        for (signal, _) in TOPICS {
            // One for each partition.
            for _ in 0..PARTITIONS {
                while let Err(refused) = self.publish(signal).await {
                    assert!(start.elapsed() < PATIENCE, "{signal}: {refused}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        let readiness = &self.rig.readiness;
        wait_until("readiness", || readiness.is_ready() && readiness.warnings().is_empty());
    }

    async fn others_are_stored(&self) {
        for (signal, _) in TOPICS.into_iter().filter(|(signal, _)| !self.is_struck(*signal)) {
            assert_eq!(self.publish(signal).await, Ok(DeliveryReceipt::default()), "{signal}");
        }
    }

    async fn judge(&self, outcome: Outcome) {
        let (rig, struck) = (&self.rig, TOPICS.map(|(signal, _)| signal));
        let struck = struck.into_iter().filter(|signal| self.is_struck(*signal));
        match outcome {
            Outcome::Stored => {
                for signal in struck.chain([Signal::Metrics]) {
                    assert_eq!(self.publish(signal).await, Ok(DeliveryReceipt::default()));
                }
                assert!(rig.readiness.is_ready());
            }
            Outcome::GivenBack => {
                for signal in struck {
                    for _ in 0..5 {
                        assert!(matches!(
                            self.publish(signal).await,
                            Err(PublishError::Unavailable(_))
                        ));
                    }
                }
                assert!(rig.readiness.is_ready());
            }
            Outcome::Avoided => {
                let mut failed = 0;
                for _ in 0..40 {
                    failed += usize::from(self.publish(Signal::Traces).await.is_err());
                    self.others_are_stored().await;
                }
                assert!(failed <= SLOTS, "{failed} of 40 failed");
                // No client's message was withdrawn.
                assert_eq!(rig.metric("millrace_produce_failures_total{class=\"passing\"}"), 0);
                wait_until("the partition's name", || {
                    rig.readiness.warnings().iter().any(|note| note.contains("partitions [0]"))
                });
                assert!(rig.readiness.is_ready());
            }
            Outcome::Refused => self.refuses(struck.collect()).await,
        }
    }

    /// Checks that each of the signals refuses at once, naming its topic, within an operator's time
    /// limit.
    async fn refuses(&self, signals: Vec<Signal>) {
        let mut open: Vec<PendingDelivery> = Vec::new();
        for signal in signals.clone() {
            let (_, topic) = TOPICS.into_iter().find(|(known, _)| *known == signal).unwrap();
            let start = Instant::now();
            loop {
                match self.send(signal) {
                    Ok(delivery) => open.push(delivery),
                    Err(PublishError::Unavailable(why)) => {
                        assert!(why.contains(topic), "{why}");
                        break;
                    }
                    Err(refused) => panic!("{refused}"),
                }
                self.others_are_stored().await;
                assert!(start.elapsed() < PATIENCE, "{topic} is not refused");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        for delivery in open {
            // Each is stored before the fault was noticed, or answered to send again: none stays
            // unanswered.
            let _ = tokio::time::timeout(PATIENCE, delivery).await.expect("an answer");
            self.others_are_stored().await;
        }
        let readiness = &self.rig.readiness;
        let mut sent_at = Instant::now();
        wait_until("the topic's name", || {
            // Clients retry: without them a topic that was refused once isn't tried.
            if sent_at.elapsed() > Duration::from_millis(100) {
                sent_at = Instant::now();
                signals.iter().for_each(|signal| drop(self.send(*signal)));
            }
            let names_topic =
                |texts: Vec<String>| texts.iter().any(|it| it.contains("otlp_traces"));
            match self.scope {
                Scope::All => names_topic(readiness.reasons()),
                _ => readiness.is_ready() && names_topic(readiness.warnings()),
            }
        });
    }
}

async fn run(fault: Fault) {
    for (_, scope, outcome) in TABLE.into_iter().filter(|(known, ..)| *known == fault) {
        let stand = Stand::start(fault, scope).await;
        stand.strike(true);
        stand.judge(outcome).await;
        stand.strike(false);
        stand.all_stored().await;
    }
}

/// Scenario: no leader for a partition, a topic, all topics; then leaders. Guarantee: the outcome
/// of the table, other topics store everything in the meantime, and all topics recover afterwards.
/// Slow: the fault occurs three times, and each time messages must stall for 5 s before it is
/// noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_no_leader_is_avoided_or_refused() {
    run(Fault::Leaderless).await;
}

/// Scenario: too few in-sync replicas of a partition, a topic, all topics. Guarantee: as above.
/// Slow: the fault occurs three times, and each time messages must stall for 5 s before it is
/// noticed.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_under_its_minimum_of_replicas_is_avoided_or_refused() {
    run(Fault::UnderMinIsr).await;
}

/// Scenario: a topic is deleted, or all are. Guarantee: as above. Slow: the fault occurs twice, and
/// timeouts of 3 s and more must pass before a topic refuses and before it stores again.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_deleted_topic_refuses_alone() {
    run(Fault::Deleted).await;
}

/// Scenario: the right to write to a topic, or to all, is withdrawn. Guarantee: as above. Slow: the
/// fault occurs twice, and a topic that refused is tried again only after 2 s or more.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_forbidden_topic_refuses_alone() {
    run(Fault::Forbidden).await;
}

/// Scenario: topics that accept no message of a length. Guarantee: as above.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_too_large_is_given_back_alone() {
    run(Fault::TooLarge).await;
}

/// Scenario: brokers that answer late, as under a quota. Guarantee: as above.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_throttled_is_stored() {
    run(Fault::Throttled).await;
}
