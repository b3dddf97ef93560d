//! Rules: those written in monitors, and those that every monitor of a kind has.

use millrace_scrape::relabel::{Action, Rule};
use serde_json::Value;

use crate::monitor::fields::{MonitorField, MonitorReader, read, text_excerpt};

/// Fields of a rule.
pub(crate) const RULE: &[MonitorField<Rule>] = &[
    read("action", |r, to, at, it| {
        let text = r.read_text(at, it);
        match Action::from_name(&text) {
            Some(action) => to.action = action,
            None if text.is_empty() => {}
            None => r.refuse(at, format!("unknown action `{}`", text_excerpt(&text))),
        }
    }),
    read("sourceLabels", |r, to, at, it| {
        to.source_labels = r.read_list(at, it, MonitorReader::read_text)
    }),
    read("separator", |r, to, at, it| to.separator = r.read_text(at, it)),
    read("regex", |r, to, at, it| {
        let text = r.read_text(at, it);
        if !text.is_empty() {
            to.regex = text;
        }
    }),
    read("modulus", |r, to, at, it| to.modulus = r.read_number(at, it).unwrap_or_default()),
    read("replacement", |r, to, at, it| to.replacement = r.read_text(at, it)),
    read("targetLabel", |r, to, at, it| to.target_label = r.read_text(at, it)),
];

/// Reads the rules of a monitor. An empty separator or replacement counts as set.
pub(crate) fn read_rules(reader: &mut MonitorReader<'_>, at: &str, value: &Value) -> Vec<Rule> {
    reader.read_list(at, value, |r, at, it| {
        let mut rule = Rule::default();
        r.read_fields_where(at, it, &[RULE], &mut rule, |value| !value.is_null());
        rule
    })
}

/// Returns a rule that copies a label.
pub(crate) fn copy_rule(from: &str, to: &str) -> Rule {
    Rule { source_labels: vec![from.to_owned()], target_label: to.to_owned(), ..Rule::default() }
}

/// Returns a rule that copies a label unless it is empty.
pub(crate) fn copy_nonempty_rule(from: &str, to: &str) -> Rule {
    Rule { regex: "(.+)".to_owned(), ..copy_rule(from, to) }
}

/// Returns a rule that sets a label to a text.
pub(crate) fn set_rule(to: &str, text: &str) -> Rule {
    let replacement = text.replace('$', "$$");
    Rule { target_label: to.to_owned(), replacement, ..Rule::default() }
}

/// Returns a rule that retains targets whose label matches a pattern.
pub(crate) fn keep_rule(label: &str, regex: &str) -> Rule {
    let (action, regex) = (Action::Keep, regex.to_owned());
    Rule { action, source_labels: vec![label.to_owned()], regex, ..Rule::default() }
}

/// Returns a rule that drops targets whose label matches a pattern.
pub(crate) fn drop_rule(label: &str, regex: &str) -> Rule {
    Rule { action: Action::Drop, ..keep_rule(label, regex) }
}

/// Returns the first rule of all monitors.
pub(crate) fn job_name_rule() -> Rule {
    copy_rule("job", "__tmp_prometheus_job_name")
}

/// Returns a rule that drops pods that have ended.
pub(crate) fn running_rule() -> Rule {
    drop_rule("__meta_kubernetes_pod_phase", "(Failed|Succeeded)")
}

/// Returns a label's or annotation's name as a part of a label's name.
pub(crate) fn sanitize_name(name: &str) -> String {
    let plain = |one: char| if one.is_ascii_alphanumeric() { one } else { '_' };
    name.chars().map(plain).collect()
}
