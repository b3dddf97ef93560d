//! From a pipeline's spec to checked values. Pure: no client. Whatever only a child can check (its
//! configuration, its Secrets), its own controller checks.

use millrace_crds::EdgeName;
use millrace_crds::v1alpha1::{Attributes, Signal, TableSettings, TelemetryPipeline};

use crate::error::Invalid;
use crate::pool::names::{PoolNames, Role};

/// A pipeline whose children can be named.
#[derive(Clone, Debug)]
pub(super) struct Validated<'a> {
    /// The pipeline.
    pub(super) pipeline: &'a TelemetryPipeline,
    /// The name of the gateway pool and the schema: the pipeline's own.
    pub(super) name: &'a str,
    /// How all its tables store attributes.
    pub(super) attributes: Attributes,
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

/// Checks that every child can be named after the pipeline, and that its tables can be what it
/// says.
///
/// # Errors
/// When the pipeline's name leaves no room for what its pools put behind it, or attributes are
/// stored in two ways, or in another way than before.
pub(super) fn validate(pipeline: &TelemetryPipeline) -> Result<Validated<'_>, Invalid> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    PoolNames::new(namespace, name, Role::Gateway)?;
    let attributes = attributes(pipeline)?;
    let validated = Validated { pipeline, name, attributes };
    for edge in pipeline.spec.edge_pools() {
        PoolNames::new(namespace, &validated.edge(&edge.name), Role::Edge)?;
    }
    Ok(validated)
}

/// How a pipeline's tables store attributes: one way for all signals, since one pool of gateways
/// writes them. What a signal says holds for those that say nothing; then what was recorded; then
/// JSON for a pipeline that an earlier release made, and Map.
///
/// # Errors
/// When two signals say different things, or something else than the tables were made with.
pub(super) fn attributes(pipeline: &TelemetryPipeline) -> Result<Attributes, Invalid> {
    let status = pipeline.status.as_ref();
    let recorded = status.and_then(|status| status.attributes);
    let mut said = pipeline.spec.signals.iter().filter_map(|(signal, is)| {
        let attributes = attributes_of(&is.table)?;
        Some((signal.as_str(), attributes))
    });
    let Some((first, asked)) = said.next() else {
        // Before it was recorded, JSON was what a pipeline got that said nothing.
        let is_earlier = status.is_some_and(|status| status.observed_generation.is_some());
        let default = if is_earlier { Attributes::Json } else { Attributes::Map };
        return Ok(recorded.unwrap_or(default));
    };
    if let Some((signal, other)) = said.find(|(_, other)| *other != asked) {
        return Err(Invalid::spec(format!(
            "spec.signals.{signal}.table.attributes: it would be {other}, and {first} is {asked}, \
             but one pool of gateways stores attributes one way; write the same for each signal",
            other = other.as_str(),
            asked = asked.as_str(),
        )));
    }
    match recorded.filter(|recorded| *recorded != asked) {
        None => Ok(asked),
        Some(recorded) => Err(Invalid::spec(format!(
            "spec.signals.{first}.table.attributes: the tables were made with {recorded}; write \
             that or nothing, or make a second pipeline with another tablePrefix",
            recorded = recorded.as_str(),
        ))),
    }
}

/// What a signal says; typed paths are JSON's.
fn attributes_of(table: &TableSettings) -> Option<Attributes> {
    let is_typed = !table.layout.typed_paths.is_empty();
    table.attributes.or(is_typed.then_some(Attributes::Json))
}

#[cfg(test)]
#[path = "../../../tests/unit/controllers/pipeline/validate.rs"]
mod tests;
