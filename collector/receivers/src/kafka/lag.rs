//! Each partition's lag, measured from the broker's own numbers.
//!
//! Workers publish what is stored; one thread asks the brokers where each partition ends, with its
//! own client, because a paused consumer gets no news of its paused partitions, just when lag
//! matters most.
//!
//! Where messages were skipped ([`super::gaps`]), the partition's beginning shows whether they were
//! deleted unread: those are counted as lost to retention. Gaps behind the beginning are Kafka's
//! own (transaction markers, compaction) and are ignored. At the end of the process this runs once
//! more: nobody would report the gap afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_pipeline::telemetry::Telemetry;
use rdkafka::consumer::Consumer;
use rdkafka::metadata::Metadata;

use super::Shared;
use super::asker::Client;
use super::gaps::{Gap, Gaps, Place};

/// Interval of requests for the ends. A sizing decision covers minutes.
const LAG_INTERVAL: Duration = Duration::from_secs(3);
/// Time-out of one request. A broker that is away must not hide the others for long.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of checks whether the process ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What is known of one partition.
#[derive(Clone, Copy, Debug)]
struct Point {
    commit_point: Option<i64>,
    oldest_millis: Option<i64>,
    since: SystemTime,
    /// The partition's beginning at the last request.
    low: Option<i64>,
}

/// How long `/readyz` shows a loss.
const NOTE_TIME: Duration = Duration::from_secs(600);

type Points = BTreeMap<Place, Point>;

/// The workers' state, by partition.
#[derive(Debug, Default)]
pub(super) struct LagBoard {
    points: Mutex<Points>,
    gaps: Mutex<Gaps>,
}

impl LagBoard {
    /// Notes a worker's progress. Returns the partition's beginning, if known.
    pub(super) fn publish(
        &self,
        topic: &Arc<str>,
        partition: i32,
        commit_point: Option<i64>,
        oldest_millis: Option<i64>,
    ) -> Option<i64> {
        let since = SystemTime::now();
        let point = Point { commit_point, oldest_millis, since, low: None };
        let mut points = self.points();
        let known = points.entry((Arc::clone(topic), partition)).or_insert(point);
        *known = Point { since: known.since, low: known.low, ..point };
        known.low
    }

    /// A worker wanted the message at one offset and got that at a later one.
    pub(super) fn passed_over(&self, topic: &Arc<str>, partition: i32, wanted: i64, got: i64) {
        self.gaps().met((Arc::clone(topic), partition), Gap { wanted, got });
    }

    /// A worker's partition is committed up to here, or will be without an answer.
    pub(super) fn committed(&self, topic: &Arc<str>, partition: i32, offset: i64) {
        self.gaps().committed(&(Arc::clone(topic), partition), offset);
    }

    /// Partitions to check.
    fn places(&self) -> BTreeSet<Place> {
        let points = self.points();
        let gaps = self.gaps();
        points.keys().chain(gaps.untold()).cloned().collect()
    }

    pub(super) fn forget(&self, topic: &Arc<str>, partition: i32, telemetry: &Telemetry) {
        let place = (Arc::clone(topic), partition);
        self.gaps().left(&place);
        let mut points = self.points();
        points.remove(&place);
        telemetry.forget_lag(topic, partition);
    }

    /// Sets the gauges of a partition, unless it left meanwhile.
    pub(super) fn tell(&self, key: &Place, low: i64, high: i64, telemetry: &Telemetry) {
        let mut points = self.points();
        let Some(point) = points.get_mut(key) else { return };
        point.low = Some(low);
        let (messages, age) = lag(point, low, high, SystemTime::now());
        telemetry.lag(&key.0, key.1, messages, age);
    }

    fn points(&self) -> MutexGuard<'_, Points> {
        // Writers replace whole entries.
        self.points.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gaps(&self) -> MutexGuard<'_, Gaps> {
        // A panic ends the process, so a poisoned lock is not seen outside tests.
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Messages not stored, and the age of the oldest of them. Without any time stamp, the time since
/// this worker has the partition.
fn lag(point: &Point, low: i64, high: i64, now: SystemTime) -> (u64, Duration) {
    let stored_to = point.commit_point.unwrap_or(low).max(low);
    let messages = u64::try_from(high - stored_to).unwrap_or(0);
    if messages == 0 {
        return (0, Duration::ZERO);
    }
    let oldest = point
        .oldest_millis
        .and_then(|millis| u64::try_from(millis).ok())
        .map_or(point.since, |millis| UNIX_EPOCH + Duration::from_millis(millis));
    (messages, now.duration_since(oldest).unwrap_or_default())
}

/// Counts and logs messages that were deleted unread. Returns until when that is shown.
fn tell_lost(shared: &Shared, (topic, partition): &Place, messages: u64) -> Instant {
    tracing::error!(
        %topic, partition, messages,
        "messages were deleted before they were read: keep them longer, or read faster"
    );
    shared.telemetry.lost_to_retention(topic, messages);
    let note = format!("{messages} messages of {topic}/{partition} were deleted unread");
    shared.status.note(Some(note));
    Instant::now() + NOTE_TIME
}

/// Measures until the process drains, and reports the rest when its workers are done.
pub(super) fn measure(shared: &Shared) {
    let client = match shared.asker.client(&shared.settings) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "lag will not be measured");
            return;
        }
    };
    let mut next = Instant::now() + LAG_INTERVAL;
    let mut noted_until = None;
    while !shared.drain.is_begun() {
        if Instant::now() < next {
            std::thread::sleep(LOOK_INTERVAL);
            continue;
        }
        next = Instant::now() + LAG_INTERVAL;
        look_for_brokers(shared, &client);
        if noted_until.take_if(|until| *until <= Instant::now()).is_some() {
            shared.status.note(None);
        }
        let places = shared.lag.places();
        let now = places.iter().take_while(|_| !shared.drain.is_begun());
        let told = now.filter_map(|place| look(shared, &client, place)).max();
        noted_until = noted_until.max(told);
    }
    while !shared.finish.all_done() && !shared.drain.remaining().is_zero() {
        std::thread::sleep(LOOK_INTERVAL);
    }
    let untold: Vec<Place> = shared.lag.gaps().untold().cloned().collect();
    for place in &untold {
        look(shared, &client, place);
    }
}

/// Requests a partition's beginning and end, and evaluates them. Returns until when a loss is shown
/// in `/readyz`, if there is one.
fn look(shared: &Shared, client: &Client, place: &Place) -> Option<Instant> {
    if shared.drain.remaining().is_zero() {
        return None;
    }
    match client.fetch_watermarks(&place.0, place.1, ASK_TIMEOUT) {
        Ok((low, high)) => {
            shared.lag.tell(place, low, high, &shared.telemetry);
            let messages = shared.lag.gaps().tell(place).map_or(0, |gap| gap.lost(low));
            (messages > 0).then(|| tell_lost(shared, place, messages))
        }
        Err(error) => {
            tracing::debug!(topic = %place.0, partition = place.1, %error, "asking for lag");
            None
        }
    }
}

/// Logs that the brokers answer again: the workers' clients never do.
fn look_for_brokers(shared: &Shared, client: &Client) {
    if !shared.status.is_troubled() {
        return;
    }
    let topic = shared.settings.topics.first().map(|topic| topic.name.as_ref());
    let answer = client.fetch_metadata(topic, ASK_TIMEOUT);
    let known = |metadata: &Metadata| {
        let mut topics = metadata.topics().iter();
        topics.all(|topic| topic.error().is_none())
    };
    if answer.as_ref().is_ok_and(known) {
        shared.status.recovered();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/lag.rs"]
mod tests;
