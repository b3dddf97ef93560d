//! The task of one target: waits, scrapes, converts and delivers, and marks all series as stale at
//! its end.

mod buffers;
pub(crate) mod client;
mod gunzip;
pub(crate) mod task_stop;

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::ScrapeMetrics;
use http_body_util::BodyExt;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_scrape::{
    BodyLimits, MetricsRequest as Points, Schedule, Scrape, ScrapeReport, SeriesMemory,
    TargetAttributes,
};
use millrace_wire::Signal;
use millrace_wire::otlp;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::resolve::ScrapeTarget;
use super::rules::RuledJob;
use super::target_row::{TargetRow, TargetState};
use super::target_status::{truncate_error, without_values};
use super::worker::buffers::SpareBuffers;
use super::worker::client::{Failure, TargetClient};
use super::worker::gunzip::{Gunzip, PIECE_BYTES};
use super::worker::task_stop::{SeriesFate, StopRequest, TaskStop};
use millrace_pipeline::clock::now_unix_nanos;
use millrace_pipeline::delivery_path::{DeliveryPath, Expired, SEND_BACKOFF};

/// The memory of a scrape before its first piece: the connection's buffers, TLS records that are
/// read and written (16 KiB each), and a decompressor. The text of one compressed piece can take a
/// mebibyte.
pub(super) const SCRAPE_BYTES: u64 = 96 * 1024;

/// The part of a body that is converted before memory is reserved again. Reservation follows
/// conversion, so that a scrape holds at most some 200 KiB more than it has reserved.
const STEP_BYTES: usize = 32 * 1024;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// How long a removed target's task may take to write stale markers: until then it counts as a
/// target.
const LEAVE_TIME: Duration = Duration::from_secs(60);

/// The pause between two attempts to do that while the budget is full.
const LEAVE_PAUSE: Duration = Duration::from_secs(1);

/// The state that all targets share: delivery, metrics, drain and buffers.
#[derive(Debug, Clone)]
pub(super) struct TargetContext {
    pub(super) delivery: DeliveryPath,
    pub(super) metrics: ScrapeMetrics,
    pub(super) drain: Drain,
    pub(super) spare: Arc<SpareBuffers>,
}

#[derive(Debug)]
pub(super) struct TargetWorker {
    /// The name for the log, without the values of the query, which may be tokens.
    name: String,
    instance: String,
    schedule: Schedule,
    scraper: Scraper,
    memory: SeriesMemory,
    /// The memory of series and of the running scrape.
    reservation: Reservation,
    is_up: Option<bool>,
    row: Arc<TargetRow>,
}

/// The parts that don't change from scrape to scrape.
#[derive(Debug)]
struct Scraper {
    target: TargetAttributes,
    limits: BodyLimits,
    client: TargetClient,
    shared: TargetContext,
}

/// The reason why a scrape was abandoned without a fault of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ScrapeAbort {
    /// The budget is full.
    #[error("abandoned: the byte budget is exhausted (memory.limitBytes)")]
    BudgetFull,
    /// Nothing accepted the points before the next scrape was due.
    #[error("abandoned: the points were not accepted in time")]
    NotAccepted,
    /// The drain has begun, and no points are in flight.
    #[error("abandoned: the process is shutting down")]
    Drained,
    /// The drain's deadline came while points were in flight.
    #[error("abandoned: the shutdown deadline passed")]
    Expired,
}

/// The part of its time-out that a target has used: all time except that in which points wait to be
/// accepted. A slow Kafka must not make a target appear slow.
struct TargetTime {
    began: Instant,
    limit: Duration,
    sending: Duration,
}

impl TargetTime {
    fn time_used(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.sending)
    }

    /// Waits for the target. This also cuts off a target that never stops sending.
    async fn wait_for<T>(&self, target: impl Future<Output = T>) -> Result<T, Failure> {
        let late = || Failure::TimedOut(self.limit);
        let left = self.limit.saturating_sub(self.time_used());
        if left.is_zero() {
            return Err(late());
        }
        timeout(left, target).await.map_err(|_| late())
    }
}

/// The reason why a body wasn't read to its end.
enum ReadAbort {
    Stop(ScrapeAbort),
    Failure(Failure),
}

impl<E: Into<Failure>> From<E> for ReadAbort {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

impl TargetWorker {
    pub(super) fn new(
        job: &RuledJob,
        row: Arc<TargetRow>,
        client: TargetClient,
        shared: TargetContext,
    ) -> Self {
        let ScrapeTarget { names: (own_job, instance), url, labels, interval, .. } = &*row.target;
        let endpoint = (url.scheme().as_str(), url.host(), url.port());
        // The seed decides when in each interval the target is scraped.
        let seed = format!("{} {}:{}{}", job.name, endpoint.1, endpoint.2, url.path_and_query());
        let limits = BodyLimits {
            body_bytes: job.limits.body_bytes.get(),
            samples: job.limits.samples.into(),
            labels: job.limits.labels as usize,
        };
        let target = TargetAttributes::with_instance(
            (own_job, instance),
            endpoint,
            labels.clone(),
            job.honor_labels,
            job.honor_timestamps,
        )
        .with_metric_rules(Arc::clone(&job.rules.metrics));
        Self {
            schedule: Schedule::new(&seed, *interval),
            name: without_values(&seed),
            // The `instance` of a Probe is a URL.
            instance: without_values(instance),
            memory: SeriesMemory::default(),
            reservation: shared.delivery.budget.empty_reservation(),
            scraper: Scraper { target, limits, client, shared },
            is_up: None,
            row,
        }
    }

    /// Scrapes until the drain or a stop request. Returns whether all accepted points were
    /// confirmed.
    pub(super) async fn run(mut self, stopped: oneshot::Receiver<StopRequest>) -> bool {
        let mut end = TaskStop::new(stopped);
        let drain = self.scraper.shared.drain.clone();
        let mut last = 0;
        let is_safe = loop {
            let now = now_unix_nanos();
            let mut due = self.schedule.next(now);
            if due == last {
                // The clock was set back a little: each scheduled time has one scrape.
                due = self.schedule.next(due);
            }
            if last > 0 {
                self.scraper.shared.metrics.skipped.inc_by(self.schedule.count_between(last, due));
            }
            last = due;
            self.row.update_last(|row| row.next_unix_millis = due / NANOS_PER_MILLI);
            tokio::select! {
                () = sleep(Duration::from_nanos(due.saturating_sub(now))) => {}
                () = drain.wait_for_begin() => break true,
                () = end.wait_for_stop() => break Box::pin(self.end_series(end)).await,
            }
            // Boxed, as is all that follows: a running scrape's future is much larger than one that
            // waits, and of 10,000 tasks few scrape at the same moment.
            let scraped = tokio::select! {
                scraped = Box::pin(self.scrape_once(due)) => scraped,
                () = end.wait_for_abort() => {
                    self.scraper.shared.metrics.skipped.inc();
                    break Box::pin(self.end_series(end)).await;
                }
            };
            match scraped {
                Ok(()) => {}
                Err(ScrapeAbort::Drained) => break true,
                Err(ScrapeAbort::Expired) => break false,
                Err(stop @ (ScrapeAbort::BudgetFull | ScrapeAbort::NotAccepted)) => {
                    self.scraper.shared.metrics.skipped.inc();
                    self.row.update_last(|row| {
                        (row.state, row.error) = (TargetState::NotAccepted, truncate_error(stop));
                    });
                }
            }
            self.release_scrape();
        };
        self.remove_metrics();
        is_safe
    }

    /// Marks all series as stale, if they end. Returns whether no points are in flight.
    async fn end_series(&mut self, end: TaskStop) -> bool {
        let StopRequest { series, scraping } = end.into_request();
        // The version waits only for the last scrape, not for what follows.
        drop(scraping);
        if self.is_up.is_none() || series == SeriesFate::Continue {
            return true;
        }
        let until = Instant::now() + LEAVE_TIME;
        loop {
            let error = match self.write_stale_markers(until).await {
                Ok(()) => return true,
                Err(ScrapeAbort::Expired) => return false,
                Err(error) => error,
            };
            let drain = &self.scraper.shared.drain;
            if error != ScrapeAbort::BudgetFull
                || drain.is_begun()
                || Instant::now() + LEAVE_PAUSE >= until
            {
                self.scraper.shared.metrics.skipped.inc();
                let (target, instance) = (&self.name, &self.instance);
                let why = "no stale markers are written for the series of a removed target";
                tracing::warn!(target, instance, %error, "{why}");
                return true;
            }
            sleep(LEAVE_PAUSE).await;
        }
    }

    async fn write_stale_markers(&mut self, until: Instant) -> Result<(), ScrapeAbort> {
        let Self { scraper, memory, reservation: room, .. } = self;
        let retained_bytes = memory.held_bytes() + SCRAPE_BYTES;
        if !room.try_resize(retained_bytes) {
            return Err(ScrapeAbort::BudgetFull);
        }
        let time_unix_nano = now_unix_nanos() / NANOS_PER_MILLI * NANOS_PER_MILLI;
        let buffers = scraper.shared.spare.take_buffers();
        let mut scrape =
            Scrape::new(&scraper.target, memory, scraper.limits, time_unix_nano, buffers);
        scrape.mark_removed();
        let report = ScrapeReport { duration_seconds: 0.0 };
        scraper
            .send_remaining(
                &mut scrape,
                &mut ScrapeMemory { reservation: room, retained_bytes },
                &report,
                until,
            )
            .await
    }

    /// Releases the memory of a scrape. The connection is retained while half of the budget is
    /// free: scrapes have priority.
    fn release_scrape(&mut self) {
        let Scraper { client, shared, .. } = &self.scraper;
        let budget = &shared.delivery.budget;
        // This can't fail: it is less than the scrape held.
        let _ = self.reservation.try_resize(self.memory.held_bytes());
        let retained_bytes = client.idle_bytes();
        let scrapes_bytes = MemoryShares::of_budget(budget.limit_bytes()).scrapes_bytes();
        let has_room = budget.free_bytes() >= scrapes_bytes + retained_bytes;
        if retained_bytes > 0
            && !(has_room && self.reservation.try_resize(self.memory.held_bytes() + retained_bytes))
        {
            client.close_idle();
        }
    }

    fn remove_metrics(&mut self) {
        let metrics = &self.scraper.shared.metrics;
        metrics.series.sub(self.memory.series_count() as i64);
        metrics.series_bytes.sub(self.memory.held_bytes() as i64);
        metrics.targets_up.sub(i64::from(self.is_up == Some(true)));
    }

    /// Performs one scrape, until its points are confirmed.
    async fn scrape_once(&mut self, due_unix_nano: u64) -> Result<(), ScrapeAbort> {
        let Self { scraper, memory, reservation: room, schedule, .. } = self;
        let before = (memory.series_count() as i64, memory.held_bytes());
        let retained_bytes = memory.held_bytes() + SCRAPE_BYTES;
        if !room.try_resize(retained_bytes) {
            return Err(ScrapeAbort::BudgetFull);
        }
        let start = Instant::now();
        let now = now_unix_nanos();
        let until = start + Duration::from_nanos(schedule.next(due_unix_nano).saturating_sub(now));
        let time_unix_nano = now / NANOS_PER_MILLI * NANOS_PER_MILLI;
        let buffers = scraper.shared.spare.take_buffers();
        let mut scrape =
            Scrape::new(&scraper.target, memory, scraper.limits, time_unix_nano, buffers);
        let mut room = ScrapeMemory { reservation: room, retained_bytes };
        room.reserve_held(&scrape)?;
        let mut time =
            TargetTime { began: start, limit: scraper.client.timeout, sending: Duration::ZERO };
        let failure = scraper.read(&mut scrape, &mut room, &mut time, until).await?;
        let report = ScrapeReport { duration_seconds: time.time_used().as_secs_f64() };
        if failure.is_some() {
            scrape.mark_failed();
        }
        scraper.send_remaining(&mut scrape, &mut room, &report, until).await?;
        let counts = scrape.counts();
        let buffers = scrape.commit_memory();
        let _ = room.reservation.try_resize(room.retained_bytes);
        scraper.shared.spare.return_buffers(buffers, &scraper.shared.delivery.budget);
        let metrics = &scraper.shared.metrics;
        metrics.scrapes.inc();
        metrics.samples.inc_by(counts.samples);
        metrics.dropped.inc_by(counts.dropped);
        metrics.series.add(memory.series_count() as i64 - before.0);
        metrics.series_bytes.add(memory.held_bytes() as i64 - before.1 as i64);
        let series = memory.series_count() as u64;
        self.row.update_last(|row| {
            row.state = if failure.is_none() { TargetState::Up } else { TargetState::Down };
            row.began_unix_millis = time_unix_nano / NANOS_PER_MILLI;
            row.duration_seconds = report.duration_seconds;
            (row.samples, row.series) = (counts.samples, series);
            row.error = failure.as_ref().map(truncate_error).unwrap_or_default();
            if failure.is_none() {
                row.good_samples = Some(counts.samples);
            }
        });
        self.record_state(failure.as_ref());
        Ok(())
    }

    /// Records whether the target is up, and logs a change.
    fn record_state(&mut self, failure: Option<&Failure>) {
        let (target, instance, was_up) = (&self.name, &self.instance, self.is_up);
        let metrics = &self.scraper.shared.metrics;
        match failure {
            Some(error) => {
                metrics.failed.inc();
                if was_up != Some(false) {
                    let why = "cannot scrape a target; retrying";
                    tracing::warn!(target, instance, %error, "{why}");
                }
            }
            None if was_up == Some(false) => {
                tracing::info!(target, instance, "the target is scraped again");
            }
            None => {}
        }
        let is_up = failure.is_none();
        self.is_up = Some(is_up);
        metrics.targets_up.add(i64::from(is_up) - i64::from(was_up == Some(true)));
    }
}

/// The memory reservation of a scrape.
struct ScrapeMemory<'a> {
    reservation: &'a mut Reservation,
    retained_bytes: u64,
}

impl ScrapeMemory<'_> {
    /// Reserves the current memory of a scrape.
    fn reserve_held(&mut self, scrape: &Scrape<'_>) -> Result<(), ScrapeAbort> {
        let bytes = self.retained_bytes + scrape.held_bytes();
        let has_room = bytes <= self.reservation.bytes() || self.reservation.try_resize(bytes);
        if has_room { Ok(()) } else { Err(ScrapeAbort::BudgetFull) }
    }
}

impl Scraper {
    /// Sends the remaining points of a scrape.
    async fn send_remaining(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut ScrapeMemory<'_>,
        report: &ScrapeReport,
        until: Instant,
    ) -> Result<(), ScrapeAbort> {
        loop {
            let is_over = scrape.write_remaining(report);
            room.reserve_held(scrape)?;
            if let Some(points) = scrape.take_request() {
                self.shared.deliver_points(&points, until).await?;
                scrape.return_request(points);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Requests the target and reads its body. Returns the target's failure, if it failed.
    async fn read(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut ScrapeMemory<'_>,
        time: &mut TargetTime,
        until: Instant,
    ) -> Result<Option<Failure>, ScrapeAbort> {
        let read = tokio::select! {
            read = self.read_all(scrape, room, time, until) => read,
            () = self.shared.drain.wait_for_begin() => return Err(ScrapeAbort::Drained),
        };
        match read {
            Ok(()) => Ok(None),
            Err(ReadAbort::Failure(failure)) => Ok(Some(failure)),
            Err(ReadAbort::Stop(stop)) => Err(stop),
        }
    }

    async fn read_all(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut ScrapeMemory<'_>,
        time: &mut TargetTime,
        until: Instant,
    ) -> Result<(), ReadAbort> {
        let mut answer = time.wait_for(self.client.request_target()).await??;
        scrape.set_format(answer.format);
        let mut gunzip = answer.is_gzip.then(Gunzip::new);
        while let Some(frame) = time.wait_for(answer.body().frame()).await? {
            let Ok(piece) = frame?.into_data() else { continue };
            let Some(gunzip) = &mut gunzip else {
                self.convert_piece(&piece, scrape, room, time, until).await?;
                continue;
            };
            for packed in piece.chunks(PIECE_BYTES) {
                let text = gunzip.inflate_piece(packed).map_err(Failure::Gzip)?;
                self.convert_piece(&text, scrape, room, time, until).await?;
                gunzip.return_buffer(text);
            }
        }
        if let Some(gunzip) = gunzip {
            let text = gunzip.finish_body().map_err(Failure::Gzip)?;
            self.convert_piece(&text, scrape, room, time, until).await?;
        }
        self.client.retain_connection(answer);
        Ok(scrape.end_body()?)
    }

    /// Converts a piece of a body, and delivers full requests.
    async fn convert_piece(
        &self,
        piece: &[u8],
        scrape: &mut Scrape<'_>,
        room: &mut ScrapeMemory<'_>,
        time: &mut TargetTime,
        until: Instant,
    ) -> Result<(), ReadAbort> {
        for step in piece.chunks(STEP_BYTES) {
            let mut at = 0;
            while at < step.len() {
                at += scrape.feed(&step[at..])?;
                room.reserve_held(scrape).map_err(ReadAbort::Stop)?;
                if scrape.is_full()
                    && let Some(points) = scrape.take_request()
                {
                    let began = Instant::now();
                    self.shared.deliver_points(&points, until).await.map_err(ReadAbort::Stop)?;
                    time.sending += began.elapsed();
                    scrape.return_request(points);
                }
            }
        }
        Ok(())
    }
}

impl TargetContext {
    /// Sends points until they are confirmed or the next scrape is due.
    async fn deliver_points(&self, points: &Points, until: Instant) -> Result<(), ScrapeAbort> {
        let checked = otlp::check_request(Signal::Metrics, &points.bytes, &Default::default());
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) => {
                // This is a bug of ours, and sending the request again would not help.
                let points = points.points;
                tracing::error!(%error, points,
                    "a request built from a target's body is malformed");
                return Err(ScrapeAbort::NotAccepted);
            }
        };
        let mut backoff = Backoff::new(SEND_BACKOFF, now_unix_nanos());
        loop {
            let sent =
                self.delivery.send_and_wait(Signal::Metrics, &points.bytes, &checked, &self.drain);
            let answer = sent.await.map_err(|Expired| ScrapeAbort::Expired)?;
            let Err(refused) = answer else { return Ok(()) };
            let wait = backoff.next_wait();
            if Instant::now() + wait >= until {
                tracing::debug!(%refused, "abandoned a target's points: its next scrape is due");
                return Err(ScrapeAbort::NotAccepted);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.drain.wait_for_deadline() => return Err(ScrapeAbort::Expired),
            }
        }
    }
}
