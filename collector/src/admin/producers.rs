//! Estimates which services send the most bytes: requests that the exporter accepted are sampled,
//! and the bytes of their resources are added up by `service.name` and `k8s.namespace.name`.
//!
//! It answers "who fills the tables?", so it counts after rules. One request of
//! [`REQUESTS_PER_SAMPLE`] is read on average, at random distances: regular ones would see the same
//! client each time if clients take turns. The others cost an atomic subtraction.

mod heaviest;

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use millrace_pipeline::publish::{PendingDelivery, Publish, PublishError, PublishRequest};
use millrace_pipeline::random_seed::random_seed;
use millrace_wire::Signal;
use millrace_wire::otlp::{AnyValue, ResourceGroup, resource_groups};
use millrace_wire::protobuf::WireFault;

use heaviest::{Heaviest, Producer, cut_name};

/// Requests for each that is read, on average.
const REQUESTS_PER_SAMPLE: u64 = 32;
/// Bytes are shown of the present window and the one before: five to ten minutes.
const WINDOW: Duration = Duration::from_secs(300);
/// Maximum producers in an answer: some 30 kB.
const PRODUCERS_SHOWN_MAX: usize = 100;

/// The estimate, shared by the exporter and the page that shows it.
#[derive(Debug)]
pub(crate) struct ProducerMeter {
    /// Requests until the next one is read. Those that come while one is read pass unread.
    countdown: AtomicI32,
    state: Mutex<MeterState>,
}

#[derive(Debug)]
struct MeterState {
    random: u64,
    began: Instant,
    present: Heaviest,
    /// The window before, and how long it was; nothing at first and after a silence.
    before: (Heaviest, Duration),
}

impl ProducerMeter {
    /// Creates a meter without samples.
    pub(crate) fn new() -> Arc<Self> {
        let mut state = MeterState {
            random: random_seed() | 1,
            began: Instant::now(),
            present: Heaviest::default(),
            before: Default::default(),
        };
        // The first request isn't always read: at an edge that gets few, it would count for 32.
        let countdown = AtomicI32::new(state.next_distance());
        Arc::new(Self { countdown, state: Mutex::new(state) })
    }

    /// Returns a publisher that passes requests to `next` and samples those that it accepts.
    pub(crate) fn measure_after(self: &Arc<Self>, next: Arc<dyn Publish>) -> Arc<dyn Publish> {
        Arc::new(MeteredPublisher { next, meter: Arc::clone(self) })
    }

    fn sample_request(&self, request: &[u8]) {
        if self.countdown.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A page is being made. The next request is read instead.
            Err(TryLockError::WouldBlock) => {
                self.countdown.store(1, Ordering::Relaxed);
                return;
            }
        };
        state.start_due_window(Instant::now());
        // The request was checked, so this can't fail; what was added before counts.
        let _ = add_resources(&mut state.present, request);
        let distance = state.next_distance();
        self.countdown.store(distance, Ordering::Relaxed);
    }

    /// Returns the heaviest producers of the last five to ten minutes, as JSON.
    pub(crate) fn render_json(&self) -> String {
        let mut state = match self.state.lock() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        let now = Instant::now();
        state.start_due_window(now);
        let (before, before_took) = &state.before;
        let seconds = (*before_took + now.duration_since(state.began)).as_secs_f64();
        let mut sum = before.clone();
        sum.add_all(&state.present);
        let producers: Vec<_> = sum
            .into_sorted()
            .into_iter()
            .take(PRODUCERS_SHOWN_MAX)
            .map(|(Producer { service, namespace }, bytes)| {
                serde_json::json!({"service": service, "namespace": namespace, "bytes": bytes})
            })
            .collect();
        serde_json::json!({"seconds": seconds, "producers": producers}).to_string() + "\n"
    }
}

impl MeterState {
    /// Begins a window if the present one is over.
    fn start_due_window(&mut self, now: Instant) {
        let took = now.duration_since(self.began);
        if took < WINDOW {
            return;
        }
        let ended = std::mem::take(&mut self.present);
        self.before = match took < WINDOW * 2 {
            true => (ended, took),
            // Nothing was sampled for a window: what is older doesn't describe the present.
            false => Default::default(),
        };
        self.began = now;
    }

    /// Returns a distance from 1 to twice the mean less 1, by xorshift.
    fn next_distance(&mut self) -> i32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (1 + self.random % (2 * REQUESTS_PER_SAMPLE - 1)) as i32
    }
}

/// Adds the bytes of a request's resources, multiplied by the requests for each sample.
fn add_resources(heaviest: &mut Heaviest, request: &[u8]) -> Result<(), WireFault> {
    for group in resource_groups(request) {
        let group = group?;
        let mut producer = Producer::default();
        ResourceGroup::parse(group)?.resource.for_each_attribute(|attribute| {
            let name = match attribute.key {
                b"service.name" => &mut producer.service,
                b"k8s.namespace.name" => &mut producer.namespace,
                _ => return Ok::<_, WireFault>(()),
            };
            if let AnyValue::String(text) = attribute.value {
                *name = cut_name(text);
            }
            Ok(())
        })?;
        heaviest.add(producer, group.len() as u64 * REQUESTS_PER_SAMPLE);
    }
    Ok(())
}

/// Samples the requests that the next publisher accepts: a refused one comes again.
struct MeteredPublisher {
    next: Arc<dyn Publish>,
    meter: Arc<ProducerMeter>,
}

impl Publish for MeteredPublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let bytes = request.bytes;
        let delivery = self.next.publish(request)?;
        self.meter.sample_request(bytes);
        Ok(delivery)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        self.next.accepts_signal(signal)
    }
}

#[cfg(test)]
mod tests;
