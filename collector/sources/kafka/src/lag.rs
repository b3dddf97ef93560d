//! Each partition's lag, measured from the broker's own numbers.
//!
//! Workers publish what is stored. One thread requests the partitions' ends from the brokers, with
//! a separate client, because a paused consumer gets no updates about its paused partitions, just
//! when lag matters most.
//!
//! Where messages were skipped ([`crate::topics::gaps`]), the partition's beginning shows whether
//! they were deleted unread: those are counted as lost to retention. Gaps behind the beginning are
//! Kafka's own (transaction markers, compaction) and are ignored. At the end of the process this
//! runs once more: nobody would report the gap afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_pipeline::mutex::lock;
use millrace_pipeline::telemetry::Telemetry;
use rdkafka::consumer::Consumer;
use rdkafka::metadata::Metadata;

use crate::WorkerContext;
use crate::topics::gaps::{Gap, Gaps, TopicPartition};
use crate::topics::query_client::QueryConsumer;

/// The interval of requests for the ends. A sizing decision covers minutes.
const LAG_INTERVAL: Duration = Duration::from_secs(3);
/// The timeout of one request. A broker that is down must not hide the others for long.
const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval of checks whether the process ends.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The known state of one partition.
#[derive(Clone, Copy, Debug)]
struct LagPoint {
    commit_point: Option<i64>,
    oldest_millis: Option<i64>,
    since: SystemTime,
    /// The partition's beginning at the last request.
    low: Option<i64>,
}

/// How long `/readyz` shows a loss.
const NOTICE_TIME: Duration = Duration::from_secs(600);

type LagPoints = BTreeMap<TopicPartition, LagPoint>;

/// The workers' state, by partition.
#[derive(Debug, Default)]
pub(super) struct LagTracker {
    points: Mutex<LagPoints>,
    gaps: Mutex<Gaps>,
}

impl LagTracker {
    /// Records a worker's progress. Returns the partition's beginning, if known.
    pub(super) fn publish_progress(
        &self,
        topic: &Arc<str>,
        partition: i32,
        commit_point: Option<i64>,
        oldest_millis: Option<i64>,
    ) -> Option<i64> {
        let since = SystemTime::now();
        let point = LagPoint { commit_point, oldest_millis, since, low: None };
        let mut points = lock(&self.points);
        let known = points.entry((Arc::clone(topic), partition)).or_insert(point);
        *known = LagPoint { since: known.since, low: known.low, ..point };
        known.low
    }

    /// Records that a worker expected the message at one offset and got that at a later one.
    pub(super) fn record_gap(&self, topic: &Arc<str>, partition: i32, expected: i64, got: i64) {
        lock(&self.gaps).record_gap((Arc::clone(topic), partition), Gap { expected, got });
    }

    /// Records that a worker's partition is committed up to here, or will be without an answer.
    pub(super) fn record_committed(&self, topic: &Arc<str>, partition: i32, offset: i64) {
        lock(&self.gaps).pass_committed(&(Arc::clone(topic), partition), offset);
    }

    /// Returns the partitions to check.
    fn partitions_to_check(&self) -> BTreeSet<TopicPartition> {
        let points = lock(&self.points);
        let gaps = lock(&self.gaps);
        points.keys().chain(gaps.unreported()).cloned().collect()
    }

    pub(super) fn forget_partition(&self, topic: &Arc<str>, partition: i32, telemetry: &Telemetry) {
        let topic_partition = (Arc::clone(topic), partition);
        lock(&self.gaps).remove_pending(&topic_partition);
        let mut points = lock(&self.points);
        points.remove(&topic_partition);
        telemetry.remove_lag(topic, partition);
    }

    /// Sets the gauges of a partition, unless it has left.
    pub(super) fn publish_watermarks(
        &self,
        key: &TopicPartition,
        low: i64,
        high: i64,
        telemetry: &Telemetry,
    ) {
        let mut points = lock(&self.points);
        let Some(point) = points.get_mut(key) else { return };
        point.low = Some(low);
        let (messages, age) = compute_lag(point, low, high, SystemTime::now());
        telemetry.record_lag(&key.0, key.1, messages, age);
    }
}

/// Returns the messages that aren't stored, and the age of the oldest. Without any timestamp, the
/// age is the time since this worker got the partition.
fn compute_lag(point: &LagPoint, low: i64, high: i64, now: SystemTime) -> (u64, Duration) {
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
fn report_lost(
    shared: &WorkerContext,
    (topic, partition): &TopicPartition,
    messages: u64,
) -> Instant {
    tracing::error!(
        %topic, partition, messages,
        "messages were deleted before they were read: retain them for longer, or read faster"
    );
    shared.telemetry.lost_to_retention(topic, messages);
    let note = format!("{messages} messages of {topic}/{partition} were deleted unread");
    shared.status.set_notice(Some(note));
    Instant::now() + NOTICE_TIME
}

/// Measures until the process drains, and reports the final gaps when its workers are done.
pub(super) fn measure_lag(shared: &WorkerContext) {
    let mut next = Instant::now() + LAG_INTERVAL;
    let mut noted_until = None;
    while !shared.drain.is_begun() {
        if Instant::now() < next {
            std::thread::sleep(DRAIN_CHECK_INTERVAL);
            continue;
        }
        next = Instant::now() + LAG_INTERVAL;
        // Like the workers it continues once the settings' files are repaired.
        let Some(client) = find_client(shared) else { continue };
        check_brokers(shared, &client);
        if noted_until.take_if(|until| *until <= Instant::now()).is_some() {
            shared.status.set_notice(None);
        }
        let partitions = shared.lag.partitions_to_check();
        let now = partitions.iter().take_while(|_| !shared.drain.is_begun());
        let noted = now.filter_map(|partition| query_partition(shared, &client, partition)).max();
        noted_until = noted_until.max(noted);
    }
    while !shared.finish.all_done() && !shared.drain.remaining().is_zero() {
        std::thread::sleep(DRAIN_CHECK_INTERVAL);
    }
    let Some(client) = find_client(shared) else { return };
    let unreported: Vec<TopicPartition> = lock(&shared.lag.gaps).unreported().cloned().collect();
    for partition in &unreported {
        query_partition(shared, &client, partition);
    }
}

fn find_client(shared: &WorkerContext) -> Option<Arc<QueryConsumer>> {
    let client = shared.query_client.ensure_client(&shared.settings);
    client.inspect_err(|error| tracing::error!(%error, "the lag can't be measured now")).ok()
}

/// Requests a partition's beginning and end, and evaluates them. Returns until when a loss is shown
/// in `/readyz`, if there is one.
fn query_partition(
    shared: &WorkerContext,
    client: &QueryConsumer,
    topic_partition: &TopicPartition,
) -> Option<Instant> {
    if shared.drain.remaining().is_zero() {
        return None;
    }
    match client.fetch_watermarks(&topic_partition.0, topic_partition.1, QUERY_TIMEOUT) {
        Ok((low, high)) => {
            shared.lag.publish_watermarks(topic_partition, low, high, &shared.telemetry);
            let messages = lock(&shared.lag.gaps)
                .take_unreported(topic_partition)
                .map_or(0, |gap| gap.lost_messages(low));
            (messages > 0).then(|| report_lost(shared, topic_partition, messages))
        }
        Err(error) => {
            tracing::debug!(topic = %topic_partition.0, partition = topic_partition.1, %error, "cannot read the lag");
            None
        }
    }
}

/// Checks whether the brokers answer again, because the workers' clients never report that.
fn check_brokers(shared: &WorkerContext, client: &QueryConsumer) {
    if !shared.status.is_troubled() {
        return;
    }
    let topic = shared.settings.topics.first().map(|topic| topic.name.as_ref());
    let answer = client.request_metadata(topic, QUERY_TIMEOUT);
    let known = |metadata: &Metadata| {
        let mut topics = metadata.topics().iter();
        topics.all(|topic| topic.error().is_none())
    };
    if answer.as_ref().is_ok_and(known) {
        shared.status.clear_trouble();
    }
}

#[cfg(test)]
mod tests;
