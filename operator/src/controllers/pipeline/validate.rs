//! Translates a pipeline's spec to checked values. Pure: no client. A child's own controller checks
//! what only a child can (its configuration, its Secrets).

use millrace_crds::EdgeName;
use millrace_crds::v1alpha1::{Attributes, PipelineEdge, Signal, TelemetryPipeline};
use millrace_rule_settings::pool_steps;

use crate::error::Invalid;
use crate::pool::names::{PoolNames, Role};

/// A pipeline whose children can be named.
#[derive(Clone, Debug)]
pub(super) struct Validated<'a> {
    pub(super) pipeline: &'a TelemetryPipeline,
    /// The name of the gateway pool and the schema: the pipeline's own.
    pub(super) name: &'a str,
    /// The attribute storage of all tables.
    pub(super) attributes: Attributes,
    /// The edge pools, each with the pipeline's steps before its own.
    pub(super) edges: Vec<PipelineEdge>,
}

impl Validated<'_> {
    /// Returns the name of an EdgePool.
    pub(super) fn edge_name(&self, edge: &EdgeName) -> String {
        format!("{}-{edge}", self.name)
    }

    /// Returns the name of a signal's TelemetryTopic.
    pub(super) fn topic_name(&self, signal: Signal) -> String {
        format!("{}-{}", self.name, signal.as_str())
    }

    /// Returns the name of the TelemetryTopic of a signal's dead letters.
    pub(super) fn dead_letter_name(&self, signal: Signal) -> String {
        format!("{}-dead-letter", self.topic_name(signal))
    }
}

/// Checks that every child can be named after the pipeline, and that its tables can be as declared.
///
/// # Errors
/// When the pipeline's name is too long for its pools' suffixes, attributes would have two storage
/// layouts, or another one than before, or a pool's steps don't fit after the pipeline's.
pub(super) fn validate_pipeline(pipeline: &TelemetryPipeline) -> Result<Validated<'_>, Invalid> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    PoolNames::new(namespace, name, Role::Gateway)?;
    let attributes = resolve_attributes(pipeline)?;
    let edges = pipeline.spec.edge_pools().into_iter();
    let edges = edges.map(|edge| with_pipeline_steps(pipeline, edge));
    let edges = edges.collect::<Result<Vec<_>, _>>()?;
    let validated = Validated { pipeline, name, attributes, edges };
    for edge in &validated.edges {
        PoolNames::new(namespace, &validated.edge_name(&edge.name), Role::Edge)?;
    }
    Ok(validated)
}

/// Returns what names the topics and the schema of a pipeline that is being deleted; `None` if they
/// can't be named, so that none exists. Other mistakes don't matter any more: children of an
/// earlier spec exist.
pub(super) fn validate_deletion(pipeline: &TelemetryPipeline) -> Option<Validated<'_>> {
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    PoolNames::new(namespace, name, Role::Gateway).ok()?;
    let recorded = pipeline.status.as_ref().and_then(|status| status.attributes);
    let attributes = recorded.or_else(|| resolve_attributes(pipeline).ok()).unwrap_or_default();
    Some(Validated { pipeline, name, attributes, edges: Vec::new() })
}

/// Returns an edge pool with all steps that it runs.
fn with_pipeline_steps(
    pipeline: &TelemetryPipeline,
    mut edge: PipelineEdge,
) -> Result<PipelineEdge, Invalid> {
    let own = &edge.settings.processing;
    edge.settings.processing = pool_steps(&pipeline.spec.processing, own).map_err(|error| {
        Invalid::spec_invalid(format!("spec.edges[{}].processing: {error}", edge.name))
    })?;
    Ok(edge)
}

/// Returns the attribute storage of a pipeline's tables: one for all signals, since one pool of
/// gateways writes them. A signal's declaration also applies to signals without one, and overrides
/// the defaults'. Without any, the recorded storage applies, else the default.
///
/// # Errors
/// When two signals differ, or differ from the existing tables. The API server refuses both first,
/// except for tables whose storage was another release's default.
pub(super) fn resolve_attributes(pipeline: &TelemetryPipeline) -> Result<Attributes, Invalid> {
    let recorded = pipeline.status.as_ref().and_then(|status| status.attributes);
    let signals = &pipeline.spec.signals;
    let of_signals = signals.iter().map(|(signal, is)| (signal.as_str(), &is.table));
    let mut declared = of_signals
        .chain([("defaults", &signals.defaults.table)])
        .filter_map(|(of, table)| Some((of, table.attributes?)));
    let Some((first, attributes)) = declared.next() else {
        return Ok(recorded.unwrap_or_default());
    };
    let another = |(of, other): &(&str, Attributes)| *of != "defaults" && *other != attributes;
    if let Some((signal, other)) = declared.find(another) {
        return Err(Invalid::spec_invalid(format!(
            "spec.signals.{signal}.table.attributes: it would be {other}, and {first} is {first_is}, \
             but one pool of gateways writes one type of attributes; write the same for each signal",
            other = other.as_str(),
            first_is = attributes.as_str(),
        )));
    }
    match recorded.filter(|recorded| *recorded != attributes) {
        None => Ok(attributes),
        Some(recorded) => Err(Invalid::spec_invalid(format!(
            "spec.signals.{first}.table.attributes: the tables were created with {recorded}; write \
             that or nothing, or create a second pipeline with another tablePrefix",
            recorded = recorded.as_str(),
        ))),
    }
}

#[cfg(test)]
mod tests;
