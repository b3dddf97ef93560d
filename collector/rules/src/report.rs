//! Renders the rules of a process and what they did: `/rules`, as JSON. Pure.

use millrace_processing::Rule;
use millrace_wire::Signal;
use serde_json::{Map, Value, json};

use crate::metrics::{RuleMetrics, rule_label};

/// Returns the document. It has an entry for each rule, with the signals to whose records it has
/// applied so far.
pub(crate) fn render_json(rules: &[Rule], metrics: &RuleMetrics) -> String {
    let rules: Vec<Value> = rules
        .iter()
        .enumerate()
        .map(|(index, rule)| {
            let counts: Map<String, Value> = Signal::ALL
                .into_iter()
                .filter_map(|signal| {
                    let counters = metrics.signal(signal).rules.get(index)?.get()?;
                    let counts = json!({
                        "matched": counters.matched.get(),
                        "changed": counters.changed.get(),
                        "droppedRecords": counters.dropped.get(),
                        "routedRecords": counters.routed.get(),
                        "failed": counters.failed.get(),
                    });
                    Some((signal.as_str().to_owned(), counts))
                })
                .collect();
            json!({
                "step": rule.step, "rule": rule_label(rule), "text": rule.text, "signals": counts,
            })
        })
        .collect();
    let signals: Map<String, Value> = Signal::ALL
        .into_iter()
        .map(|signal| {
            let metrics = metrics.signal(signal);
            let sums =
                json!({"seconds": metrics.seconds.get(), "overLimit": metrics.over_limit.get()});
            (signal.as_str().to_owned(), sums)
        })
        .collect();
    format!("{}\n", json!({"rules": rules, "signals": signals}))
}
