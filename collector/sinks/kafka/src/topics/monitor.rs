//! Watches Kafka and its topics, and reports the exporter's readiness.
//!
//! One thread requests the topics' metadata, often while something fails and seldom otherwise. A
//! topic that should exist is requested by name, which never creates it. Metadata alone doesn't
//! show whether a topic stores records, so each topic also judges that by the answers to producing.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::ReadinessPart;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use crate::produce::failure::Class;
use crate::produce::producer::{Producer, code_of};
use crate::produce::queue_thread::QueueThread;
use crate::topics::topic::{DeliveryContext, TopicPublisher};

/// How often readiness is reported, and how often metadata is requested during a failure.
const PERIOD: Duration = Duration::from_secs(1);

/// How often metadata is requested otherwise: often enough to notice a deleted topic soon.
const PERIOD_WHILE_WELL: Duration = Duration::from_secs(10);

/// The time limit of one query. It also bounds how long the end of the thread takes.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Unanswered queries in a row after which a Kafka that was reached counts as away: with their
/// time limit and the pause between them as long as [`PROOF_AGE`]. While brokers elect leaders one
/// may stay unanswered, and all edges would leave their Service at once.
const UNANSWERED_MAX: u32 = 2;

/// How long a stored message proves that Kafka stores: it outweighs an unanswered query.
pub(crate) const PROOF_AGE: Duration = Duration::from_secs(5);

/// The maximum age of an error that is reported as the reason why a query failed.
const ERROR_AGE: Duration = Duration::from_secs(30);

/// The thread. It ends when this is dropped.
pub(crate) type Monitor = QueueThread<Infallible>;

/// Starts watching through `producer`, which the thread holds while it runs.
pub(crate) fn start_monitor(
    producer: Producer<DeliveryContext>,
    topics: Vec<Arc<TopicPublisher>>,
    part: ReadinessPart,
    drain: Drain,
) -> io::Result<Monitor> {
    let was_reached = vec![false; topics.len()];
    let watch = KafkaWatch { producer, topics, was_reached, unanswered: 0, part, drain };
    QueueThread::start("kafka-monitor", 0, move |stop| watch.run(stop))
}

struct KafkaWatch {
    producer: Producer<DeliveryContext>,
    topics: Vec<Arc<TopicPublisher>>,
    /// Which topics ever stored records, or could have.
    was_reached: Vec<bool>,
    /// Queries in a row without an answer.
    unanswered: u32,
    part: ReadinessPart,
    drain: Drain,
}

impl KafkaWatch {
    fn run(mut self, stop: &Receiver<Infallible>) {
        let mut due = Instant::now();
        loop {
            let is_due = Instant::now() >= due;
            if is_due {
                self.request_metadata();
            }
            let is_well = self.report_topics() && self.unanswered == 0;
            if is_due {
                due = Instant::now() + if is_well { PERIOD_WHILE_WELL } else { PERIOD };
            } else if !is_well {
                due = due.min(Instant::now() + PERIOD);
            }
            if stop.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Reports which topics store nothing; returns true when all of them store something. The
    /// exporter is not ready while none does, or one never has: its settings may be invalid. One
    /// missing topic must not make the others' clients go away.
    fn report_topics(&mut self) -> bool {
        if self.has_failed_for_good() {
            return false;
        }
        let (now, mut problems, mut is_ready) = (Instant::now(), Vec::new(), false);
        let mut notes = Vec::new();
        let mut is_unproven = false;
        for (topic, was_reached) in self.topics.iter().zip(&mut self.was_reached) {
            match topic.problem_at(now) {
                None => {
                    (is_ready, *was_reached) = (true, true);
                    notes.extend(topic.stalled_partitions(now));
                }
                Some(problem) => {
                    is_unproven |= !*was_reached;
                    // All topics of a cluster that is away have the same problem.
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                }
            }
        }
        let reason = problems.join("; ");
        if is_ready && !is_unproven {
            notes.extend(problems.iter().cloned());
            let note = (!notes.is_empty()).then(|| notes.join("; "));
            if self.part.set_warning(note.clone())
                && let Some(note) = note
            {
                tracing::warn!(note, "Kafka does not accept all records");
            }
            if self.part.set_ready() {
                tracing::info!("Kafka is reachable and has the topics");
            }
        } else {
            self.part.set_warning(None);
            if self.part.set_not_ready(&reason) {
                tracing::warn!(reason, "Kafka does not accept records");
            }
        }
        problems.is_empty()
    }

    /// Returns whether the client library can't continue. The process then has to end.
    fn has_failed_for_good(&self) -> bool {
        let Some((code, reason)) = self.producer.client().fatal_error() else { return false };
        let advice = Class::Fatal.advice();
        let why = format!("the Kafka client failed permanently: {reason}; {advice}");
        if self.part.set_not_ready(&why) {
            tracing::error!(%code, reason, "the Kafka client failed permanently; the process ends");
        }
        for topic in &self.topics {
            topic.set_metadata(Err(why.clone()));
        }
        self.drain.begin();
        true
    }

    fn request_metadata(&mut self) {
        for topic in &self.topics {
            match self.request_topic(topic) {
                Ok(metadata) => topic.set_metadata(metadata),
                Err(why) => {
                    self.unanswered += 1;
                    let was_reached = self.was_reached.contains(&true);
                    let stores = self.topics.iter().any(|it| it.has_stored_within(PROOF_AGE));
                    // The other queries would only wait for the same.
                    if is_away(self.unanswered, was_reached, stores) {
                        self.topics.iter().for_each(|topic| topic.set_metadata(Err(why.clone())));
                    }
                    return;
                }
            }
        }
        self.unanswered = 0;
    }

    /// Queries which partitions of a topic have a leader, or why it can't be written. An error
    /// concerns the cluster.
    fn request_topic(&self, topic: &TopicPublisher) -> Result<Result<Vec<bool>, String>, String> {
        let (client, name) = (self.producer.client(), &topic.settings.name);
        let metadata = client.fetch_metadata(Some(name.as_str()), QUESTION_TIMEOUT);
        let metadata = metadata.map_err(|error| {
            // A request only times out; the client's own error has the cause and its advice.
            let cause = client.context().recent_error(ERROR_AGE).unwrap_or_else(|| {
                format!("{error}; {}", Class::from_code(code_of(&error)).advice())
            });
            format!("cannot reach Kafka: {cause}")
        })?;
        let found = metadata.topics().iter().find(|found| found.name() == name.as_str());
        let code = match found.map(|found| found.error()) {
            None => Some(RDKafkaErrorCode::UnknownTopicOrPartition),
            Some(None) => None,
            Some(Some(error)) => Some(RDKafkaErrorCode::from(error)),
        };
        Ok(match code {
            None | Some(RDKafkaErrorCode::LeaderNotAvailable) => {
                let partitions = found.map(|found| found.partitions()).unwrap_or_default();
                let mut has_leader = vec![false; partitions.len()];
                for partition in partitions {
                    let index = usize::try_from(partition.id()).ok();
                    if let Some(known) = index.and_then(|index| has_leader.get_mut(index)) {
                        *known = partition.leader() >= 0;
                    }
                }
                Ok(has_leader)
            }
            Some(code) => Err(format!(
                "cannot write to topic {name}: {code}; {}",
                Class::from_code(code).advice()
            )),
        })
    }
}

/// Whether Kafka counts as away after so many unanswered queries in a row. `stores` states that a
/// message was just stored: one broker of many may hang, and the library may have queried that one.
fn is_away(unanswered: u32, was_reached: bool, stores: bool) -> bool {
    !stores && (!was_reached || unanswered >= UNANSWERED_MAX)
}

#[cfg(test)]
mod tests {
    use super::is_away;

    /// Scenario: queries without an answer, at the start and later, with and without messages that
    /// are stored. Guarantee: a Kafka that was never reached is away at once, another only after
    /// the second query, and none that stores.
    #[test]
    fn one_unanswered_query_makes_no_kafka_unready_that_was_reached() {
        for (unanswered, was_reached, stores, expected) in [
            (1, false, false, true),
            (1, true, false, false),
            (2, true, false, true),
            (2, true, true, false),
            (9, false, true, false),
        ] {
            let found = is_away(unanswered, was_reached, stores);
            assert_eq!(found, expected, "{unanswered} {was_reached} {stores}");
        }
    }
}
