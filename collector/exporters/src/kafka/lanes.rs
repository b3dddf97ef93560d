//! A signal's lanes: one for its topic, or one for each partition when spans are sorted by trace.

use std::sync::{Arc, PoisonError, RwLock};

use millrace_config::TopicName;
use millrace_pipeline::publish::Refused;
use millrace_pipeline::telemetry::Refusal;
use millrace_wire::otlp::{self, Bucket, Part};

use super::lane::Lane;
use super::way::Course;

/// The most partitions that spans are sorted into; a topic's further partitions get none. Each has
/// an open message, and 4,096 is far past what one topic should have.
const MAX_LANES: u32 = 4096;

/// How a signal's requests get to their topic.
pub(crate) enum Lanes {
    /// Whole, to a partition that the client library chooses for each message.
    One(Arc<Lane>),
    /// Sorted by trace id, a lane for each partition.
    ByTrace(ByTrace),
}

/// Lanes by partition, made as partitions become known.
pub(crate) struct ByTrace {
    course: Course,
    lanes: RwLock<Vec<Arc<Lane>>>,
}

/// A part of a request and its lane.
pub(crate) struct Ride {
    pub(crate) lane: Arc<Lane>,
    pub(crate) part: Part,
}

impl Lanes {
    pub(crate) fn one(course: Course) -> Self {
        Self::One(Arc::new(Lane::new(course, None)))
    }

    pub(crate) fn by_trace(course: Course) -> Self {
        Self::ByTrace(ByTrace { course, lanes: RwLock::default() })
    }

    /// All lanes there are now.
    pub(crate) fn all(&self) -> Vec<Arc<Lane>> {
        match self {
            Self::One(lane) => vec![Arc::clone(lane)],
            Self::ByTrace(by_trace) => {
                by_trace.lanes.read().unwrap_or_else(PoisonError::into_inner).clone()
            }
        }
    }

    /// The topic.
    pub(crate) fn topic(&self) -> &TopicName {
        &self.course().topic
    }

    fn course(&self) -> &Course {
        match self {
            Self::One(lane) => lane.course(),
            Self::ByTrace(by_trace) => &by_trace.course,
        }
    }

    /// Counts records that no message can hold.
    pub(crate) fn reject(&self, records: u64) {
        let Course { signal, telemetry, .. } = self.course();
        if records > 0 {
            telemetry.refused(*signal, Refusal::TooLarge, records);
        }
    }
}

impl ByTrace {
    /// Sorts a checked request into `partitions` lanes, in requests of any length.
    ///
    /// # Errors
    /// It isn't well-formed, so it was not checked: nothing of it is sent.
    pub(crate) fn sort(&self, request: &[u8], partitions: u32) -> Result<Vec<Ride>, Refused> {
        let lanes = self.first(partitions.clamp(1, MAX_LANES));
        let buckets = otlp::split_by_trace(request, lanes.len() as u32)
            .map_err(|error| Refused::Unavailable(error.to_string()))?;
        let rides = buckets.into_iter().filter_map(|Bucket { index, part }| {
            let lane = Arc::clone(lanes.get(index as usize)?);
            Some(Ride { lane, part })
        });
        Ok(rides.collect())
    }

    /// The lanes of the first `count` partitions.
    fn first(&self, count: u32) -> Vec<Arc<Lane>> {
        let count = count as usize;
        let known = self.lanes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(lanes) = known.get(..count) {
            return lanes.to_vec();
        }
        drop(known);
        let mut lanes = self.lanes.write().unwrap_or_else(PoisonError::into_inner);
        for partition in lanes.len()..count {
            let partition = i32::try_from(partition).ok();
            lanes.push(Arc::new(Lane::new(self.course.clone(), partition)));
        }
        lanes[..count].to_vec()
    }
}
