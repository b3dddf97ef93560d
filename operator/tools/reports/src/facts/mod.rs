//! The facts read of a pipeline: objects, pods, counters of their processes. No client, no clock: a
//! test can write them down.

mod event;
mod pod;
mod sample;

use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

pub use event::EventFacts;
pub use millrace_crds::pods::Role;
pub use pod::PodFacts;
pub use sample::{CounterSample, NamedCounts, parse_sample};

/// A pipeline with its objects and pods.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When the facts were read, in seconds since 1970.
    pub at_second: i64,
    /// Seconds between the two readings of metrics; `None` if they were read once or never.
    pub interval_seconds: Option<f64>,
    /// The pipeline.
    pub pipeline: TelemetryPipeline,
    /// Its topics, including those of dead letters.
    pub topics: Vec<TelemetryTopic>,
    /// Its tables.
    pub schemas: Vec<TelemetrySchema>,
    /// Its edge pools.
    pub edges: Vec<EdgePool>,
    /// Its gateway pool.
    pub gateways: Vec<GatewayPool>,
    /// Pods of its pools.
    pub pods: Vec<PodFacts>,
    /// Parts that could not be read.
    pub gaps: Vec<Gap>,
}

/// A part that could not be read: the report continues without it and states the gap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Gap {
    /// The omitted part.
    pub what: String,
    /// The reason, with what to do.
    pub why: String,
}

impl Facts {
    /// Returns the pipeline's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.pipeline.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the pipeline's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.pipeline.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the pods of one pool.
    pub fn pods_of<'a>(&'a self, role: Role, pool: &'a str) -> impl Iterator<Item = &'a PodFacts> {
        self.pods.iter().filter(move |pod| pod.role == role && pod.pool == pool)
    }
}
