//! Compiled steps of redaction, sampling and enrichment.

use crate::edit::memory::Ref;
use crate::enrich::{OnConflict, PodAssociation};
use crate::ottl::context::StatementContext;
use crate::program::{Condition, Usage};
use crate::redact::Redactor;
use crate::sample::{MissingRandomness, RatioTable};

/// A step that redacts.
#[derive(Debug)]
pub(crate) struct RedactStep {
    pub(crate) redactor: Redactor,
    /// The position among the step's rules of blocked keys. Those before are detectors.
    pub(crate) blocked_rule: usize,
    /// The position of removed keys.
    pub(crate) removed_rule: usize,
}

/// The fields of objects that are redacted besides their attributes, as bits by number and shape,
/// and the context of the messages in them that have attributes of their own.
pub(crate) const REDACTED: [(StatementContext, [u64; 4]); 7] = [
    (StatementContext::Resource, [0; 4]),
    (StatementContext::Scope, [0; 4]),
    // Body, event name.
    (StatementContext::Log, [1 << 5 | 1 << 12, 0, 0, 0]),
    // Name, links, status.
    (StatementContext::Span, [1 << 5 | 1 << 13 | 1 << 15, 0, 0, 0]),
    // Name.
    (StatementContext::SpanEvent, [1 << 2, 0, 0, 0]),
    (StatementContext::Metric, [0; 4]),
    // Exemplars.
    (StatementContext::DataPoint, [1 << 5, 1 << 8, 1 << 11, 0]),
];

impl RedactStep {
    /// Returns the fields that redaction uses of a context's objects.
    pub(crate) fn usage(context: StatementContext, more: [u64; 4]) -> Usage {
        let mut usage = Usage::default();
        for (shape, more) in more.into_iter().enumerate() {
            usage.note_fields(context, shape, more | 1 << context.attributes(shape));
        }
        usage.fields[context.index()].is_written = true;
        usage
    }
}

/// A step that samples the records of one signal.
#[derive(Debug)]
pub(crate) struct SampleStep {
    pub(crate) table: RatioTable,
    /// By rule. Absent: the rule has none, or has one that no record of this signal meets.
    pub(crate) conditions: Vec<Option<Condition>>,
    pub(crate) missing: MissingRandomness,
    /// The attribute of log records that is hashed.
    pub(crate) hashed_attribute: Option<Ref>,
    pub(crate) seed: u64,
    pub(crate) keys: SampleKeys,
}

/// The keys of attributes that sampling reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleKeys {
    pub(crate) threshold: Ref,
    pub(crate) randomness: Ref,
    pub(crate) service: Ref,
    /// In order of precedence.
    pub(crate) namespaces: [Ref; 2],
}

impl SampleStep {
    /// Adds the fields that sampling uses besides those of conditions.
    pub(crate) fn note_usage(&self, context: StatementContext, usage: &mut Usage) {
        let bits = match context {
            // Trace id, trace state.
            StatementContext::Span => 1 << 1 | 1 << 3,
            // Attributes, trace id.
            _ => 1 << 6 | 1 << 9,
        };
        if self.table.needs_randomness() {
            usage.note_fields(context, 0, bits);
            usage.fields[context.index()].is_written = true;
        }
        if self.table.reads_resources() {
            let resource = StatementContext::Resource;
            usage.note_fields(resource, 0, 1 << resource.attributes(0));
        }
    }
}

/// A step that labels resources with their pods' metadata.
#[derive(Debug)]
pub(crate) struct EnrichStep {
    pub(crate) association: Vec<PodAssociation>,
    pub(crate) on_conflict: OnConflict,
    pub(crate) keys: PodKeys,
}

/// The keys of attributes by which resources state their pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodKeys {
    pub(crate) uid: Ref,
    pub(crate) ip: Ref,
    pub(crate) namespace: Ref,
    pub(crate) name: Ref,
}

impl EnrichStep {
    /// Returns the fields that enrichment uses: the attributes of resources.
    pub(crate) fn usage() -> Usage {
        let resource = StatementContext::Resource;
        let mut usage = Usage::default();
        usage.note_fields(resource, 0, 1 << resource.attributes(0));
        usage.fields[resource.index()].is_written = true;
        usage
    }
}
