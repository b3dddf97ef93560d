//! Watches whether Kafka can be reached and has our topics, for the exporter's readiness.
//!
//! One thread requests the topics' metadata, often while something is wrong and seldom otherwise. A
//! topic that should exist is requested by name, which never creates it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use millrace_config::TopicName;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Part;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer as _;

use super::failure::Class;
use super::producer::{Producer, Shipment, code_of};

/// How often to ask while something is wrong.
const PERIOD_WHILE_NOT_READY: Duration = Duration::from_secs(1);

/// How often to ask otherwise: often enough to notice a deleted topic soon.
const PERIOD_WHILE_READY: Duration = Duration::from_secs(10);

/// How long one question may take. It also bounds how long the end of the thread is waited for.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(2);

/// How old an error may be to be given as the reason why a question failed.
const ERROR_AGE: Duration = Duration::from_secs(30);

/// The thread. It ends when this is dropped.
pub(crate) struct Monitor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    topics: Vec<TopicName>,
    /// How many partitions each of the topics has; 0 until that is known.
    partitions: Vec<AtomicU32>,
    reachable: AtomicBool,
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Monitor {
    /// Starts watching through `producer`, which it keeps alive while it lives.
    pub(crate) fn start<S: Shipment>(
        producer: Producer<S>,
        topics: Vec<TopicName>,
        part: Part,
        drain: Drain,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            partitions: topics.iter().map(|_| AtomicU32::new(0)).collect(),
            topics,
            reachable: AtomicBool::new(false),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        let watch = Watch { producer, part, drain, shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("kafka-monitor".into()).spawn(|| watch.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Whether the last question was answered well.
    pub(crate) fn is_reachable(&self) -> bool {
        self.shared.reachable.load(Ordering::Acquire)
    }

    /// How many partitions a topic had when it was last asked for; 0 when it never was.
    pub(crate) fn partitions(&self, topic: &TopicName) -> u32 {
        let Shared { topics, partitions, .. } = &*self.shared;
        let found = topics.iter().position(|known| known == topic);
        found.map_or(0, |index| partitions[index].load(Ordering::Acquire))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        *self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // It can only have panicked, which ends the process.
            let _ = thread.join();
        }
    }
}

struct Watch<S: Shipment> {
    producer: Producer<S>,
    part: Part,
    drain: Drain,
    shared: Arc<Shared>,
}

impl<S: Shipment> Watch<S> {
    fn run(self) {
        loop {
            let well = self.ask();
            self.shared.reachable.store(well, Ordering::Release);
            let period = if well { PERIOD_WHILE_READY } else { PERIOD_WHILE_NOT_READY };
            let stop = self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.shared.wake.wait_timeout_while(stop, period, |stop| !*stop);
            let (stop, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *stop {
                return;
            }
        }
    }

    /// Asks for every topic; true when all are there.
    fn ask(&self) -> bool {
        if let Some((code, reason)) = self.producer.client().fatal_error() {
            let advice = Class::Fatal.advice();
            if self.part.not_ready(format!("the kafka client failed for good: {reason}; {advice}"))
            {
                tracing::error!(%code, reason, "the kafka client failed for good; ending");
            }
            self.drain.begin();
            return false;
        }
        let Shared { topics, partitions, .. } = &*self.shared;
        let mut asked = topics.iter().zip(partitions);
        match asked.try_for_each(|(topic, partitions)| self.ask_for(topic, partitions)) {
            Ok(()) => {
                // First: whoever sees it ready may send at once.
                self.shared.reachable.store(true, Ordering::Release);
                if self.part.ready() {
                    tracing::info!("kafka is reached and has the topics");
                }
                true
            }
            Err(reason) => {
                if self.part.not_ready(&reason) {
                    tracing::warn!(reason, "kafka does not take records");
                }
                false
            }
        }
    }

    fn ask_for(&self, topic: &TopicName, partitions: &AtomicU32) -> Result<(), String> {
        let client = self.producer.client();
        let metadata = client.fetch_metadata(Some(topic.as_str()), QUESTION_TIMEOUT);
        let metadata = metadata.map_err(|error| {
            let cause =
                client.context().recent_error(ERROR_AGE).unwrap_or_else(|| error.to_string());
            let advice = Class::of(code_of(&error)).advice();
            format!("kafka cannot be reached: {cause}; {advice}")
        })?;
        let found = metadata.topics().iter().find(|found| found.name() == topic.as_str());
        let code = match found.map(|found| found.error()) {
            None => Some(RDKafkaErrorCode::UnknownTopicOrPartition),
            Some(None) => None,
            Some(Some(error)) => Some(RDKafkaErrorCode::from(error)),
        };
        match code {
            // A leader is being chosen: the topic is there, and messages wait for the leader.
            None | Some(RDKafkaErrorCode::LeaderNotAvailable) => {
                let count = found.map_or(0, |found| found.partitions().len());
                partitions.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Release);
                Ok(())
            }
            Some(code) => Err(format!(
                "topic {topic} cannot be written: {code}; {}",
                Class::of(code).advice()
            )),
        }
    }
}
