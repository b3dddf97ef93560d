//! Explains rules on samples: each record before and after, step by step, and which rules did it.
//! For `rules test` of the collector and the plugin; not made for throughput.
//!
//! Each record runs alone, with its resource and scope. So a record doesn't
//! see the changes that an earlier one made to their resource; in a request it does.

mod render;
mod sample;

use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::json;
use millrace_wire::{Signal, WireError, otlp};
use serde_json::Value;

use crate::{
    CompileErrors, Config, Counts, Outcome, ProcessError, RuleCounts, RuleSet, Scratch, Step,
};

pub use render::{render_json, render_text};

/// The most records of a sample: output for people.
pub const RECORDS_MAX: usize = 10_000;

/// The longest record before and after rules: 1 MiB, as Kafka's messages.
const RECORD_BYTES: usize = 1 << 20;

/// Why samples can't be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The rules don't compile.
    #[error(transparent)]
    Rules(#[from] CompileErrors),
    /// The text isn't JSON.
    #[error("the records are not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A document isn't a request.
    #[error(
        "document {0} is not an OTLP request: it has none of resourceSpans, resourceLogs and \
         resourceMetrics"
    )]
    NotOtlp(usize),
    /// Too many records.
    #[error("more than {RECORDS_MAX} records")]
    TooMany,
    /// A record isn't OTLP in JSON.
    #[error("record {record}: {message}")]
    Record {
        /// Its number, from 1.
        record: usize,
        /// What is wrong.
        message: String,
    },
}

/// A record, and what became of it.
#[derive(Clone, Debug)]
pub struct RecordTrace {
    /// Its signal.
    pub signal: Signal,
    /// The request with this record alone, as OTLP in JSON.
    pub before: Value,
    /// The steps that applied to it, in order, up to the one that dropped or refused it.
    pub steps: Vec<StepTrace>,
    /// The request after all steps; `None` if it was dropped or refused.
    pub after: Option<Value>,
}

/// What one step did to a record.
#[derive(Clone, Debug)]
pub struct StepTrace {
    /// The step's name.
    pub step: String,
    /// Its rules that applied, and what they did.
    pub rules: Vec<RuleTrace>,
    /// What became of the record.
    pub outcome: StepOutcome,
}

/// What one rule did to a record.
#[derive(Clone, Debug)]
pub struct RuleTrace {
    /// The rule, such as `statements[0]`.
    pub rule: String,
    /// Its text.
    pub text: String,
    /// Its counters.
    pub counts: RuleCounts,
}

/// What became of a record in a step.
#[derive(Clone, Debug)]
pub enum StepOutcome {
    /// It is the same.
    Unchanged,
    /// The request with it is this now.
    Changed(Value),
    /// It was dropped.
    Dropped,
    /// It goes to this topic, and no later step applies to it.
    Routed(String),
    /// Its request is refused, because a rule failed.
    Refused(String),
    /// The step can't run on samples, for this reason.
    NotRun(&'static str),
}

/// Why a step that adds pods' metadata doesn't run on samples.
const NEEDS_PODS: &str = "not run on samples: metadata of pods is known in a cluster alone";

/// A step with its compiled rules.
struct SampleStep {
    name: String,
    set: RuleSet,
    needs_pods: bool,
}

/// Runs rules on the records of a text: one OTLP request in JSON, or several one after the other.
///
/// # Errors
/// If the rules don't compile, or the text holds something else than OTLP in JSON.
pub fn trace_records(config: &Config, text: &str) -> Result<Vec<RecordTrace>, TraceError> {
    // All at once first, for what one step alone doesn't show, such as equal names.
    RuleSet::compile_without_secrets(config)?;
    let compile = |step: &Step| {
        let set = RuleSet::compile_without_secrets(&Config { steps: vec![step.clone()] })?;
        Ok::<_, CompileErrors>(SampleStep {
            name: step.name.clone(),
            set,
            needs_pods: step.enrich.is_some(),
        })
    };
    let steps = config.steps.iter().map(compile).collect::<Result<Vec<_>, _>>()?;
    let mut traces = Vec::new();
    for (signal, request) in sample::split_records(text)? {
        let number = traces.len() + 1;
        let trace = trace_record(&steps, signal, &request)
            .map_err(|message| TraceError::Record { record: number, message })?;
        traces.push(trace);
    }
    Ok(traces)
}

fn trace_record(
    sample_steps: &[SampleStep],
    signal: Signal,
    request: &Value,
) -> Result<RecordTrace, String> {
    let mut bytes = Vec::new();
    json::transcode_request(signal, request.to_string().as_bytes(), RECORD_BYTES, &mut bytes)
        .map_err(|error| error.to_string())?;
    otlp::check_request(signal, &bytes, &WireLimits::default())
        .map_err(|error| error.to_string())?;
    let before = print(signal, &bytes)?;
    let (mut steps, mut after) = (Vec::new(), Some(before.clone()));
    for SampleStep { name, set, needs_pods } in sample_steps {
        if *needs_pods && set.applies_to(signal) {
            let outcome = StepOutcome::NotRun(NEEDS_PODS);
            steps.push(StepTrace { step: name.clone(), rules: Vec::new(), outcome });
            continue;
        }
        let mut counts = Counts::new(set.rules().len());
        let (mut scratch, mut routed) = (Scratch::default(), Vec::new());
        let result = set.run(signal, &bytes, RECORD_BYTES, &mut scratch, &mut counts, &mut routed);
        let outcome = match result {
            Ok(Outcome::Unchanged) => StepOutcome::Unchanged,
            Ok(Outcome::Changed(changed)) => {
                bytes = changed;
                let now = print(signal, &bytes)?;
                after = Some(now.clone());
                StepOutcome::Changed(now)
            }
            Ok(Outcome::Emptied) => match (routed.pop(), set.route_topics()) {
                (Some(_), [to]) => StepOutcome::Routed(to.topic.clone()),
                _ => StepOutcome::Dropped,
            },
            Err(error) => {
                note_rejection(&mut counts, error);
                StepOutcome::Refused(error.to_string())
            }
        };
        let rules: Vec<RuleTrace> = applied_rules(set, &counts);
        let is_end = !matches!(outcome, StepOutcome::Unchanged | StepOutcome::Changed(_));
        if is_end {
            after = None;
        }
        if is_end || !rules.is_empty() {
            steps.push(StepTrace { step: name.clone(), rules, outcome });
        }
        if is_end {
            break;
        }
    }
    Ok(RecordTrace { signal, before, steps, after })
}

/// Makes the failure visible that refused the request.
fn note_rejection(counts: &mut Counts, error: ProcessError) {
    if let ProcessError::Rejected { rule, error } = error
        && let Some(count) = counts.rules.get_mut(rule)
    {
        count.failed = count.failed.max(1);
        count.last_error = Some(error);
    }
}

fn applied_rules(set: &RuleSet, counts: &Counts) -> Vec<RuleTrace> {
    let pairs = set.rules().iter().zip(&counts.rules);
    let applied = pairs.filter(|(_, counts)| {
        let RuleCounts { matched, changed, dropped, failed, .. } = counts;
        matched + changed + dropped + failed > 0
    });
    applied
        .map(|(rule, counts)| RuleTrace {
            rule: format!("{}[{}]", rule.list, rule.index),
            text: rule.text.clone(),
            counts: *counts,
        })
        .collect()
}

fn print(signal: Signal, bytes: &[u8]) -> Result<Value, String> {
    let text = json::print_request(signal, bytes, &WireLimits::default())
        .map_err(|error: Box<WireError>| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}
