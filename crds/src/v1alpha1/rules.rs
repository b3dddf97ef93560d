//! CEL rules as schema transforms: helpers for all kinds.
//!
//! Every message says what to write instead. A rule of one kind only belongs in that kind's file.

use schemars::Schema;
use schemars::transform::transform_subschemas;
use serde_json::{Value, json};

/// Adds one rule to a schema. Messages are fixed text: CEL can't bound the cost of a message that
/// writes a number, and the API server refuses the definition.
pub(crate) fn add_rule(schema: &mut Schema, rule: &str, message: &str) {
    const KEY: &str = "x-kubernetes-validations";
    let Some(object) = schema.as_object_mut() else { return };
    let entries = object.entry(KEY).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(entries) = entries {
        entries.push(json!({ "rule": rule, "message": message }));
    }
}

/// Keeps the fields' own descriptions where their values are optional and have one too, here and
/// below: kube's derive would put the values' in their place. Of each kind's spec and status.
pub(crate) fn own_descriptions(schema: &mut Schema) {
    transform_subschemas(&mut own_descriptions, schema);
    let own = schema.get("description").cloned();
    let values = schema.get_mut("anyOf").and_then(Value::as_array_mut);
    let value = values.and_then(|values| values.first_mut()).and_then(Value::as_object_mut);
    if let (Some(own), Some(value)) = (own, value) {
        value.insert("description".to_owned(), own);
    }
}

/// Limits a map from text to text: how many entries, and how long each value.
pub(crate) fn map<const ENTRIES: usize, const LENGTH: usize>(schema: &mut Schema) {
    schema.insert("maxProperties".to_owned(), json!(ENTRIES));
    schema.insert(
        "additionalProperties".to_owned(),
        json!({ "type": "string", "maxLength": LENGTH }),
    );
}

/// Limits a list of texts, none of which is empty: how many, and how long each.
pub(crate) fn bound_texts(schema: &mut Schema, entries: usize, length: usize) {
    schema.insert("maxItems".to_owned(), json!(entries));
    if let Some(items) = schema.get_mut("items").and_then(Value::as_object_mut) {
        items.insert("minLength".to_owned(), json!(1));
        items.insert("maxLength".to_owned(), json!(length));
    }
}

/// Limits a list of statements or conditions.
pub(crate) fn bound_statements(schema: &mut Schema) {
    const STATEMENTS_MAX: usize = 128;
    const CHARACTERS_MAX: usize = 8_192;
    bound_texts(schema, STATEMENTS_MAX, CHARACTERS_MAX);
}

/// Makes a nested field with a default immutable. The API server compares a value with its old one
/// only where there was one: so the rule is on a value that always exists, and reads through
/// optional ones.
pub(crate) fn make_immutable(schema: &mut Schema, steps: &[&str], default: &str, advice: &str) {
    let text = format!(
        "{} == {}",
        deep_or_default("self", steps, default),
        deep_or_default("oldSelf", steps, default)
    );
    add_rule(schema, &text, &format!("{} can't be changed: {advice}", steps.join(".")));
}

/// An expression for a field some steps away, and one that holds where it is there.
pub(crate) fn nested_field(owner: &str, steps: &[&str]) -> (String, String) {
    let mut path = owner.to_owned();
    let mut guards = Vec::new();
    for step in steps {
        path = format!("{path}.{step}");
        guards.push(format!("has({path})"));
    }
    (path, guards.join(" && "))
}

/// The text of an optional field some steps away, or its default, as a CEL expression.
pub(crate) fn deep_or_default(owner: &str, steps: &[&str], default: &str) -> String {
    deep_or(owner, steps, &format!("'{default}'"))
}

/// The value of an optional field some steps away, or `other`, as a CEL expression.
pub(crate) fn deep_or(owner: &str, steps: &[&str], other: &str) -> String {
    let (path, guard) = nested_field(owner, steps);
    format!("({guard} ? {path} : {other})")
}

/// The value of a field in the first of several blocks that has it, or `other`, in CEL.
pub(crate) fn first_of(owner: &str, paths: &[&[&str]], field: &[&str], other: &str) -> String {
    let value = |other: String, path: &&[&str]| deep_or(owner, &[path, field].concat(), &other);
    paths.iter().rev().fold(other.to_owned(), value)
}

/// Whether one of several blocks has a field, as a CEL expression.
pub(crate) fn is_in_any(owner: &str, paths: &[&[&str]], field: &[&str]) -> String {
    let guard = |path: &&[&str]| format!("({})", nested_field(owner, &[path, field].concat()).1);
    format!("({})", paths.iter().map(guard).collect::<Vec<_>>().join(" || "))
}
