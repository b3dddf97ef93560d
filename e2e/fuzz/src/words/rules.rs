//! Rules: any text compiles or is explained, and compiled rules run over any bytes.
//!
//! Of `text`, the first byte chooses the context, and whether the rest is a statement or a
//! condition. Of the others, it chooses the rules and the limit of the result; the rest is the
//! request.

use std::sync::LazyLock;

use millrace_processing::redact::RedactConfig;
use millrace_processing::{
    Config, ContextName, Counts, DropConditions, ErrorMode, Outcome, ProcessError, RuleSet,
    Scratch, Step,
};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::check_request;

use crate::reuse::Kept;

/// Statements by signal. They read and write every kind of value, and higher contexts.
const STATEMENTS: [(Signal, ContextName, &[&str]); 8] = [
    (
        Signal::Logs,
        ContextName::Log,
        &[
            "set(attributes[\"new\"], attributes[\"a\"]) where attributes[\"a\"] != nil",
            "delete_key(attributes, \"a\")",
            "set(resource.attributes[\"last\"], body)",
            "replace_pattern(body, \"[a-m]+\", \"<$$0>\") where IsString(body)",
        ],
    ),
    (
        Signal::Logs,
        ContextName::Log,
        &[
            "merge_maps(attributes, ParseJSON(body), \"upsert\") where IsString(body)",
            "flatten(attributes)",
            "truncate_all(attributes, 3)",
            "limit(attributes, 2, [])",
        ],
    ),
    (
        Signal::Traces,
        ContextName::Span,
        &[
            "keep_matching_keys(attributes, \"^[a-m]\")",
            "set(name, Concat([name, attributes[\"b\"]], \"-\"))",
            "set(status.message, \"x\") where kind == SPAN_KIND_SERVER",
        ],
    ),
    (Signal::Traces, ContextName::SpanEvent, &["set(attributes[\"e\"], name)", "set(name, \"\")"]),
    (Signal::Traces, ContextName::Scope, &["set(name, \"scope\")", "set(attributes[\"s\"], [1])"]),
    (
        Signal::Metrics,
        ContextName::DataPoint,
        &["set(attributes[\"m\"], metric.name)", "delete_matching_keys(attributes, \"a\")"],
    ),
    (Signal::Metrics, ContextName::Metric, &["set(name, \"n\")", "set(unit, description)"]),
    (Signal::Metrics, ContextName::Resource, &["keep_keys(attributes, [\"a\"])"]),
];

/// A set of rules with the signal that it is for.
static SETS: LazyLock<Vec<(Signal, RuleSet)>> = LazyLock::new(|| {
    let mut sets = Vec::new();
    for (signal, context, statements) in STATEMENTS {
        for error_mode in [ErrorMode::Ignore, ErrorMode::Propagate] {
            let step = Step {
                name: "edit".to_owned(),
                context: Some(context),
                error_mode,
                statements: statements.iter().map(|&text| text.to_owned()).collect(),
                ..Step::default()
            };
            sets.extend(compiled(vec![step.clone()]).map(|set| (signal, set)));
            sets.extend(compiled(vec![dropping(), step]).map(|set| (signal, set)));
        }
    }
    for signal in Signal::ALL {
        let mut steps = vec![redacting()];
        if signal != Signal::Metrics {
            steps.push(sampling());
        }
        sets.extend(compiled(steps).map(|set| (signal, set)));
    }
    assert_eq!(sets.len(), STATEMENTS.len() * 4 + 3, "rules of a target don't compile");
    sets
});

thread_local! {
    static SCRATCH: Kept<Scratch> = const { Kept::none() };
}

fn compiled(steps: Vec<Step>) -> Option<RuleSet> {
    RuleSet::compile(&Config { steps }).ok()
}

fn dropping() -> Step {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    let drop = DropConditions {
        resources: texts(&["attributes[\"b\"] == true"]),
        logs: texts(&["severity_number < 9", "IsMatch(body, \"^a\")"]),
        spans: texts(&["kind == 1"]),
        span_events: texts(&["name == \"\""]),
        metrics: texts(&["name == \"a\""]),
        data_points: texts(&["attributes[\"a\"] != nil"]),
        ..DropConditions::default()
    };
    Step { name: "drop".to_owned(), drop: Some(drop), ..Step::default() }
}

/// All ready sets.
fn redacting() -> Step {
    let redact = Some(Box::new(RedactConfig::default()));
    Step { name: "redact".to_owned(), redact, ..Step::default() }
}

/// Half of all.
fn sampling() -> Step {
    let sample = serde_json::from_str("{\"ratio\": 0.5}").ok();
    Step { name: "sample".to_owned(), sample, ..Step::default() }
}

/// A statement or condition.
pub fn text(data: &[u8]) {
    let Some((&control, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let contexts = [
        (b'R', ContextName::Resource),
        (b'S', ContextName::Scope),
        (b'L', ContextName::Log),
        (b'T', ContextName::Span),
        (b'E', ContextName::SpanEvent),
        (b'M', ContextName::Metric),
        (b'D', ContextName::DataPoint),
    ];
    let letter = control.to_ascii_uppercase();
    let context = contexts.iter().find(|(name, _)| *name == letter).map(|(_, context)| *context);
    let mut step = Step { name: "a".to_owned(), ..Step::default() };
    if control.is_ascii_lowercase() {
        let drop = |list: &[ContextName]| match context.is_some_and(|it| list.contains(&it)) {
            true => vec![text.to_owned()],
            false => Vec::new(),
        };
        step.drop = Some(DropConditions {
            resources: drop(&[ContextName::Resource]),
            scopes: drop(&[ContextName::Scope]),
            logs: drop(&[ContextName::Log]),
            spans: drop(&[ContextName::Span]),
            span_events: drop(&[ContextName::SpanEvent]),
            metrics: drop(&[ContextName::Metric]),
            data_points: drop(&[ContextName::DataPoint]),
        });
    } else {
        step.context = context;
        step.statements = vec![text.to_owned()];
    }
    match RuleSet::compile(&Config { steps: vec![step] }) {
        Ok(set) => assert_eq!(set.rules().len(), 1, "one text is one rule"),
        Err(errors) => {
            assert!(!errors.0.is_empty(), "refused without a reason");
            for error in errors.0 {
                assert!(!error.message.is_empty());
                let line = text.split('\n').nth(error.line.saturating_sub(1));
                let width = line.map_or(0, |line| line.chars().count());
                assert!(error.column <= width + 1, "column {} of {width}: {error}", error.column);
            }
        }
    }
}

/// A span request.
pub fn traces(data: &[u8]) {
    run(Signal::Traces, data);
}

/// A log request.
pub fn logs(data: &[u8]) {
    run(Signal::Logs, data);
}

/// A metric request.
pub fn metrics(data: &[u8]) {
    run(Signal::Metrics, data);
}

fn run(signal: Signal, data: &[u8]) {
    let Some((&control, request)) = data.split_first() else { return };
    let sets: Vec<&RuleSet> =
        SETS.iter().filter(|(of, _)| *of == signal).map(|(_, set)| set).collect();
    let set = sets[usize::from(control >> 1) % sets.len()];
    let limit_bytes = if control & 1 == 0 { 1 << 20 } else { request.len() + 20 };
    let mut scratch = SCRATCH.with(Kept::take).unwrap_or_default();
    let mut counts = Counts::new(set.rules().len());
    let outcome = set.run(signal, request, limit_bytes, &mut scratch, &mut counts, &mut Vec::new());
    SCRATCH.with(|kept| kept.put(scratch));
    let mut others = Counts::new(set.rules().len());
    let again = set.run(
        signal,
        request,
        limit_bytes,
        &mut Scratch::default(),
        &mut others,
        &mut Vec::new(),
    );
    assert_eq!((&outcome, &counts), (&again, &others), "a run depends on those before it");
    let Ok(checked) = check_request(signal, request, &WireLimits::default()) else { return };
    let dropped: u64 = counts.rules.iter().map(|rule| rule.dropped_records).sum();
    let left = match &outcome {
        Ok(Outcome::Unchanged) => checked.records,
        Ok(Outcome::Emptied) => 0,
        Ok(Outcome::Changed(bytes)) => {
            let longest = limit_bytes.max(request.len());
            assert!(bytes.len() <= longest, "{} bytes of {longest}", bytes.len());
            let result = check_request(signal, bytes, &WireLimits::default());
            assert!(result.is_ok(), "the result fails the check: {result:?}");
            result.map_or(0, |checked| checked.records)
        }
        Err(ProcessError::Malformed(kind)) => {
            panic_on_malformed(&kind.to_string());
            return;
        }
        Err(_) => return,
    };
    assert_eq!(left + dropped, checked.records, "records that are neither left nor dropped");
}

#[track_caller]
fn panic_on_malformed(kind: &str) {
    assert!(kind.is_empty(), "a checked request is malformed: {kind}");
}
