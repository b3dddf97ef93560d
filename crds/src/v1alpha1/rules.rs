//! CEL rules as schema transforms: small helpers that the kinds' schemas share.
//!
//! Every message says what to write instead. Must not hold rules of one kind only: those stay
//! beside the kind.

use schemars::Schema;
use serde_json::{Value, json};

/// Adds one rule to a schema. Messages are fixed text: CEL can't bound the cost of a message that
/// writes a number, and the API server refuses the definition.
pub(crate) fn rule(schema: &mut Schema, rule: &str, message: &str) {
    const KEY: &str = "x-kubernetes-validations";
    let Some(object) = schema.as_object_mut() else { return };
    let entries = object.entry(KEY).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(entries) = entries {
        entries.push(json!({ "rule": rule, "message": message }));
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

/// The value of an optional field, or its default, as a CEL expression.
pub(crate) fn or_default(owner: &str, field: &str, default: &str) -> String {
    format!("(has({owner}.{field}) ? {owner}.{field} : '{default}')")
}

/// A field with a default may not change once the object exists.
pub(crate) fn unchangeable(schema: &mut Schema, field: &str, default: &str, advice: &str) {
    let text = format!(
        "{} == {}",
        or_default("self", field, default),
        or_default("oldSelf", field, default)
    );
    rule(schema, &text, &format!("{field} can't be changed: {advice}"));
}
