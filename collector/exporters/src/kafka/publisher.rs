//! The edge's publisher: lanes for each signal, one idempotent producer, and a thread that sends
//! messages that have waited long enough.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_config::{Acknowledge, KafkaExporter, PartitionBy, TopicName, Topics};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::{Delivered, Delivery, DeliverySender, Publish, Refused, Request};
use millrace_pipeline::readiness::Part;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::limits::Limits;
use millrace_wire::otlp::Checked;
use millrace_wire::{Signal, otlp};
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::lane::{Due, Lane};
use super::lanes::{Lanes, Ride};
use super::monitor::Monitor;
use super::producer::{Producer, ProducerError, Traits, create};
use super::room::Room;
use super::ticket::Ticket;
use super::way::{Batch, Course};

/// What sorting by trace may take meanwhile, as a multiple of a request: one copy, and what
/// is repeated around its spans, at most twice the request. What it really took is known then.
const SORTED_FACTOR: u64 = 3;

/// What a message takes from the hand-over to its answer, as a quarter of its bytes: the client
/// library keeps it, and beside it, once it was sent, its compressed form. OTLP is compressed to a
/// fifth or less of its length, what can't be is rare.
const KEPT_QUARTERS: u64 = 5;

/// How often what takes too long is looked for; by so much later it may be noticed.
const TEND_INTERVAL: Duration = Duration::from_secs(1);

/// Bounds of how long one answer of a broker may take before its connection is given up and the
/// question repeated on another, which doubles nothing. Within them it is the delivery's time-out:
/// a slow way needs its time, and a dead one should be noticed before everything is given up.
const ANSWER_TIMEOUT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

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
    lanes: [Option<Lanes>; 3],
    producer: Producer<Batch>,
    clock: Clock,
    /// Set when the last messages were sent off: nothing is taken from then on.
    closed: AtomicBool,
}

/// Wakes the thread that sends old messages.
#[derive(Default)]
struct Clock {
    state: Mutex<ClockState>,
    wake: Condvar,
}

#[derive(Default)]
struct ClockState {
    /// A message was opened since the thread's last check.
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
            partition_by,
            acknowledge,
            delivery_timeout_seconds,
            // The buffered publisher's, which is in front of this one.
            buffer: _,
        } = settings;
        let max_message_bytes = max_message_bytes.as_usize();
        let delivery_timeout = Duration::from_secs(u64::from(*delivery_timeout_seconds));
        let patience = match acknowledge {
            Acknowledge::AfterKafka => Some(delivery_timeout),
            // Nobody else will send it again, so it is never given up.
            Acknowledge::AfterBuffering => None,
        };
        let traits = Traits {
            compression: *compression,
            max_message_bytes,
            // The topic's limit is one of batches: a message is refused for its own length only.
            messages_per_batch: 1,
            // Messages are given up here, all at once: see `way`.
            delivery_timeout: None,
            answer_timeout: delivery_timeout.clamp(ANSWER_TIMEOUT.0, ANSWER_TIMEOUT.1),
        };
        let producer: Producer<Batch> = create(connection, &traits)?;
        let linger = Duration::from_millis(u64::from(*linger_millis));
        let lanes = Signal::ALL.map(|signal| {
            let course = Course {
                signal,
                topic: topic_of(topics, signal)?.clone(),
                producer: producer.clone(),
                telemetry: Arc::clone(telemetry),
                room: Arc::new(Room::new(max_message_bytes)),
                linger,
                patience,
            };
            Some(match (signal, partition_by) {
                (Signal::Traces, PartitionBy::TraceId) => Lanes::by_trace(course),
                _ => Lanes::one(course),
            })
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
    /// are asked to send again.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        failpoint::hit("in-drain");
        self.shared.closed.store(true, Ordering::Release);
        let deadline = Instant::now() + time;
        self.shared.all_lanes().for_each(|lane| lane.ship_now());
        self.shared.all_lanes().all(|lane| lane.way().wait_idle(deadline))
    }

    /// Whether Kafka was reached when it was last asked.
    pub(crate) fn is_reachable(&self) -> bool {
        self.monitor.is_reachable()
    }

    /// The longest message, in bytes.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// A signal's destination.
    fn lanes(&self, signal: Signal) -> Option<&Lanes> {
        self.shared.lanes[signal.index()].as_ref()
    }

    /// Adds a request to its lanes, cut into messages where it is too long for one. Refuses it
    /// before any of it is taken, or not at all.
    fn add(&self, lanes: &Lanes, request: Request<'_>) -> Result<Delivery, Refused> {
        let Request { signal, bytes, checked, mut reservation } = request;
        let mut load = Load::new(signal, self.max_message_bytes);
        match lanes {
            Lanes::One(lane) => load.put(lane, Cow::Borrowed(bytes), checked)?,
            Lanes::ByTrace(by_trace) => {
                if !reservation.try_resize(bytes.len() as u64 * SORTED_FACTOR) {
                    return Err(Refused::Full);
                }
                let partitions = self.monitor.partitions(lanes.topic());
                for Ride { lane, part } in by_trace.sort(bytes, partitions)? {
                    let checked = outline_of(signal, &part.bytes, part.records);
                    load.put(&lane, Cow::Owned(part.bytes), checked)?;
                }
            }
        }
        let Load { messages, rejected_records, .. } = load;
        // Parts repeat what surrounds their records.
        let bytes: u64 = messages.iter().map(|message| message.bytes.len() as u64).sum();
        if !reservation.try_resize(bytes * KEPT_QUARTERS / 4) {
            return Err(Refused::Full);
        }
        lanes.reject(rejected_records);
        let result = Delivered { rejected_records };
        let (sender, delivery) = Delivery::pair();
        if messages.is_empty() || self.acknowledge == Acknowledge::AfterBuffering {
            sender.finish(Ok(result.clone()));
            self.ship(messages, result, None, reservation);
        } else {
            self.ship(messages, result, Some(sender), reservation);
        }
        Ok(delivery)
    }

    fn ship(
        &self,
        messages: Vec<Message<'_>>,
        result: Delivered,
        sender: Option<DeliverySender>,
        reservation: Reservation,
    ) {
        let tickets = Ticket::shares(messages.len(), result, sender, reservation);
        let mut opened = false;
        for (Message { lane, bytes, checked }, ticket) in messages.iter().zip(tickets) {
            opened |= lane.add(bytes, checked, ticket);
        }
        if opened {
            self.shared.clock.opened();
        }
    }
}

/// The parts of a request: messages for lanes, and records that no message can hold.
struct Load<'a> {
    signal: Signal,
    max_message_bytes: usize,
    messages: Vec<Message<'a>>,
    rejected_records: u64,
}

struct Message<'a> {
    lane: Arc<Lane>,
    bytes: Cow<'a, [u8]>,
    checked: Checked,
}

impl<'a> Load<'a> {
    fn new(signal: Signal, max_message_bytes: usize) -> Self {
        Self { signal, max_message_bytes, messages: Vec::new(), rejected_records: 0 }
    }

    /// Adds a request of any length, cut into messages if it is too long for one.
    fn put(
        &mut self,
        lane: &Arc<Lane>,
        bytes: Cow<'a, [u8]>,
        checked: Checked,
    ) -> Result<(), Refused> {
        let Pieces { pieces, rejected_records } =
            pieces(self.signal, bytes, checked, self.max_message_bytes)?;
        self.rejected_records += rejected_records;
        self.messages.extend(pieces.into_iter().map(|(bytes, checked)| Message {
            lane: Arc::clone(lane),
            bytes,
            checked,
        }));
        Ok(())
    }
}

/// A request cut into messages.
pub(crate) struct Pieces<'a> {
    /// Requests that fit into a message each, and what they come to.
    pub(crate) pieces: Vec<(Cow<'a, [u8]>, Checked)>,
    /// Records that no message can hold.
    pub(crate) rejected_records: u64,
}

/// Cuts a checked request between records if it is too long for one message.
///
/// # Errors
/// It isn't well-formed, so it was not checked: nothing of it is sent.
pub(crate) fn pieces(
    signal: Signal,
    bytes: Cow<'_, [u8]>,
    checked: Checked,
    max_message_bytes: usize,
) -> Result<Pieces<'_>, Refused> {
    let mut cut = Pieces { pieces: Vec::new(), rejected_records: 0 };
    if bytes.len() <= max_message_bytes {
        cut.pieces.push((bytes, checked));
        return Ok(cut);
    }
    let parts = otlp::split(signal, &bytes, max_message_bytes);
    for part in parts.map_err(|error| Refused::Unavailable(error.to_string()))? {
        if part.bytes.len() <= max_message_bytes {
            let checked = outline_of(signal, &part.bytes, part.records);
            cut.pieces.push((Cow::Owned(part.bytes), checked));
        } else {
            cut.rejected_records += part.records;
        }
    }
    Ok(cut)
}

/// What a part of a checked request comes to, or one checked by an earlier process.
pub(crate) fn outline_of(signal: Signal, bytes: &[u8], records: u64) -> Checked {
    // Within the limits, as the request was; one that weren't would go alone.
    let found = otlp::outline(signal, bytes, &Limits::default());
    found.unwrap_or_else(|_| Checked::alone(records))
}

impl Publish for KafkaPublisher {
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        let lanes = self.lanes(request.signal).ok_or(Refused::Unconfigured(request.signal))?;
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(Refused::Draining);
        }
        if !self.monitor.is_reachable() {
            return Err(Refused::Unavailable("kafka cannot be reached now".to_owned()));
        }
        self.add(lanes, request)
    }

    fn takes(&self, signal: Signal) -> bool {
        self.lanes(signal).is_some()
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
    fn all_lanes(&self) -> impl Iterator<Item = Arc<Lane>> {
        self.lanes.iter().flatten().flat_map(Lanes::all)
    }

    /// The thread: sends off each message when it is due, and gives up what takes too long.
    fn send_off(&self) {
        let mut due = Due::Never;
        let mut tend_at = Instant::now() + TEND_INTERVAL;
        while self.clock.wait(due.min(Due::At(tend_at))) {
            let now = Instant::now();
            if now >= tend_at {
                tend_at = now + TEND_INTERVAL;
                self.tend(now);
            }
            due = self.all_lanes().map(|lane| lane.ship_if_due(now)).fold(Due::Never, Due::min);
        }
    }

    /// Gives up what takes too long.
    fn tend(&self, now: Instant) {
        let overdue = self.all_lanes().fold(false, |overdue, lane| lane.way().tend(now) | overdue);
        if overdue {
            tracing::warn!("kafka does not confirm messages in time; all under way are given up");
            // Without waiting: the library's threads may be busy.
            self.producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
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
