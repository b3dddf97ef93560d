//! Renders what rules did, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::{RecordTrace, RuleTrace, StepOutcome, StepTrace};

/// Returns one line for each rule that applied and each field that changed.
#[must_use]
pub fn render_text(traces: &[RecordTrace]) -> String {
    let mut text = String::new();
    let (mut changed, mut dropped, mut routed, mut refused) = (0, 0, 0, 0);
    for (index, trace) in traces.iter().enumerate() {
        let fate = match (&trace.after, trace.steps.last().map(|step| &step.outcome)) {
            (None, Some(StepOutcome::Refused(_))) => {
                refused += 1;
                "refused"
            }
            (None, Some(StepOutcome::Routed(_))) => {
                routed += 1;
                "routed"
            }
            (None, _) => {
                dropped += 1;
                "dropped"
            }
            (Some(after), _) if *after == trace.before => "unchanged",
            (Some(_), _) => {
                changed += 1;
                "changed"
            }
        };
        // Writing into a String can't fail.
        let _ = writeln!(text, "record {} ({}): {fate}", index + 1, trace.signal.as_str());
        let mut before = &trace.before;
        for step in &trace.steps {
            write_step(&mut text, step, before);
            if let StepOutcome::Changed(after) = &step.outcome {
                before = after;
            }
        }
    }
    let records = traces.len();
    let noun = if records == 1 { "record" } else { "records" };
    let _ =
        write!(text, "{records} {noun}: {changed} changed, {dropped} dropped, {refused} refused");
    if routed > 0 {
        let _ = write!(text, ", {routed} routed");
    }
    text
}

fn write_step(text: &mut String, step: &StepTrace, before: &Value) {
    let StepTrace { step, rules, outcome } = step;
    let _ = writeln!(text, "  step {step:?}");
    for rule in rules {
        let RuleTrace { rule, text: source, counts } = rule;
        let effect = effect_of(counts);
        let _ = writeln!(text, "    {rule} {effect}: {source}");
        if let Some(error) = counts.last_error {
            let _ = writeln!(text, "      {error}");
        }
    }
    match outcome {
        StepOutcome::Changed(after) => {
            for line in changed_fields(before, after) {
                let _ = writeln!(text, "    {line}");
            }
        }
        StepOutcome::Refused(message) => {
            let _ = writeln!(text, "    {message}");
        }
        StepOutcome::Routed(to) => {
            let _ = writeln!(text, "    to topic {to:?}");
        }
        StepOutcome::NotRun(reason) => {
            let _ = writeln!(text, "    {reason}");
        }
        StepOutcome::Unchanged | StepOutcome::Dropped => {}
    }
}

fn effect_of(counts: &crate::RuleCounts) -> &'static str {
    if counts.dropped + counts.dropped_records > 0 {
        "dropped"
    } else if counts.routed_records > 0 {
        "routed"
    } else if counts.changed > 0 {
        "changed"
    } else if counts.failed > 0 {
        "failed"
    } else {
        "matched"
    }
}

/// Returns the fields that differ: `-` before, `+` after.
fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(before, String::new(), &mut old);
    flatten(after, String::new(), &mut new);
    let mut lines = Vec::new();
    for (path, value) in &old {
        if new.get(path) != Some(value) {
            lines.push(format!("- {path}: {value}"));
        }
        if let Some(now) = new.get(path).filter(|now| *now != value) {
            lines.push(format!("+ {path}: {now}"));
        }
    }
    let added = new.iter().filter(|(path, _)| !old.contains_key(*path));
    lines.extend(added.map(|(path, value)| format!("+ {path}: {value}")));
    lines
}

/// Lists the values by their paths. Attributes are named by their keys, so that a removed one
/// doesn't move those behind it.
fn flatten(value: &Value, path: String, out: &mut BTreeMap<String, String>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(value, below(name), out);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                match (item.get("key").and_then(Value::as_str), item.get("value")) {
                    (Some(key), Some(value)) => flatten(value, format!("{path}[{key:?}]"), out),
                    _ if items.len() == 1 => flatten(item, path.clone(), out),
                    _ => flatten(item, format!("{path}[{index}]"), out),
                }
            }
        }
        scalar => {
            out.insert(path, scalar.to_string());
        }
    }
}

/// Returns a list with an object for each record.
#[must_use]
pub fn render_json(traces: &[RecordTrace]) -> String {
    let records: Vec<Value> = traces
        .iter()
        .map(|trace| {
            let RecordTrace { signal, before, steps, after } = trace;
            let steps: Vec<Value> = steps.iter().map(step_json).collect();
            json!({"signal": signal.as_str(), "before": before, "steps": steps, "after": after})
        })
        .collect();
    Value::Array(records).to_string()
}

fn step_json(step: &StepTrace) -> Value {
    let StepTrace { step, rules, outcome } = step;
    let rules: Vec<Value> = rules
        .iter()
        .map(|RuleTrace { rule, text, counts }| {
            json!({
                "rule": rule,
                "text": text,
                "effect": effect_of(counts),
                "error": counts.last_error.map(|error| error.to_string()),
            })
        })
        .collect();
    let mut trace = json!({
        "step": step, "rules": rules, "outcome": "unchanged", "after": null, "message": null,
    });
    match outcome {
        StepOutcome::Unchanged => {}
        StepOutcome::Changed(after) => {
            trace["outcome"] = "changed".into();
            trace["after"] = after.clone();
        }
        StepOutcome::Dropped => trace["outcome"] = "dropped".into(),
        StepOutcome::Routed(to) => {
            trace["outcome"] = "routed".into();
            trace["topic"] = to.as_str().into();
        }
        StepOutcome::NotRun(reason) => {
            trace["outcome"] = "not_run".into();
            trace["message"] = (*reason).into();
        }
        StepOutcome::Refused(message) => {
            trace["outcome"] = "refused".into();
            trace["message"] = message.as_str().into();
        }
    }
    trace
}
