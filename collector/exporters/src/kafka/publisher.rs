//! The edge's publisher: a lane per signal, one idempotent producer, and a thread that sends off
//! messages that have waited long enough.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_config::{Acknowledge, KafkaExporter, TopicName, Topics};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{Delivered, Delivery, Publish, Refused, Request};
use millrace_pipeline::readiness::Part;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::{Signal, otlp};
use rdkafka::producer::Producer as _;

use super::lane::{Batch, Due, Lane};
use super::monitor::Monitor;
use super::producer::{Producer, ProducerError, Traits, create};
use super::ticket::Ticket;

/// Publishes requests to Kafka. Everything it started ends when it is dropped.
pub struct KafkaPublisher {
    // Dropped in this order: no new questions, no new messages, then the producer with the lanes.
    monitor: Monitor,
    linger: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    max_message_bytes: usize,
    acknowledge: Acknowledge,
}

struct Shared {
    lanes: [Option<Lane>; 3],
    producer: Producer<Batch>,
    clock: Clock,
    /// Set when the last messages were sent off: nothing is taken from then on.
    closed: AtomicBool,
}

/// Wakes the thread that sends off old messages.
#[derive(Default)]
struct Clock {
    state: Mutex<ClockState>,
    wake: Condvar,
}

#[derive(Default)]
struct ClockState {
    /// A message was opened since the thread last looked.
    opened: bool,
    stop: bool,
}

impl KafkaPublisher {
    /// Sets everything up and begins to watch Kafka. Takes no requests before Kafka was reached.
    ///
    /// # Errors
    /// When the producer cannot be set up or no thread be started.
    pub fn start(
        settings: &KafkaExporter,
        telemetry: &Arc<Telemetry>,
        part: Part,
        drain: &Drain,
    ) -> Result<Self, ProducerError> {
        let KafkaExporter {
            connection,
            topics,
            compression,
            max_message_bytes,
            linger_millis,
            acknowledge,
            delivery_timeout_seconds,
        } = settings;
        let max_message_bytes = max_message_bytes.as_usize();
        let producer: Producer<Batch> = create(
            connection,
            &Traits {
                compression: *compression,
                max_message_bytes,
                delivery_timeout: match acknowledge {
                    Acknowledge::AfterKafka => {
                        Some(Duration::from_secs(u64::from(*delivery_timeout_seconds)))
                    }
                    // Nobody will send it again, so it is never given up.
                    Acknowledge::AfterBuffering => None,
                },
            },
        )?;
        let linger = Duration::from_millis(u64::from(*linger_millis));
        let lanes = Signal::ALL.map(|signal| {
            let topic = topic_of(topics, signal)?.clone();
            let telemetry = Arc::clone(telemetry);
            Some(Lane::new(signal, topic, producer.clone(), telemetry, max_message_bytes, linger))
        });
        let names = topics.given().map(|(_, topic)| topic.clone()).collect();
        let monitor = Monitor::start(producer.clone(), names, part, drain.clone())?;
        let (clock, closed) = (Clock::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { lanes, producer, clock, closed });
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("kafka-linger".into()).spawn(move || shared.send_off())?
        };
        let linger = Some(thread);
        Ok(Self { monitor, linger, shared, max_message_bytes, acknowledge: *acknowledge })
    }

    /// Sends off what is open and waits until Kafka has confirmed everything, at most for `time`.
    /// Nothing is taken afterwards. False when something was not confirmed in time; those clients
    /// are told to send again.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        self.shared.closed.store(true, Ordering::Release);
        for lane in self.shared.lanes.iter().flatten() {
            lane.ship_now();
        }
        self.shared.producer.flush(time).is_ok()
    }

    /// Where a signal goes.
    fn lane(&self, signal: Signal) -> Option<&Lane> {
        self.shared.lanes[signal.index()].as_ref()
    }

    /// Adds a request to its lane, cut into messages if it is too long for one.
    fn add(&self, lane: &Lane, request: Request<'_>) -> Delivery {
        let Request { signal, bytes, records, reservation } = request;
        let (sender, delivery) = Delivery::pair();
        let later = match self.acknowledge {
            Acknowledge::AfterKafka => Some(sender),
            Acknowledge::AfterBuffering => {
                sender.finish(Ok(Delivered::default()));
                None
            }
        };
        let mut opened = false;
        if bytes.len() <= self.max_message_bytes {
            for ticket in Ticket::shares(1, Delivered::default(), later, reservation) {
                opened |= lane.add(bytes, records, ticket);
            }
        } else {
            // A checked request can be split; if not, no part would be lost unnoticed: without
            // tickets the client is told to send again.
            let parts = otlp::split(signal, bytes, self.max_message_bytes).unwrap_or_default();
            let fits = |part: &otlp::Part| part.bytes.len() <= self.max_message_bytes;
            let (parts, oversized): (Vec<_>, Vec<_>) = parts.into_iter().partition(fits);
            let rejected_records = oversized.iter().map(|part| part.records).sum();
            lane.reject(rejected_records);
            let result = Delivered { rejected_records };
            if parts.is_empty() && rejected_records > 0 {
                if let Some(sender) = later {
                    sender.finish(Ok(result));
                }
                return delivery;
            }
            let tickets = Ticket::shares(parts.len(), result, later, reservation);
            for (part, ticket) in parts.iter().zip(tickets) {
                opened |= lane.add(&part.bytes, part.records, ticket);
            }
        }
        if opened {
            self.shared.clock.opened();
        }
        delivery
    }
}

impl Publish for KafkaPublisher {
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        let lane = self.lane(request.signal).ok_or(Refused::Unconfigured(request.signal))?;
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(Refused::Draining);
        }
        if !self.monitor.is_reachable() {
            return Err(Refused::Unavailable("it cannot be reached now".to_owned()));
        }
        if request.bytes.is_empty() {
            // A request without records is complete as it is.
            let (sender, delivery) = Delivery::pair();
            sender.finish(Ok(Delivered::default()));
            return Ok(delivery);
        }
        Ok(self.add(lane, request))
    }

    fn takes(&self, signal: Signal) -> bool {
        self.lane(signal).is_some()
    }
}

impl Drop for KafkaPublisher {
    fn drop(&mut self) {
        self.shared.clock.stop();
        if let Some(thread) = self.linger.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The thread: sends off each message when it is due.
    fn send_off(&self) {
        let mut due = Due::Never;
        while self.clock.wait(due) {
            let now = Instant::now();
            due = self.lanes.iter().flatten().map(|lane| lane.ship_if_due(now)).fold(
                Due::Never,
                |earliest, due| match (earliest, due) {
                    (Due::At(a), Due::At(b)) => Due::At(a.min(b)),
                    (Due::Never, due) => due,
                    (due, Due::Never) => due,
                },
            );
        }
    }
}

impl Clock {
    fn opened(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).opened = true;
        self.wake.notify_one();
    }

    fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        self.wake.notify_one();
    }

    /// Waits until something is due, or a message was opened. False when it is time to stop.
    fn wait(&self, due: Due) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut ClockState| !state.opened && !state.stop;
        let mut state = match due {
            Due::Never => self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
            Due::At(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                let waited = self.wake.wait_timeout_while(state, wait, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.opened = false;
        !state.stop
    }
}

/// A signal's topic, if it has one.
pub(crate) fn topic_of(topics: &Topics, signal: Signal) -> Option<&TopicName> {
    match signal {
        Signal::Traces => topics.traces.as_ref(),
        Signal::Logs => topics.logs.as_ref(),
        Signal::Metrics => topics.metrics.as_ref(),
    }
}
