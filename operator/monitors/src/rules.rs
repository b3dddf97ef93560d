//! Rules: those that monitors write, and those that every monitor of a kind has.

use millrace_scrape::relabel::{Action, Rule};
use serde_json::Value;

use crate::fields::{Field, Reader, read, said};

/// Fields of a rule.
pub(crate) const RULE: &[Field<Rule>] = &[
    read("action", |r, to, at, it| {
        let text = r.text(at, it);
        match Action::of(&text) {
            Some(action) => to.action = action,
            None if text.is_empty() => {}
            None => r.refuse(at, format!("there is no action `{}`", said(&text))),
        }
    }),
    read("sourceLabels", |r, to, at, it| to.source_labels = r.list(at, it, Reader::text)),
    read("separator", |r, to, at, it| to.separator = r.text(at, it)),
    read("regex", |r, to, at, it| {
        let text = r.text(at, it);
        if !text.is_empty() {
            to.regex = text;
        }
    }),
    read("modulus", |r, to, at, it| to.modulus = r.number(at, it).unwrap_or_default()),
    read("replacement", |r, to, at, it| to.replacement = r.text(at, it)),
    read("targetLabel", |r, to, at, it| to.target_label = r.text(at, it)),
];

/// Rules as a monitor writes them. An empty separator or replacement is one.
pub(crate) fn rules(reader: &mut Reader<'_>, at: &str, value: &Value) -> Vec<Rule> {
    reader.list(at, value, |r, at, it| {
        let mut rule = Rule::default();
        r.fields_where(at, it, &[RULE], &mut rule, |value| !value.is_null());
        rule
    })
}

/// Copies a label.
pub(crate) fn copy(from: &str, to: &str) -> Rule {
    Rule { source_labels: vec![from.to_owned()], target_label: to.to_owned(), ..Rule::default() }
}

/// Copies a label where it isn't empty.
pub(crate) fn copy_given(from: &str, to: &str) -> Rule {
    Rule { regex: "(.+)".to_owned(), ..copy(from, to) }
}

/// Sets a label to a text.
pub(crate) fn set(to: &str, text: &str) -> Rule {
    let replacement = text.replace('$', "$$");
    Rule { target_label: to.to_owned(), replacement, ..Rule::default() }
}

/// Keeps what has a label that a pattern matches.
pub(crate) fn keep(label: &str, regex: &str) -> Rule {
    let (action, regex) = (Action::Keep, regex.to_owned());
    Rule { action, source_labels: vec![label.to_owned()], regex, ..Rule::default() }
}

/// Drops what has a label that a pattern matches.
pub(crate) fn drop(label: &str, regex: &str) -> Rule {
    Rule { action: Action::Drop, ..keep(label, regex) }
}

/// What all monitors begin with.
pub(crate) fn first() -> Rule {
    copy("job", "__tmp_prometheus_job_name")
}

/// Drops pods that have ended.
pub(crate) fn running() -> Rule {
    drop("__meta_kubernetes_pod_phase", "(Failed|Succeeded)")
}

/// A label's or annotation's name as a part of a label's name.
pub(crate) fn sanitized(name: &str) -> String {
    let plain = |one: char| if one.is_ascii_alphanumeric() { one } else { '_' };
    name.chars().map(plain).collect()
}
