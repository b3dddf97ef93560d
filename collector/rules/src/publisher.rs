//! The publisher in front of the exporter's: runs rules, and passes on what they leave.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_processing::enrich::RequestOrigin;
use millrace_processing::{Counts, Outcome, ProcessError, RoutedRequest, Scratch};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, RequestOutline};

use crate::Rules;
use crate::memory::{limit_bytes, run_bytes};
use crate::metrics::rule_label;

/// Runs rules on requests.
pub(crate) struct RulePublisher {
    rules: Arc<Rules>,
    next: Arc<dyn Publish>,
    /// The publisher of each of the rules' topics.
    routes: Vec<Arc<dyn Publish>>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    /// Idle ones: at most as many as requests were handed over at once, a few threads' worth.
    workers: Mutex<Vec<Worker>>,
}

/// The allocations of a run.
struct Worker {
    scratch: Scratch,
    counts: Counts,
    routed: Vec<RoutedRequest>,
}

impl Default for Worker {
    fn default() -> Self {
        let scratch = Scratch::with_clock(read_clock);
        Self { scratch, counts: Counts::default(), routed: Vec::new() }
    }
}

/// Returns the nanoseconds since the first call.
fn read_clock() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// What became of a request.
enum Processed {
    /// Pass on the request.
    Unchanged,
    /// Pass on this one, whose bytes are reserved here.
    Changed { bytes: Vec<u8>, outline: RequestOutline, _memory: Reservation },
    /// Nothing is left.
    Emptied,
}

impl RulePublisher {
    pub(crate) fn new(
        rules: Arc<Rules>,
        next: Arc<dyn Publish>,
        routes: Vec<Arc<dyn Publish>>,
        budget: Budget,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self { rules, next, routes, budget, telemetry, workers: Mutex::default() }
    }

    fn publish_processed(
        &self,
        request: PublishRequest<'_>,
        worker: &mut Worker,
    ) -> Result<PendingDelivery, PublishError> {
        let signal = request.signal;
        let processed = match self.run_rules(&request, worker) {
            Ok(processed) => processed,
            Err(error) => return self.refuse_request(&request, error),
        };
        let routed = self.publish_routed(&request, &mut worker.routed)?;
        let mut delivery = match processed {
            Processed::Unchanged => self.next.publish(request)?,
            Processed::Emptied => {
                if !request.cancellation.begin_send() {
                    return Err(PublishError::Unavailable(
                        "its client was already answered".to_owned(),
                    ));
                }
                PendingDelivery::delivered(DeliveryReceipt::default())
            }
            Processed::Changed { bytes, outline, _memory } => {
                let PublishRequest { mut reservation, cancellation, client, .. } = request;
                if !reservation.try_resize(bytes.len() as u64) {
                    return Err(PublishError::of_full_budget(&reservation, bytes.len() as u64));
                }
                self.next.publish(PublishRequest {
                    signal,
                    bytes: &bytes,
                    checked: outline,
                    reservation,
                    cancellation,
                    client,
                })?
            }
        };
        routed.into_iter().for_each(|part| delivery.join(part));
        let Rules { set, metrics, failures, .. } = &*self.rules;
        metrics.record_run(signal, &worker.counts);
        failures.record_run(signal, set.rules(), &worker.counts);
        Ok(delivery)
    }

    /// Publishes what steps routed. Each part has its own reservation, which covers it until it is
    /// delivered.
    fn publish_routed(
        &self,
        request: &PublishRequest<'_>,
        routed: &mut Vec<RoutedRequest>,
    ) -> Result<Vec<PendingDelivery>, PublishError> {
        let publish = |RoutedRequest { route, bytes }: RoutedRequest| {
            let length = bytes.len() as u64;
            let reservation = self.budget.try_reserve(length).ok_or(PublishError::Full)?;
            let part = PublishRequest {
                signal: request.signal,
                bytes: &bytes,
                checked: self.outline_result(request, &bytes, bytes.len())?,
                reservation,
                cancellation: request.cancellation.clone(),
                client: request.client,
            };
            match self.routes.get(route) {
                Some(publisher) => publisher.publish(part),
                None => Err(PublishError::Unconfigured(request.signal)),
            }
        };
        routed.drain(..).map(publish).collect()
    }

    fn run_rules(
        &self,
        request: &PublishRequest<'_>,
        worker: &mut Worker,
    ) -> Result<Processed, PublishError> {
        let PublishRequest { signal, bytes, reservation, client, .. } = request;
        let Worker { scratch, counts, routed } = worker;
        let set = &self.rules.set;
        let limit_bytes = limit_bytes(bytes.len());
        let needed = run_bytes(limit_bytes, set.count_routes(*signal));
        let Some(mut memory) = self.budget.try_reserve(needed) else {
            return Err(PublishError::of_full_budget(reservation, reservation.bytes() + needed));
        };
        counts.clear();
        routed.clear();
        let begun = Instant::now();
        let origin = RequestOrigin {
            client: *client,
            // Records that were read or scraped have their pods' metadata from their source.
            pods: client.and(self.rules.pods.get().map(|pods| &**pods)),
        };
        let input = (*signal, *bytes);
        let outcome = set.run_from(origin, input, limit_bytes, scratch, counts, routed);
        self.rules.metrics.record_time(*signal, begun.elapsed(), counts);
        match outcome.map_err(|error| self.reject(*signal, error))? {
            Outcome::Unchanged => Ok(Processed::Unchanged),
            Outcome::Emptied => Ok(Processed::Emptied),
            Outcome::Changed(changed) => {
                let outline = self.outline_result(request, &changed, limit_bytes)?;
                // Shrinking can't fail.
                let _ = memory.try_resize(changed.len() as u64);
                Ok(Processed::Changed { bytes: changed, outline, _memory: memory })
            }
        }
    }

    /// Returns the outline of a result: its parts were checked as parts of the request, and what
    /// rules write passes the check. Unless rules write times, those of the records are not read
    /// again, which would be a fifth of the cost of a rename.
    fn outline_result(
        &self,
        request: &PublishRequest<'_>,
        bytes: &[u8],
        limit_bytes: usize,
    ) -> Result<RequestOutline, PublishError> {
        let limits = WireLimits { message_bytes: limit_bytes, ..WireLimits::default() };
        let PublishRequest { signal, checked, .. } = request;
        let found = if self.rules.set.writes_times(*signal) {
            otlp::outline_request(*signal, bytes, &limits)
        } else {
            otlp::outline_derived_request(*signal, bytes, &limits, checked)
        };
        found.map_err(|error| {
            PublishError::Rejected(format!("the request can't be stored after its rules: {error}"))
        })
    }

    /// Counts the failed rule of a refused request, and returns the answer.
    fn reject(&self, signal: Signal, error: ProcessError) -> PublishError {
        let ProcessError::Rejected { rule: index, error } = error else {
            return PublishError::Rejected(error.to_string());
        };
        let Rules { set, metrics, failures, .. } = &*self.rules;
        let Some(rule) = set.rules().get(index) else {
            return PublishError::Rejected(error.to_string());
        };
        metrics.record_failure(signal, index);
        failures.record_failures(signal, (index, rule), 1, error);
        PublishError::Rejected(format!(
            "rule {} of step {:?} failed, and its errorMode is Propagate: {error}",
            rule_label(rule),
            rule.step,
        ))
    }

    /// Answers for a request on which the rules couldn't run.
    ///
    /// A source that waits for no client would send a rejected request again for ever: its records
    /// are counted as refused, and it continues.
    fn refuse_request(
        &self,
        request: &PublishRequest<'_>,
        error: PublishError,
    ) -> Result<PendingDelivery, PublishError> {
        let has_client = request.cancellation.response_deadline().is_some();
        if has_client || !matches!(error, PublishError::Rejected(_)) {
            return Err(error);
        }
        let records = request.checked.records;
        self.telemetry.record_refused(request.signal, RefusalReason::RuleFailed, records);
        Ok(PendingDelivery::delivered(DeliveryReceipt::default()))
    }

    fn take_worker(&self) -> Worker {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.pop().unwrap_or_default()
    }

    fn return_worker(&self, worker: Worker) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
    }
}

impl Publish for RulePublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        if !self.rules.set.applies_to(request.signal) || request.bytes.is_empty() {
            return self.next.publish(request);
        }
        let mut worker = self.take_worker();
        let delivery = self.publish_processed(request, &mut worker);
        self.return_worker(worker);
        delivery
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        self.next.accepts_signal(signal)
    }
}
