//! The task of one target: wait, ask, convert, hand on; at its end mark all series as gone.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use millrace_scrape::{Limits, Memory, Report, Request as Points, Schedule, Scrape, Target};
use millrace_wire::Signal;
use millrace_wire::otlp;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::board::{Row, TargetState, shown};
use super::buffers::Spare;
use super::client::{Client, Failure};
use super::end::{End, Leave, Series};
use super::gunzip::{Gunzip, PIECE_BYTES};
use super::resolve::Resolved;
use super::rules::RuledJob;
use crate::clock::now_unix_nanos;
use crate::way::{Expired, SEND_BACKOFF, Way};

/// What a scrape holds before its first piece: the connection's buffers, TLS records that are read
/// and written (16 KiB each), a decompressor, a mebibyte of text of one compressed piece.
pub(super) const SCRAPE_BYTES: u64 = 96 * 1024;

/// How much of a body is converted before the budget is asked again: what that becomes is reserved
/// afterwards, so that a scrape holds some 200 KiB more than it has reserved at most.
const STEP_BYTES: usize = 32 * 1024;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// How long a target that is scraped no more may take to say that its series are gone: it counts as
/// one of the targets meanwhile.
const LEAVE_TIME: Duration = Duration::from_secs(60);

/// Between tries to do that where the budget is full.
const LEAVE_PAUSE: Duration = Duration::from_secs(1);

/// What all targets share: where requests go, what is counted, when to stop.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) way: Way,
    pub(super) metrics: ScrapeMetrics,
    pub(super) drain: Drain,
    pub(super) spare: Arc<Spare>,
}

#[derive(Debug)]
pub(super) struct Worker {
    name: String,
    schedule: Schedule,
    asker: Asker,
    memory: Memory,
    /// For what is remembered, and for what a scrape holds.
    room: Reservation,
    is_up: Option<bool>,
    row: Arc<Row>,
}

/// What doesn't change from scrape to scrape.
#[derive(Debug)]
struct Asker {
    target: Target,
    limits: Limits,
    client: Client,
    shared: Shared,
}

/// Why a scrape came to nothing, through no fault of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Stop {
    /// The budget is full.
    #[error("given up: the byte budget has no room for it (memory.limitBytes)")]
    NoRoom,
    /// Nothing took the points before the next scrape was due.
    #[error("given up: nothing took its points in time")]
    NotTaken,
    /// The drain has begun, and nothing of the scrape is under way.
    #[error("given up: the process ends")]
    Drained,
    /// The drain's deadline came while points were under way.
    #[error("given up: the process has ended")]
    Expired,
}

/// Why a body wasn't read to its end.
enum Unread {
    Stop(Stop),
    Failure(Failure),
}

impl<E: Into<Failure>> From<E> for Unread {
    fn from(error: E) -> Self {
        Self::Failure(error.into())
    }
}

impl Worker {
    pub(super) fn new(job: &RuledJob, row: Arc<Row>, client: Client, shared: Shared) -> Self {
        let Resolved { names: (own_job, instance), url, labels, interval, .. } = &*row.target;
        let place = (url.scheme().as_str(), url.host(), url.port());
        // What decides the target's places in time.
        let name = format!("{} {}:{}{}", job.name, place.1, place.2, url.path_and_query());
        let limits = Limits {
            body_bytes: job.limits.body_bytes.get(),
            samples: job.limits.samples.into(),
            labels: job.limits.labels as usize,
        };
        let target = Target::named(
            (own_job, instance),
            place,
            labels.clone(),
            job.honor_labels,
            job.honor_timestamps,
        )
        .with_metric_rules(Arc::clone(&job.rules.metrics));
        Self {
            schedule: Schedule::new(&name, *interval),
            name,
            memory: Memory::default(),
            room: shared.way.budget.nothing(),
            asker: Asker { target, limits, client, shared },
            is_up: None,
            row,
        }
    }

    /// Scrapes until the drain, or until it is stopped. Whether all that was taken is confirmed
    /// then.
    pub(super) async fn run(mut self, stopped: oneshot::Receiver<Leave>) -> bool {
        let mut end = End::new(stopped);
        let drain = self.asker.shared.drain.clone();
        let mut last = 0;
        let is_safe = loop {
            let now = now_unix_nanos();
            let mut due = self.schedule.next(now);
            if due == last {
                // The clock was set back a little: each place in time has one scrape.
                due = self.schedule.next(due);
            }
            if last > 0 {
                self.asker.shared.metrics.skipped.inc_by(self.schedule.between(last, due));
            }
            last = due;
            self.row.note(|row| row.next_unix_millis = due / NANOS_PER_MILLI);
            tokio::select! {
                () = sleep(Duration::from_nanos(due.saturating_sub(now))) => {}
                () = drain.begun() => break true,
                () = end.is_told() => break Box::pin(self.leave(end)).await,
            }
            // Boxed, as all that follows: what a scrape waits in is much longer than what waits for
            // one, and of 10,000 tasks few scrape at the same moment.
            let scraped = tokio::select! {
                scraped = Box::pin(self.scrape(due)) => scraped,
                () = end.is_over() => {
                    self.asker.shared.metrics.skipped.inc();
                    break Box::pin(self.leave(end)).await;
                }
            };
            match scraped {
                Ok(()) => {}
                Err(Stop::Drained) => break true,
                Err(Stop::Expired) => break false,
                Err(stop @ (Stop::NoRoom | Stop::NotTaken)) => {
                    self.asker.shared.metrics.skipped.inc();
                    self.row.note(|row| row.error = shown(stop));
                }
            }
            self.keep();
        };
        self.forget();
        is_safe
    }

    /// Marks all series as gone, if they are. Whether nothing is under way then.
    async fn leave(&mut self, end: End) -> bool {
        let Leave { series, scraping } = end.leave();
        // Whoever waits for the last scrape doesn't wait for what follows.
        drop(scraping);
        if self.is_up.is_none() || series == Series::GoOn {
            return true;
        }
        let until = Instant::now() + LEAVE_TIME;
        loop {
            let error = match self.mark_all(until).await {
                Ok(()) => return true,
                Err(Stop::Expired) => return false,
                Err(error) => error,
            };
            let drain = &self.asker.shared.drain;
            if error != Stop::NoRoom || drain.is_begun() || Instant::now() + LEAVE_PAUSE >= until {
                self.asker.shared.metrics.skipped.inc();
                let target = &self.name;
                tracing::warn!(target, %error, "series of a target that is gone aren't marked");
                return true;
            }
            sleep(LEAVE_PAUSE).await;
        }
    }

    async fn mark_all(&mut self, until: Instant) -> Result<(), Stop> {
        let Self { asker, memory, room, .. } = self;
        let kept_bytes = memory.bytes() + SCRAPE_BYTES;
        if !room.try_resize(kept_bytes) {
            return Err(Stop::NoRoom);
        }
        let time_unix_nano = now_unix_nanos() / NANOS_PER_MILLI * NANOS_PER_MILLI;
        let buffers = asker.shared.spare.lend();
        let mut scrape = Scrape::new(&asker.target, memory, asker.limits, time_unix_nano, buffers);
        scrape.leave();
        let report = Report { duration_seconds: 0.0 };
        asker.settle(&mut scrape, &mut Room { room, kept_bytes }, &report, until).await
    }

    /// Gives back what only a scrape needs. A connection is kept while half of the budget is free:
    /// scrapes go before it.
    fn keep(&mut self) {
        let Asker { client, shared, .. } = &self.asker;
        let budget = &shared.way.budget;
        // Less than the scrape held, so that it is there.
        let _ = self.room.try_resize(self.memory.bytes());
        let kept_bytes = client.kept_bytes();
        let has_room = budget.used_bytes() + kept_bytes <= budget.limit_bytes() / 2;
        if kept_bytes > 0 && !(has_room && self.room.try_resize(self.memory.bytes() + kept_bytes)) {
            client.close();
        }
    }

    fn forget(&mut self) {
        let metrics = &self.asker.shared.metrics;
        metrics.series.sub(self.memory.series() as i64);
        metrics.series_bytes.sub(self.memory.bytes() as i64);
        metrics.targets_up.sub(i64::from(self.is_up == Some(true)));
    }

    /// One scrape, until its points are safe.
    async fn scrape(&mut self, due_unix_nano: u64) -> Result<(), Stop> {
        let Self { asker, memory, room, schedule, .. } = self;
        let before = (memory.series() as i64, memory.bytes());
        let kept_bytes = memory.bytes() + SCRAPE_BYTES;
        if !room.try_resize(kept_bytes) {
            return Err(Stop::NoRoom);
        }
        let start = Instant::now();
        let now = now_unix_nanos();
        let until = start + Duration::from_nanos(schedule.next(due_unix_nano).saturating_sub(now));
        let time_unix_nano = now / NANOS_PER_MILLI * NANOS_PER_MILLI;
        let buffers = asker.shared.spare.lend();
        let mut scrape = Scrape::new(&asker.target, memory, asker.limits, time_unix_nano, buffers);
        let mut room = Room { room, kept_bytes };
        room.hold(&scrape)?;
        let failure = asker.read(&mut scrape, &mut room, until).await?;
        let report = Report { duration_seconds: start.elapsed().as_secs_f64() };
        if failure.is_some() {
            scrape.fail();
        }
        asker.settle(&mut scrape, &mut room, &report, until).await?;
        let counts = scrape.counts();
        let buffers = scrape.remember();
        let _ = room.room.try_resize(room.kept_bytes);
        asker.shared.spare.give_back(buffers, &asker.shared.way.budget);
        let metrics = &asker.shared.metrics;
        metrics.scrapes.inc();
        metrics.samples.inc_by(counts.samples);
        metrics.dropped.inc_by(counts.dropped);
        metrics.series.add(memory.series() as i64 - before.0);
        metrics.series_bytes.add(memory.bytes() as i64 - before.1 as i64);
        let series = memory.series() as u64;
        self.row.note(|row| {
            row.state = if failure.is_none() { TargetState::Up } else { TargetState::Down };
            row.began_unix_millis = time_unix_nano / NANOS_PER_MILLI;
            row.duration_seconds = report.duration_seconds;
            (row.samples, row.series) = (counts.samples, series);
            row.error = failure.as_ref().map(shown).unwrap_or_default();
            if failure.is_none() {
                row.good_samples = Some(counts.samples);
            }
        });
        self.say(failure.as_ref());
        Ok(())
    }

    /// Notes whether the target is up, with a word in the log when that changes.
    fn say(&mut self, failure: Option<&Failure>) {
        let (target, was_up) = (&self.name, self.is_up);
        let metrics = &self.asker.shared.metrics;
        match failure {
            Some(error) => {
                metrics.failed.inc();
                if was_up != Some(false) {
                    tracing::warn!(target, %error, "a target can't be scraped; it is tried again");
                }
            }
            None if was_up == Some(false) => tracing::info!(target, "the target is scraped again"),
            None => {}
        }
        let is_up = failure.is_none();
        self.is_up = Some(is_up);
        metrics.targets_up.add(i64::from(is_up) - i64::from(was_up == Some(true)));
    }
}

/// What a scrape may hold.
struct Room<'a> {
    room: &'a mut Reservation,
    kept_bytes: u64,
}

impl Room<'_> {
    /// Reserves what a scrape holds now.
    fn hold(&mut self, scrape: &Scrape<'_>) -> Result<(), Stop> {
        let bytes = self.kept_bytes + scrape.held_bytes();
        let has_room = bytes <= self.room.bytes() || self.room.try_resize(bytes);
        if has_room { Ok(()) } else { Err(Stop::NoRoom) }
    }
}

impl Asker {
    /// Sends the rest of a scrape.
    async fn settle(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut Room<'_>,
        report: &Report,
        until: Instant,
    ) -> Result<(), Stop> {
        loop {
            let is_over = scrape.settle(report);
            room.hold(scrape)?;
            if let Some(points) = scrape.take() {
                self.shared.deliver(&points, until).await?;
                scrape.give_back(points);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Asks the target and reads its body. Why that failed, if it did.
    async fn read(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut Room<'_>,
        until: Instant,
    ) -> Result<Option<Failure>, Stop> {
        let read = timeout(self.client.timeout, self.read_all(scrape, room, until));
        let read = tokio::select! {
            read = read => read,
            () = self.shared.drain.begun() => return Err(Stop::Drained),
        };
        match read {
            Ok(Ok(())) => Ok(None),
            Ok(Err(Unread::Failure(failure))) => Ok(Some(failure)),
            Ok(Err(Unread::Stop(stop))) => Err(stop),
            Err(_) => Ok(Some(Failure::TimedOut(self.client.timeout))),
        }
    }

    async fn read_all(
        &self,
        scrape: &mut Scrape<'_>,
        room: &mut Room<'_>,
        until: Instant,
    ) -> Result<(), Unread> {
        let mut answer = self.client.ask().await?;
        scrape.set_format(answer.format);
        let mut gunzip = answer.is_gzip.then(Gunzip::new);
        while let Some(frame) = answer.body().frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            let Some(gunzip) = &mut gunzip else {
                self.feed(&piece, scrape, room, until).await?;
                continue;
            };
            for packed in piece.chunks(PIECE_BYTES) {
                let text = gunzip.take(packed).map_err(Failure::Gzip)?;
                self.feed(&text, scrape, room, until).await?;
                gunzip.give_back(text);
            }
        }
        if let Some(gunzip) = gunzip {
            let text = gunzip.end().map_err(Failure::Gzip)?;
            self.feed(&text, scrape, room, until).await?;
        }
        self.client.keep(answer);
        Ok(scrape.end()?)
    }

    /// Converts a piece of a body, and hands on what is full.
    async fn feed(
        &self,
        piece: &[u8],
        scrape: &mut Scrape<'_>,
        room: &mut Room<'_>,
        until: Instant,
    ) -> Result<(), Unread> {
        for step in piece.chunks(STEP_BYTES) {
            let mut at = 0;
            while at < step.len() {
                at += scrape.feed(&step[at..])?;
                room.hold(scrape).map_err(Unread::Stop)?;
                if scrape.is_full()
                    && let Some(points) = scrape.take()
                {
                    self.shared.deliver(&points, until).await.map_err(Unread::Stop)?;
                    scrape.give_back(points);
                }
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Sends points until they are confirmed, or the next scrape is due.
    async fn deliver(&self, points: &Points, until: Instant) -> Result<(), Stop> {
        let checked = otlp::check(Signal::Metrics, &points.bytes, &Default::default());
        let checked = match checked {
            Ok(checked) => checked,
            Err(error) => {
                // A fault of ours, and sending it again would not help.
                let points = points.points;
                tracing::error!(%error, points, "a request made of a target's body is malformed");
                return Err(Stop::NotTaken);
            }
        };
        let mut backoff = Backoff::new(SEND_BACKOFF, now_unix_nanos());
        loop {
            let sent = self.way.deliver(Signal::Metrics, &points.bytes, &checked, &self.drain);
            let answer = sent.await.map_err(|Expired| Stop::Expired)?;
            let Err(refused) = answer else { return Ok(()) };
            let wait = backoff.next_wait();
            if Instant::now() + wait >= until {
                tracing::debug!(%refused, "points of a target are given up: its next scrape is due");
                return Err(Stop::NotTaken);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.drain.expired() => return Err(Stop::Expired),
            }
        }
    }
}
