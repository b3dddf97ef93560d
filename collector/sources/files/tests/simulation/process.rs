//! A process: the real worker, and a scripted publisher.

#![allow(clippy::unwrap_in_result)]

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::metrics::FileMetrics;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::publish::{
    DeliveryReceipt, DeliverySender, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;

use super::super::find::finder::FinderSettings;
use super::super::find::source::FileSource;
use super::super::open::Buffer;
use super::super::open::labels::FileLabels;
use super::super::outbox::Outbox;
use super::super::positions::Positions;
use super::super::worker::FilesWorker;
use super::super::{SourceSettings, restore_tail};
use super::book::{Book, Id};
use millrace_pipeline::delivery_path::DeliveryPath;

/// The publisher's reaction to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Deliver,
    Refuse,
    /// Reports a failure, and no record arrives.
    Fail,
    /// Reports a failure, and all records arrive.
    LoseAnswer,
    /// Answers later.
    Hold,
}

/// A request in flight, as the worker should see it.
struct Flight {
    bytes: Vec<u8>,
    ids: Vec<Id>,
    /// Whether the publisher has it.
    sent: bool,
    answer: Option<bool>,
    held: Option<(DeliverySender, Reservation)>,
}

struct State {
    mode: Mode,
    flights: VecDeque<Flight>,
    book: Book,
    failed: Option<String>,
}

pub(super) struct Publisher(Mutex<State>);

impl Publisher {
    pub(super) fn new() -> Arc<Self> {
        let (mode, flights) = (Mode::Deliver, VecDeque::new());
        Arc::new(Self(Mutex::new(State { mode, flights, book: Book::default(), failed: None })))
    }

    pub(super) fn set(&self, mode: Mode) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).mode = mode;
    }

    pub(super) fn with_book<T>(&self, does: impl FnOnce(&mut Book) -> T) -> T {
        does(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).book)
    }

    /// Returns the first violated guarantee as an error.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed.clone().map_or(Ok(()), Err)
    }

    /// Answers the held requests, with success if `well` returns true.
    pub(super) fn answer(&self, well: impl Fn(usize) -> bool) {
        for (index, flight) in
            self.0.lock().unwrap_or_else(PoisonError::into_inner).flights.iter_mut().enumerate()
        {
            if let Some((sender, _)) = flight.held.take() {
                let well = well(index);
                flight.answer = Some(well);
                let failed = Err(PublishError::Unavailable("told so".into()));
                sender.finish_with(if well { Ok(DeliveryReceipt::default()) } else { failed });
            }
        }
    }

    /// Applies the results that the worker learns in its next step of sending.
    fn learn(&self) {
        let State { flights, book, .. } =
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = flights.iter().position(|flight| flight.answer == Some(false)) {
            book.troubles += 1;
            for flight in flights.iter_mut().skip(at) {
                (flight.sent, flight.answer, flight.held) = (false, None, None);
            }
        }
        while flights.front().is_some_and(|flight| flight.answer == Some(true))
            && let Some(flight) = flights.pop_front()
        {
            flight.ids.into_iter().for_each(|id| book.confirm(id));
        }
    }
}

impl State {
    fn take(&mut self, request: &PublishRequest<'_>) -> Result<usize, String> {
        if let Some(at) = self.flights.iter().position(|flight| !flight.sent) {
            let flight = &mut self.flights[at];
            if flight.bytes != request.bytes {
                return Err("requests are sent again in another order".into());
            }
            flight.sent = true;
            return Ok(at);
        }
        let (bytes, ids) = (request.bytes.to_vec(), Vec::new());
        self.flights.push_back(Flight { bytes, ids, sent: true, answer: None, held: None });
        Ok(self.flights.len() - 1)
    }

    fn arrive(&mut self, at: usize) -> Result<(), String> {
        let request = ExportLogsServiceRequest::decode(&*self.flights[at].bytes).unwrap();
        let groups = request.resource_logs.into_iter().flat_map(|group| group.scope_logs);
        let mut ids = Vec::new();
        for record in groups.flat_map(|scope| scope.log_records) {
            let Some(Value::StringValue(line)) = record.body.and_then(|body| body.value) else {
                return Err("a body is no string".into());
            };
            ids.push(self.book.arrive(&line)?);
        }
        self.flights[at].ids = ids;
        Ok(())
    }
}

impl Publish for Publisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.mode == Mode::Refuse {
            return Err(PublishError::Full);
        }
        let (sender, delivery) = PendingDelivery::new_pair();
        let mode = state.mode;
        let came = state.take(&request).and_then(|at| {
            if mode != Mode::Fail {
                state.arrive(at)?;
            }
            Ok(at)
        });
        match came {
            Err(error) => {
                state.failed.get_or_insert(error);
            }
            Ok(at) if mode == Mode::Hold => {
                state.flights[at].held = Some((sender, request.reservation));
            }
            Ok(at) => {
                let well = mode == Mode::Deliver;
                state.flights[at].answer = Some(well);
                let failed = Err(PublishError::Unavailable("told so".into()));
                sender.finish_with(if well { Ok(DeliveryReceipt::default()) } else { failed });
            }
        }
        Ok(delivery)
    }

    fn accepts_signal(&self, _: Signal) -> bool {
        true
    }
}

/// A collector's worker, driven step by step.
pub(super) struct Process {
    worker: FilesWorker,
    publisher: Arc<Publisher>,
    pub(super) metrics: FileMetrics,
}

/// How long the lock of positions may remain locked after its holder ended: a concurrent test that
/// starts a program shares all open files with it, for a moment.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// Few, so that idle files are closed.
const OPEN_FILES: usize = 6;

impl Process {
    pub(super) fn start(
        sources: &[SourceSettings],
        positions: &Path,
        publisher: &Arc<Publisher>,
        finding: FinderSettings,
    ) -> Self {
        let mut sources: Vec<FileSource> =
            sources.iter().map(|one| FileSource::from_settings(one).unwrap()).collect();
        let longest = sources.iter().map(|one| one.form.max_record_bytes).max().unwrap();
        let budget = Budget::new(64 << 20);
        let reserved = budget.try_reserve(Buffer::bytes_for(longest) as u64).unwrap();
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let metrics = FileMetrics::register(&telemetry).unwrap();
        let mut positions = Positions::open_directory(positions, LOCK_MAX, || false).unwrap();
        let (recalled, resort) = positions.load_positions().unwrap();
        assert_eq!(resort, None);
        let tail = restore_tail(&mut sources, OPEN_FILES, recalled);
        let waker = Waker::noop().clone();
        let way = DeliveryPath { budget, telemetry, publisher: Arc::clone(publisher) as _ };
        let outbox = Outbox::new(way, waker, 3 * longest);
        let buffer = (Buffer::new(longest), reserved);
        let labels = FileLabels::new(None);
        let (counts, sources) = (metrics.clone(), (sources, finding));
        let mut worker =
            FilesWorker::new(sources, tail, positions, outbox, metrics, buffer, labels);
        worker.processor_time = || Duration::ZERO;
        Self { worker, publisher: Arc::clone(publisher), metrics: counts }
    }

    pub(super) fn look(&mut self, now: Instant) {
        self.worker.walk_directories(now);
    }

    /// Scans if events require it. Returns whether there was anything to scan.
    pub(super) fn look_if_needed(&mut self, now: Instant) -> bool {
        self.worker.scan_if_needed(now)
    }

    /// Drops the events so far.
    pub(super) fn drop_events(&mut self) {
        self.worker.drop_events();
    }

    /// When it last walked the directories.
    pub(super) fn walked_at(&self) -> Option<Instant> {
        self.worker.walked_at()
    }

    pub(super) fn read(&mut self, now: Instant) -> bool {
        self.worker.read(now)
    }

    pub(super) fn send(&mut self, now: Instant, ending: bool) -> bool {
        self.publisher.learn();
        self.worker.send_requests(now, ending)
    }

    pub(super) fn keep_positions(&mut self, now: Instant) {
        assert!(self.worker.store_positions(now));
        self.publisher.with_book(Book::record);
        // A canary rollout's comparison relies on these relations.
        let totals = self.worker.totals();
        let unconfirmed = totals.accepted_bytes.checked_sub(totals.confirmed_bytes);
        assert!(unconfirmed.is_some_and(|bytes| bytes <= totals.backlog_bytes), "{totals:?}");
        assert!(!self.is_idle() || unconfirmed == Some(0), "{totals:?}");
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.worker.is_idle()
    }

    pub(super) fn open_inodes(&self) -> HashSet<u64> {
        self.worker.open_inodes()
    }

    /// Simulates a kill: nothing is finished, and requests without an answer are dropped.
    pub(super) fn kill(self) {
        drop(self.worker);
        self.publisher.0.lock().unwrap_or_else(PoisonError::into_inner).flights.clear();
    }
}
