//! Converts the probabilistic sampler to a sample step.

use millrace_crds::v1alpha1::{
    LogRandomness, MissingRandomness, ProcessingStep, SampleMode, SampleRatio, SampleStep, Signal,
};

use super::RuleProcessor;
use super::step::{processed_signal, step_path};
use crate::account::Fate;
use crate::advice;
use crate::tree::Node;
use crate::work::Work;

/// How the processor's own hash differs.
const BY_TRACE_ID: &str = "consistent by trace id and tracestate, not by the processor's own hash: \
                           other records are retained, in the same number";
/// The most digits of thresholds.
const PRECISION_MAX: u8 = 14;
/// Maximum length of an attribute's key.
const KEY_CHARACTERS_MAX: usize = 256;

pub(super) fn convert(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let text = |name: &str| node.get(name).and_then(|it| it.plain_text());
    let mut fields = work.account.open_block(node, Fate::unsupported("it drops all records"));
    let percentage = fields.take_field("sampling_percentage");
    let Some(percentage) = percentage else {
        return work.account.account_remaining(fields, |_| {
            Fate::unsupported("without sampling_percentage it drops all records")
        });
    };
    let number = percentage.plain_text().and_then(|text| text.parse::<f64>().ok());
    let Some(number) = number.filter(|number| number.is_finite() && *number >= 0.0) else {
        work.account.unsupported(&percentage, "write sample.ratio, a number from 0 to 1");
        return work
            .account
            .account_remaining(fields, |_| Fate::not_needed("the ratio isn't carried over"));
    };
    let mut step = processor.new_step(work, "");
    let sampled = [Signal::Traces, Signal::Logs];
    let used: Vec<Signal> = sampled.into_iter().filter(|it| processor.handles(*it)).collect();
    if used.len() == 1 {
        step.signals = used.iter().map(|signal| processed_signal(*signal)).collect();
    }
    let is_legacy = text("mode").as_deref() == Some("hash_seed") || node.get("hash_seed").is_some();
    let path = format!("{}.sample", step_path(&step.name));
    // Ratios of hundredths would otherwise have digits that nobody wrote.
    let ratio = ((number / 100.0).min(1.0) * 1e12).round() / 1e12;
    let mut sample = SampleStep {
        ratio: SampleRatio(ratio),
        // The processor's default.
        missing_randomness: MissingRandomness::Drop,
        ..SampleStep::default()
    };
    let ratio_but = is_legacy.then_some(BY_TRACE_ID);
    let ratio_fate = processor.carried(format!("{path}.ratio"), ratio_but);
    let mut entries = vec![(percentage, ratio_fate)];
    for name in ["mode", "fail_closed", "sampling_precision", "from_attribute", "attribute_source"]
    {
        let Some(field) = fields.take_field(name) else { continue };
        let fate = set_field(&mut sample, name, &field, &path);
        entries.push((field, fate));
    }
    match processor.push_step(work, ProcessingStep { sample: Some(sample), ..step }) {
        Ok(()) => entries.into_iter().for_each(|(it, fate)| work.account.add_entry(&it, fate)),
        Err(why) => entries.iter().for_each(|(it, _)| work.account.unsupported(it, &*why)),
    }
    work.account.account_remaining(fields, |name| match name {
        "hash_seed" => Fate::not_needed("trace ids are random by themselves"),
        "sampling_priority" => {
            Fate::unsupported("write a condition on the attribute in sample.keep")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

/// Sets a field of the step; returns what becomes of the processor's.
fn set_field(sample: &mut SampleStep, name: &str, field: &Node<'_>, path: &str) -> Fate {
    let text = field.plain_text().unwrap_or_default();
    match (name, &*text) {
        ("mode", "equalizing") => {
            sample.mode = SampleMode::Equalizing;
            Fate::carried(format!("{path}.mode"))
        }
        ("mode", "proportional" | "") => Fate::not_needed("it is the default"),
        ("mode", "hash_seed") => Fate::unsupported(BY_TRACE_ID),
        ("fail_closed", "true") => Fate::carried(format!("{path}.missingRandomness")),
        ("fail_closed", "false") => {
            sample.missing_randomness = MissingRandomness::Keep;
            Fate::not_needed("it is the default")
        }
        ("sampling_precision", digits) => {
            let digits = digits.parse().ok().filter(|it| (1..=PRECISION_MAX).contains(it));
            match digits {
                Some(digits) => {
                    sample.precision = Some(digits);
                    Fate::carried(format!("{path}.precision"))
                }
                None => Fate::unsupported("write sample.precision, 1 to 14"),
            }
        }
        ("from_attribute", key) if !key.is_empty() && key.chars().count() <= KEY_CHARACTERS_MAX => {
            sample.logs.get_or_insert_with(LogRandomness::default).attribute = Some(key.to_owned());
            Fate::carried(format!("{path}.logs.attribute"))
        }
        ("attribute_source", "traceID" | "") => Fate::not_needed("it is the default"),
        ("attribute_source", "record") => {
            Fate::unsupported("records with a trace id are sampled by it, so traces stay complete")
        }
        _ => Fate::unsupported(advice::UNKNOWN),
    }
}
