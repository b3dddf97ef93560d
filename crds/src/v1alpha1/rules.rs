//! CEL rules as schema transforms: small helpers that the kinds' schemas share.
//!
//! Every message says what to write instead. Must not hold rules of one kind only: those stay
//! beside the kind.

use schemars::Schema;
use serde_json::{Value, json};

/// Adds one rule to a schema.
pub(crate) fn rule(schema: &mut Schema, rule: &str, message: &str) {
    push(schema, json!({ "rule": rule, "message": message }));
}

/// Adds one rule whose message is computed by CEL; `message` is the fall-back.
pub(crate) fn rule_computed(schema: &mut Schema, rule: &str, expression: &str, message: &str) {
    push(
        schema,
        json!({ "rule": rule, "messageExpression": expression, "message": message }),
    );
}

fn push(schema: &mut Schema, entry: Value) {
    const KEY: &str = "x-kubernetes-validations";
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    let entries = object
        .entry(KEY)
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(entries) = entries {
        entries.push(entry);
    }
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
    rule(
        schema,
        &text,
        &format!("{field} can't be changed: {advice}"),
    );
}
