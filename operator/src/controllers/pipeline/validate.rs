//! From a pipeline's spec to checked values. Pure: no client. Whatever only a child can check (its
//! configuration, its Secrets), its own controller checks.

use millrace_crds::EdgeName;
use millrace_crds::v1alpha1::{Signal, TelemetryPipeline};

use crate::error::Invalid;
use crate::pool::names::{PoolNames, Role};

/// A pipeline whose children can be named.
#[derive(Clone, Debug)]
pub(super) struct Validated<'a> {
    /// The pipeline.
    pub(super) pipeline: &'a TelemetryPipeline,
    /// The name of the gateway pool and the schema: the pipeline's own.
    pub(super) name: &'a str,
}

impl Validated<'_> {
    /// The name of an EdgePool.
    pub(super) fn edge(&self, edge: &EdgeName) -> String {
        format!("{}-{edge}", self.name)
    }

    /// The name of a signal's TelemetryTopic.
    pub(super) fn topic(&self, signal: Signal) -> String {
        format!("{}-{}", self.name, signal.as_str())
    }

    /// The name of the TelemetryTopic of a signal's dead letters.
    pub(super) fn dead_letters(&self, signal: Signal) -> String {
        format!("{}-dead-letter", self.topic(signal))
    }
}

/// Checks that every child can be named after the pipeline.
///
/// # Errors
/// When the pipeline's name leaves no room for what its pools put behind it.
pub(super) fn validate(pipeline: &TelemetryPipeline) -> Result<Validated<'_>, Invalid> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    PoolNames::new(namespace, name, Role::Gateway)?;
    let validated = Validated { pipeline, name };
    for edge in pipeline.spec.edge_pools() {
        PoolNames::new(namespace, &validated.edge(&edge.name), Role::Edge)?;
    }
    Ok(validated)
}
