//! The answers of the Collector's own transform and filter processors to the same statements and
//! records (`e2e/ottl`), field by field. `MILLRACE_OTTL_CASES` names a file with other cases.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millrace_processing::{
    Config, Counts, DropConditions, ErrorMode, Outcome, ProcessError, RuleSet, Scratch, Step,
};
use millrace_wire::Signal;
use millrace_wire::decompress::{ContentEncoding, Decompressor};
use prost::Message;
use regex::Regex;
use serde::Deserialize;

use crate::requests::LIMIT_BYTES;
use crate::tree::{normalized_logs, normalized_metrics, normalized_traces};

#[derive(Deserialize)]
struct Group {
    signal: String,
    request: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    context: String,
    #[serde(default)]
    error_mode: String,
    #[serde(default)]
    statements: Vec<String>,
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    note: String,
    answer: Answer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    error: String,
    #[serde(default)]
    refused: String,
    request: Option<String>,
    #[serde(default)]
    unchanged: bool,
    #[serde(default)]
    dropped: u64,
    #[serde(default)]
    failed: u64,
}

fn step(case: &Case) -> Step {
    let error_mode = match case.error_mode.as_str() {
        "silent" => ErrorMode::Silent,
        "propagate" => ErrorMode::Propagate,
        _ => ErrorMode::Ignore,
    };
    let mut step = Step { name: "step".to_owned(), error_mode, ..Step::default() };
    if !case.statements.is_empty() {
        step.statements = case.statements.clone();
        let context = (!case.context.is_empty()).then(|| format!("{:?}", case.context));
        step.context = context.map(|name| serde_json::from_str(&name).unwrap());
        return step;
    }
    let mut drop = DropConditions::default();
    let list = match case.context.as_str() {
        "resource" => &mut drop.resources,
        "scope" => &mut drop.scopes,
        "log" => &mut drop.logs,
        "span" => &mut drop.spans,
        "spanevent" => &mut drop.span_events,
        "metric" => &mut drop.metrics,
        _ => &mut drop.data_points,
    };
    list.clone_from(&case.conditions);
    step.drop = Some(drop);
    step
}

/// Returns how this crate's answer differs from the Collector's; empty if it doesn't.
fn difference(signal: Signal, request: &[u8], case: &Case) -> String {
    let answer = &case.answer;
    let rules = match RuleSet::compile(&Config { steps: vec![step(case)] }) {
        Ok(_) if !answer.error.is_empty() => return format!("compiles, not {}", answer.error),
        Ok(rules) => rules,
        Err(_) if !answer.error.is_empty() => return String::new(),
        Err(errors) => return format!("doesn't compile: {errors}"),
    };
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let outcome =
        rules.run(signal, request, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new());
    let output = match outcome {
        Err(ProcessError::Rejected { .. }) if !answer.refused.is_empty() => return String::new(),
        Err(error) => return format!("refused: {error}"),
        Ok(_) if !answer.refused.is_empty() => return format!("not refused: {}", answer.refused),
        Ok(Outcome::Unchanged) => request.to_vec(),
        Ok(Outcome::Changed(output)) => output,
        Ok(Outcome::Emptied) => Vec::new(),
    };
    let expected = match &answer.request {
        Some(expected) => STANDARD.decode(expected).unwrap(),
        None if answer.unchanged => request.to_vec(),
        None => Vec::new(),
    };
    let Some(expected) = normalized(signal, &expected) else {
        // The Collector cuts characters, and then sends strings that aren't UTF-8.
        return String::new();
    };
    let found = normalized(signal, &output).unwrap();
    let failed: u64 = counts.rules.iter().map(|rule| rule.failed).sum();
    let mut dropped: u64 = counts.rules.iter().map(|rule| rule.dropped_records).sum();
    if case.context == "spanevent" {
        dropped = counts.rules.iter().map(|rule| rule.dropped).sum();
    }
    if (dropped, failed) != (answer.dropped, answer.failed) {
        let error = counts.rules.iter().find_map(|rule| rule.last_error);
        let more = if answer.failed > failed { MORE_FAILED } else { "" };
        return format!(
            "dropped {dropped}, failed {failed} ({error:?}) instead of {}, {} {more}",
            answer.dropped, answer.failed
        );
    }
    if expected == found {
        return String::new();
    }
    let at = expected.bytes().zip(found.bytes()).take_while(|(one, other)| one == other).count();
    let part = |text: &str| {
        let start = at.saturating_sub(60);
        text.chars().skip(start).take(160).collect::<String>()
    };
    format!("\n  expected {}\n  found    {}", part(&expected), part(&found))
}

/// Returns a request as text, with its maps in the order of their keys.
fn normalized(signal: Signal, request: &[u8]) -> Option<String> {
    match signal {
        Signal::Logs => Message::decode(request).ok().map(normalized_logs),
        Signal::Traces => Message::decode(request).ok().map(normalized_traces),
        Signal::Metrics => Message::decode(request).ok().map(normalized_metrics),
    }
}

/// Notes of cases in which another answer may be chosen: see `e2e/ottl/cases.go`.
const NOTES: &[&str] = &["self", "list errors", "failed key", "multibyte glob", "duplicate keys"];

/// What rules refuse when they are compiled, by a part of the message.
const REFUSED: &[&str] = &[
    "unknown converter",
    "the pattern needs a named group",
    "duplicate capture group name",
    "the format has no year",
    "a fraction of a second follows",
    "unknown location",
    "%Z is not supported",
    "expected a string literal",
    "can't be applied to a replacement",
    "the format has %s once",
    "this field can't be changed",
    "has no field \"status\"",
    "has no field \"data_points\"",
    "a string has no line breaks",
    "vals: expected a list",
    "the string is not valid utf-8",
];

/// Other intended differences, by a part of the statement.
const INTENDED: &[&str] = &[
    // The Collector takes no calculation of literals as a key.
    "[1 + 1]",
    // The older name of scopes.
    "instrumentation_scope",
    // Numbers in Go's own notation.
    "0x1p4",
    "1_0",
    ":01}",
    // Lists of two origins are never equal there.
    "Split(\"a,b\", \",\")",
    // An alternative with a star only matches there at the end of the pattern.
    "{h*,x}o",
    // It has no type for these lists outside of data points.
    "bucket_counts",
];

/// Map literals with a path as a value, and list literals with one as an element.
const LITERALS_OF_PATHS: &str = concat!(
    r#"": ?[a-z.]*(attributes|cache|body|metadata)|"#,
    r"[(,= \[]\[[^\]]*(attributes|cache|body|metadata)",
);
/// Such a list that is appended, or matched as text.
const APPENDED_PATHS: &str = r"(append\(.*, |IsMatch\()\[[^\]]*(attributes|cache|body|metadata)";
/// Results of `Substring` on texts with characters of several bytes, or on those of records.
const SUBSTRINGS: &str = r#"Substring\(("[^"]*[^"\x00-\x7f]|[^"])"#;
/// A map that becomes a member of itself or of a map with the same records.
const MAPS_IN_THEMSELVES: &str =
    r"(set\([a-z.]*attributes\[.*\], |merge_maps\([a-z.]*attributes, )[a-z.]*attributes\b([^\[]|$)";
/// Part of a difference in which more statements failed in the Collector.
const MORE_FAILED: &str = "more failed there";

/// Known faults of the Collector, by the statements that have them.
struct Faults {
    literals: Regex,
    appended: Regex,
    substrings: Regex,
    maps: Regex,
}

impl Faults {
    fn new() -> Self {
        let compile = |pattern| Regex::new(pattern).unwrap();
        Self {
            literals: compile(LITERALS_OF_PATHS),
            appended: compile(APPENDED_PATHS),
            substrings: compile(SUBSTRINGS),
            maps: compile(MAPS_IN_THEMSELVES),
        }
    }

    fn explain(&self, case: &Case, difference: &str) -> bool {
        let matches = |pattern: &Regex| {
            case.statements.iter().chain(&case.conditions).any(|text| pattern.is_match(text))
        };
        let is_shared = matches!(case.context.as_str(), "resource" | "scope");
        matches(&self.appended)
            || matches(&self.substrings)
            || (is_literals_fault(difference) && matches(&self.literals))
            // It moves values out of a map that it copies into itself.
            || (is_shared && matches(&self.maps))
    }
}

/// Whether an answer may differ because a literal has a list or map of a record in it: there the
/// statement fails, or writes the list as `{}` or `null`.
fn is_literals_fault(difference: &str) -> bool {
    let expected = difference.lines().find(|line| line.starts_with("  expected"));
    match expected {
        Some(expected) => expected.contains("{}") || expected.contains("null"),
        None => difference.starts_with("not refused") || difference.contains(MORE_FAILED),
    }
}

fn is_listed(case: &Case, difference: &str) -> bool {
    let texts = || case.statements.iter().chain(&case.conditions);
    NOTES.contains(&case.note.as_str())
        || (difference.starts_with("doesn't compile")
            && REFUSED.iter().any(|refused| difference.contains(refused)))
        || INTENDED.iter().any(|part| texts().any(|text| text.contains(part)))
}

fn stored_cases() -> Vec<u8> {
    let packed = include_bytes!("data/ottl.jsonl.gz");
    let mut lines = Vec::new();
    Decompressor::new().decompress(ContentEncoding::Gzip, packed, 64 << 20, &mut lines).unwrap();
    lines
}

/// Scenario: stored and random statements and conditions, in every context and error mode.
/// Guarantee: the same records, failures and drops as in the Collector, but for cases in which its
/// answer is a known fault.
#[test]
fn answers_equal_the_collectors() {
    let lines = match std::env::var_os("MILLRACE_OTTL_CASES") {
        Some(path) => std::fs::read(path).unwrap(),
        None => stored_cases(),
    };
    let faults = Faults::new();
    let (mut cases, mut differences) = (0, Vec::new());
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let group: Group = serde_json::from_slice(line).unwrap();
        let signal: Signal = group.signal.parse().unwrap();
        let request = STANDARD.decode(&group.request).unwrap();
        for case in &group.cases {
            cases += 1;
            let difference = difference(signal, &request, case);
            let is_intended = is_listed(case, &difference) || faults.explain(case, &difference);
            if !difference.is_empty() && !is_intended {
                differences.push(format!(
                    "{} {:?} {:?} [{}] {difference}",
                    case.context, case.statements, case.conditions, case.note
                ));
            }
        }
    }
    assert!(cases > 1_000);
    assert_eq!(differences.len(), 0, "of {cases}:\n{}", differences.join("\n"));
}
