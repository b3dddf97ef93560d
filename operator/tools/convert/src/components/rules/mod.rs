//! Converts processors that edit, drop, redact, sample or enrich records to steps of
//! `spec.processing`.
//! Each statement is compiled as the operator does; the ones that don't compile are left, with the
//! reason. Fields as of contrib 0.15x.

mod actions;
mod conditions;
mod filter;
mod order;
mod pods;
mod redaction;
mod sampler;
mod step;
mod transform;

use millrace_crds::v1alpha1::Signal;

use crate::account::Fate;
use crate::service::{ServiceSection, type_of};
use crate::tree::Node;
use crate::work::Work;

pub(crate) use order::{differing_pipelines, order_steps};

/// A processor to convert.
struct RuleProcessor<'a> {
    /// Its id in the file.
    id: &'a str,
    /// The signals of carried pipelines that use it.
    signals: &'a [Signal],
    /// How its steps differ in which records they see, if they do.
    but: Option<String>,
}

/// Whether a processor handles records of clients: those of log files have their pods' metadata
/// from the file's path, and those of targets from relabeling.
fn has_clients(service: &ServiceSection<'_>, id: &str) -> bool {
    service.has_receiver(id, |kind| !["filelog", "prometheus"].contains(&kind))
}

/// Converts a processor, if it is one of these. Returns false if none of its rules is carried
/// over; `None` if it is another processor.
pub(crate) fn convert_rules(
    work: &mut Work,
    node: &Node<'_>,
    id: &str,
    signals: &[Signal],
    service: &ServiceSection<'_>,
) -> Option<bool> {
    type Convert = fn(&mut Work, &Node<'_>, &RuleProcessor<'_>);
    let convert: Convert = match &*type_of(id) {
        "transform" => transform::convert,
        "filter" => filter::convert,
        "attributes" => actions::convert_attributes,
        "resource" => actions::convert_resource,
        "redaction" => redaction::convert,
        "probabilisticsampler" => sampler::convert,
        "k8sattributes" if has_clients(service, id) => pods::convert,
        _ => return None,
    };
    let processor = RuleProcessor { id, signals, but: service.wider_use(id) };
    let (steps, entries) = (work.draft.steps.len(), work.account.entries.len());
    convert(work, node, &processor);
    let mut added = work.account.entries.iter().skip(entries);
    // A processor without rules has nothing to carry over.
    let is_complete = !added.any(|entry| matches!(entry.fate, Fate::Left { .. }));
    Some(is_complete || work.draft.steps.len() > steps)
}
