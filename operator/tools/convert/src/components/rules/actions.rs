//! Converts the processors attributes and resource: each action becomes one or two statements.

use millrace_crds::v1alpha1::{ErrorMode, ProcessingStep, Signal, StatementContext};
use serde_norway::Value;

use super::RuleProcessor;
use super::step::{check_step, processed_signal, step_path, within_maximum};
use crate::account::Fate;
use crate::advice;
use crate::tree::Node;
use crate::work::Work;

/// For include and exclude.
const MATCHES: &str = "write it as a condition in OTTL after where, in each statement";
/// How hashes differ.
const HASHES: &str = "SHA-256 of texts alone; a redact step with hashKeySecret has a keyed hash";

/// The contexts of the processor's attributes, by signal.
const CONTEXTS: [(Signal, StatementContext); 3] = [
    (Signal::Traces, StatementContext::Span),
    (Signal::Logs, StatementContext::Log),
    (Signal::Metrics, StatementContext::DataPoint),
];

pub(super) fn convert_attributes(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let is_limited = ["include", "exclude"].iter().any(|name| node.get(name).is_some());
    let mut fields = work.account.open_block(node, Fate::not_needed("it has no actions"));
    let items = match fields.take_field("actions") {
        Some(list) => work.account.list_items(&list, "it is empty"),
        None => Vec::new(),
    };
    if is_limited {
        // Without its limits it would change other records too.
        items.iter().for_each(|item| work.account.unsupported(item, MATCHES));
    } else {
        let used = CONTEXTS.iter().filter(|(signal, _)| processor.handles(*signal));
        let contexts: Vec<_> = used.map(|(signal, context)| (*context, signal.as_str())).collect();
        convert_actions(work, items, &contexts, processor, None);
    }
    work.account.account_remaining(fields, |name| match name {
        "include" | "exclude" => Fate::unsupported(MATCHES),
        _ => Fate::unsupported(advice::UNKNOWN),
    });
}

pub(super) fn convert_resource(work: &mut Work, node: &Node<'_>, processor: &RuleProcessor<'_>) {
    let mut fields = work.account.open_block(node, Fate::not_needed("it has no actions"));
    let items = match fields.take_field("attributes") {
        Some(list) => work.account.list_items(&list, "it is empty"),
        None => Vec::new(),
    };
    let contexts = [(StatementContext::Resource, "")];
    convert_actions(work, items, &contexts, processor, Some(processor.signals));
    work.account.account_remaining(fields, |_| Fate::unsupported(advice::UNKNOWN));
}

/// Converts actions to one step for each context.
fn convert_actions(
    work: &mut Work,
    items: Vec<Node<'_>>,
    contexts: &[(StatementContext, &str)],
    processor: &RuleProcessor<'_>,
    signals: Option<&[Signal]>,
) {
    let mut accepted = Vec::new();
    for item in items {
        match read_action(&item).and_then(|action| checked(action, contexts)) {
            Ok(action) => accepted.push((item, action)),
            Err(why) => work.account.unsupported(&item, why),
        }
    }
    let accepted = within_maximum(work, accepted);
    if accepted.is_empty() {
        return;
    }
    let mut first = None;
    let mut failure = None;
    for (context, name) in contexts {
        let part = if contexts.len() > 1 { name } else { "" };
        let mut step = processor.new_step(work, part);
        // The processor does what it can, whatever the other attributes are.
        step.error_mode = ErrorMode::Ignore;
        step.context = Some(*context);
        step.signals =
            signals.unwrap_or_default().iter().map(|signal| processed_signal(*signal)).collect();
        step.statements = accepted.iter().map(|(_, action)| action.statement.clone()).collect();
        let path = step_path(&step.name);
        match processor.push_step(work, step) {
            Ok(()) => {
                first.get_or_insert(path);
            }
            Err(why) => failure = Some(why),
        }
    }
    for (item, action) in &accepted {
        match (&first, &failure) {
            (Some(path), None) => {
                let to = format!("{path}.statements");
                let fate = processor.carried(to, action.but);
                work.account.add_entry(item, fate);
            }
            (Some(path), Some(why)) => {
                let fate = processor.carried(format!("{path}.statements"), Some(why));
                work.account.add_entry(item, fate);
            }
            (None, why) => work.account.unsupported(item, why.clone().unwrap_or_default()),
        }
    }
}

/// An action as a statement.
struct AttributeAction {
    statement: String,
    but: Option<&'static str>,
}

/// Compiles an action's statement in each context.
fn checked(
    action: AttributeAction,
    contexts: &[(StatementContext, &str)],
) -> Result<AttributeAction, String> {
    for (context, _) in contexts {
        check_step(&ProcessingStep {
            name: "check".to_owned(),
            context: Some(*context),
            statements: vec![action.statement.clone()],
            ..ProcessingStep::default()
        })?;
    }
    Ok(action)
}

/// Reads an action.
fn read_action(item: &Node<'_>) -> Result<AttributeAction, String> {
    const KNOWN: [&str; 7] =
        ["key", "value", "action", "from_attribute", "pattern", "converted_type", "from_context"];
    if item.has_variable() {
        return Err(super::step::VARIABLE.to_owned());
    }
    if item.get("from_context").is_some() {
        return Err("clients' request metadata isn't available to rules".to_owned());
    }
    if let Some((name, _)) = item.entries().find(|(name, _)| !KNOWN.contains(&&**name)) {
        return Err(format!("its field {name} has no counterpart: write a statement"));
    }
    let text = |name: &str| item.get(name).and_then(|it| it.plain_text());
    let (key, pattern) = (text("key"), text("pattern"));
    let action = text("action").unwrap_or_default().to_ascii_lowercase();
    let own = |key: &str| format!("attributes[{}]", quote(key));
    let plain = |statement: String| AttributeAction { statement, but: None };
    let Some(key) = key.filter(|key| !key.is_empty()) else {
        return match (&*action, pattern) {
            ("delete", Some(pattern)) => {
                Ok(plain(format!("delete_matching_keys(attributes, {})", quote(&pattern))))
            }
            _ => Err("an action needs a key here: write a statement".to_owned()),
        };
    };
    let target = own(&key);
    match &*action {
        "insert" | "update" | "upsert" => {
            let value = action_value(item, own)?;
            let condition = match &*action {
                "insert" => format!(" where {target} == nil"),
                "update" => format!(" where {target} != nil"),
                _ => String::new(),
            };
            Ok(plain(format!("set({target}, {value}){condition}")))
        }
        "delete" if pattern.is_none() => {
            Ok(plain(format!("delete_key(attributes, {})", quote(&key))))
        }
        "hash" if pattern.is_none() => Ok(AttributeAction {
            statement: format!("set({target}, SHA256({target})) where IsString({target})"),
            but: Some(HASHES),
        }),
        "extract" => {
            let pattern = pattern.ok_or("an extraction needs a pattern")?;
            let found = format!("ExtractPatterns({target}, {})", quote(&pattern));
            let statement =
                format!("merge_maps(attributes, {found}, \"upsert\") where IsString({target})");
            Ok(plain(statement))
        }
        "convert" => {
            let function = match text("converted_type").as_deref() {
                Some("int") => "Int",
                Some("double") => "Double",
                Some("string") => "String",
                _ => return Err("write the conversion as a statement".to_owned()),
            };
            Ok(plain(format!("set({target}, {function}({target})) where {target} != nil")))
        }
        _ => Err("write it as a statement in OTTL: page Rules".to_owned()),
    }
}

/// Returns what an action sets: a literal, or another attribute.
fn action_value(item: &Node<'_>, own: impl Fn(&str) -> String) -> Result<String, String> {
    let from = item.get("from_attribute").and_then(|it| it.plain_text());
    match (item.get("value"), from) {
        (None, Some(from)) => Ok(own(&from)),
        (Some(value), None) => match value.value {
            Value::Bool(flag) => Ok(flag.to_string()),
            Value::Number(number) if number.is_f64() => {
                let number = number.as_f64().filter(|number| number.is_finite());
                number.map(|number| format!("{number:?}")).ok_or_else(not_literal)
            }
            Value::Number(number) => Ok(number.to_string()),
            _ => value.plain_text().map(|text| quote(&text)).ok_or_else(not_literal),
        },
        _ => Err(not_literal()),
    }
}

fn not_literal() -> String {
    "its value isn't a text, a number or a boolean: write a statement".to_owned()
}

/// Returns a text as a literal of OTTL.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            one => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}
