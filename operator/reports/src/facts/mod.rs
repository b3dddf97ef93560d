//! What was read of a pipeline, as data: objects as they are, pods, what their processes count.
//! No client, no clock: a test writes them down.

mod pod;
mod sample;

use millrace_crds::v1alpha1::{
    EdgePool, GatewayPool, TelemetryPipeline, TelemetrySchema, TelemetryTopic,
};

pub use millrace_crds::pods::Role;
pub use pod::PodFacts;
pub use sample::{Counts, Sample, sample};

/// A pipeline and what belongs to it.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was read, in seconds since 1970.
    pub at_second: i64,
    /// Seconds between the two readings of metrics; none if they were read once or never.
    pub interval_seconds: Option<f64>,
    /// The pipeline.
    pub pipeline: TelemetryPipeline,
    /// Its topics, those of dead letters too.
    pub topics: Vec<TelemetryTopic>,
    /// Its tables.
    pub schemas: Vec<TelemetrySchema>,
    /// Its edge pools.
    pub edges: Vec<EdgePool>,
    /// Its gateway pool.
    pub gateways: Vec<GatewayPool>,
    /// Pods of its pools.
    pub pods: Vec<PodFacts>,
    /// What could not be read.
    pub gaps: Vec<Gap>,
}

/// Something that could not be read: the report goes on without it, and says so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Gap {
    /// What is not shown for it.
    pub what: String,
    /// Why, with what to do.
    pub why: String,
}

impl Facts {
    /// The pipeline's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.pipeline.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The pipeline's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.pipeline.metadata.name.as_deref().unwrap_or_default()
    }

    /// The pods of one pool.
    pub fn pods_of<'a>(&'a self, role: Role, pool: &'a str) -> impl Iterator<Item = &'a PodFacts> {
        self.pods.iter().filter(move |pod| pod.role == role && pod.pool == pool)
    }
}
