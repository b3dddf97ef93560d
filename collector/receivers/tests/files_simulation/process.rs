//! A process: the worker as it ships, and a publisher that does as it is told.

#![allow(clippy::unwrap_in_result)]

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::file_metrics::FileMetrics;
use millrace_pipeline::publish::{Delivered, Delivery, DeliverySender, Publish, Refused, Request};
use millrace_pipeline::telemetry::Telemetry;
use millrace_tail::Tail;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use prost::Message;

use super::super::finder::Finding;
use super::super::labels::Labels;
use super::super::open::Buffer;
use super::super::outbox::Outbox;
use super::super::positions::Positions;
use super::super::source::Source;
use super::super::worker::Worker;
use super::super::{SourceSettings, tail_settings};
use super::book::{Book, Id};
use crate::way::Way;

/// What the publisher does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Deliver,
    Refuse,
    /// Says that it failed, and nothing came.
    Fail,
    /// Says that it failed, and all of it came.
    LoseAnswer,
    /// Answers later.
    Hold,
}

/// A request on its way, as the worker should see it.
struct Flight {
    bytes: Vec<u8>,
    ids: Vec<Id>,
    /// Whether it is with the publisher.
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

    /// What is wrong, if something is.
    pub(super) fn verdict(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed.clone().map_or(Ok(()), Err)
    }

    /// Answers what is held, `well` or not.
    pub(super) fn answer(&self, well: impl Fn(usize) -> bool) {
        for (index, flight) in
            self.0.lock().unwrap_or_else(PoisonError::into_inner).flights.iter_mut().enumerate()
        {
            if let Some((sender, _)) = flight.held.take() {
                let well = well(index);
                flight.answer = Some(well);
                let failed = Err(Refused::Unavailable("told so".into()));
                sender.finish(if well { Ok(Delivered::default()) } else { failed });
            }
        }
    }

    /// What the worker will have learned after its next turn of sending.
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
    fn take(&mut self, request: &Request<'_>) -> Result<usize, String> {
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
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.mode == Mode::Refuse {
            return Err(Refused::Full);
        }
        let (sender, delivery) = Delivery::pair();
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
                let failed = Err(Refused::Unavailable("told so".into()));
                sender.finish(if well { Ok(Delivered::default()) } else { failed });
            }
        }
        Ok(delivery)
    }

    fn takes(&self, _: Signal) -> bool {
        true
    }
}

/// A collector's worker, driven turn by turn.
pub(super) struct Process {
    worker: Worker,
    publisher: Arc<Publisher>,
    pub(super) metrics: FileMetrics,
}

/// How long the lock of positions may stay taken by who should have let go of it: a test beside
/// this one that starts a program shares all open files with it, for a moment.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// Few, so that idle files are closed.
const OPEN_FILES: usize = 6;

impl Process {
    pub(super) fn start(
        sources: &[SourceSettings],
        positions: &Path,
        publisher: &Arc<Publisher>,
        finding: Finding,
    ) -> Self {
        let sources: Vec<Source> =
            sources.iter().map(|one| Source::compile(one).unwrap()).collect();
        let longest = sources.iter().map(|one| one.form.max_record_bytes).max().unwrap();
        let budget = Budget::new(64 << 20);
        let reserved = budget.try_reserve(Buffer::bytes_for(longest) as u64).unwrap();
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let metrics = FileMetrics::register(&telemetry).unwrap();
        let mut positions = Positions::open(positions, LOCK_MAX, || false).unwrap();
        let (recalled, resort) = positions.recall().unwrap();
        assert_eq!(resort, None);
        let tail = Tail::new(tail_settings(&sources, OPEN_FILES), recalled);
        let waker = Waker::noop().clone();
        let way = Way { budget, telemetry, publisher: Arc::clone(publisher) as _ };
        let outbox = Outbox::new(way, waker, 3 * longest);
        let buffer = (Buffer::new(longest), reserved);
        let labels = Labels::new(None);
        let (counts, sources) = (metrics.clone(), (sources, finding));
        let worker = Worker::new(sources, tail, positions, outbox, metrics, buffer, labels);
        Self { worker, publisher: Arc::clone(publisher), metrics: counts }
    }

    pub(super) fn look(&mut self, now: Instant) {
        self.worker.look(now);
    }

    /// Looks as events say. Whether there was anything to look at.
    pub(super) fn look_if_needed(&mut self, now: Instant) -> bool {
        self.worker.look_if_needed(now)
    }

    /// What was told until now goes to nobody.
    pub(super) fn drop_events(&mut self) {
        self.worker.drop_events();
    }

    /// When it walked last.
    pub(super) fn walked_at(&self) -> Option<Instant> {
        self.worker.walked_at()
    }

    pub(super) fn read(&mut self, now: Instant) -> bool {
        self.worker.read(now)
    }

    pub(super) fn send(&mut self, now: Instant, ending: bool) -> bool {
        self.publisher.learn();
        self.worker.send(now, ending)
    }

    pub(super) fn keep_positions(&mut self, now: Instant) {
        assert!(self.worker.keep_positions(now));
        self.publisher.with_book(Book::record);
        // As a rollout's judge reads them.
        let totals = self.worker.totals();
        let unconfirmed = totals.taken_bytes.checked_sub(totals.confirmed_bytes);
        assert!(unconfirmed.is_some_and(|bytes| bytes <= totals.behind_bytes), "{totals:?}");
        assert!(!self.is_idle() || unconfirmed == Some(0), "{totals:?}");
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.worker.is_idle()
    }

    pub(super) fn open_inodes(&self) -> HashSet<u64> {
        self.worker.open_inodes()
    }

    /// As a kill: nothing is finished, and requests without an answer come to nothing.
    pub(super) fn kill(self) {
        drop(self.worker);
        self.publisher.0.lock().unwrap_or_else(PoisonError::into_inner).flights.clear();
    }
}
