//! The lag of gateways: of the pool as the operator queries it from Kafka; of partitions as their
//! pods report it.

use std::collections::BTreeMap;

use millrace_crds::v1alpha1::LagStatus;
use serde::Serialize;

use crate::facts::{Facts, Gap, Role};

/// A pipeline's lag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LagReport {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The pool's lag, from Kafka.
    pub pool: Option<LagStatus>,
    /// Each topic's lag, from the pods.
    pub topics: Vec<TopicLag>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// A topic's lag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicLag {
    /// The topic.
    pub topic: String,
    /// Messages not committed.
    pub messages: u64,
    /// The age of the oldest.
    pub seconds: Option<f64>,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionLag>,
}

/// A partition's lag.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionLag {
    /// Its number.
    pub partition: i32,
    /// The pod that reads it.
    pub pod: String,
    /// Messages not committed.
    pub messages: u64,
    /// The age of the oldest.
    pub seconds: Option<f64>,
    /// The change of the messages per second; negative while the backlog shrinks.
    pub growth_per_second: Option<f64>,
}

/// Returns the lag of a pipeline.
#[must_use]
pub fn lag_report(facts: &Facts) -> LagReport {
    let mut topics: BTreeMap<String, Vec<PartitionLag>> = BTreeMap::new();
    for pod in facts.pods.iter().filter(|pod| pod.role == Role::Gateway) {
        let Some(now) = &pod.now else { continue };
        for ((topic, partition), messages) in &now.lag_messages {
            let key = (topic.clone(), *partition);
            let before =
                pod.readings().and_then(|(before, _)| before.lag_messages.get(&key).copied());
            let seconds = facts.interval_seconds.filter(|seconds| *seconds > 0.0);
            let growth = before.zip(seconds);
            topics.entry(topic.clone()).or_default().push(PartitionLag {
                partition: *partition,
                pod: pod.name.clone(),
                messages: *messages,
                seconds: now.lag_seconds.get(&key).copied(),
                growth_per_second: growth
                    .map(|(before, seconds)| (*messages as f64 - before as f64) / seconds),
            });
        }
    }
    let topics = topics.into_iter().map(|(topic, mut partitions)| {
        partitions.sort_by_key(|one| one.partition);
        TopicLag {
            topic,
            messages: partitions.iter().map(|one| one.messages).sum(),
            seconds: partitions.iter().filter_map(|one| one.seconds).reduce(f64::max),
            partitions,
        }
    });
    LagReport {
        namespace: facts.namespace().to_owned(),
        name: facts.name().to_owned(),
        pool: facts.gateways.iter().find_map(|pool| pool.status.as_ref()?.lag.clone()),
        topics: topics.collect(),
        gaps: facts.gaps.clone(),
    }
}
