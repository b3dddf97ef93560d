//! Consumer lag as the broker tells it: what a gateway pool's sizing and truthfulness rest on.
//!
//! The trait is what reconcilers see; [`KafkaLag`] asks a real broker. A failed observation is an
//! error with a stable reason, never a lag of zero.

use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use millrace_crds::v1alpha1::KafkaConnection;

use crate::error::StepError;

/// Which group's lag on which topics.
#[derive(Clone, Debug)]
pub struct LagQuery {
    /// Namespace in which the connection's secret references are resolved.
    pub namespace: String,
    /// How to reach the broker.
    pub kafka: KafkaConnection,
    /// The consumer group.
    pub group: String,
    /// The topics it reads.
    pub topics: Vec<String>,
    /// The bound the lag in seconds is held against.
    pub bound: Duration,
}

/// Lag over all partitions of the topics asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct LagObservation {
    /// Partitions over all topics.
    pub partitions: u32,
    /// Partitions of the topic that has most; the ceiling for useful pods.
    pub partitions_max: u32,
    /// Messages not yet committed, over all partitions.
    pub messages: u64,
    /// Age of the oldest message not yet committed, in seconds, where the broker could tell.
    pub seconds: Option<f64>,
    /// Whether every partition's committed offset is at or past the offset of `now - bound`.
    pub within_bound: bool,
    /// When this was asked.
    pub observed_at: Timestamp,
}

/// Something that can tell a group's lag.
pub trait LagSource: Send + Sync {
    /// Observes the lag once; bounded by the implementation's own time limit.
    fn observe<'a>(
        &'a self,
        query: &'a LagQuery,
    ) -> BoxFuture<'a, Result<LagObservation, StepError>>;
}
