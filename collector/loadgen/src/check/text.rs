//! What a value must look like where a table keeps it as text or as JSON.

use std::collections::HashMap;
use std::fmt::Write;

use millrace_ddl::Attributes as Variant;
use serde_json::{Map, Value as Json};

use crate::content::{Attributes, Value};

/// The leaves of a JSON object by dotted path: `JSON` columns print paths as nested objects, `Map`
/// columns as dotted keys.
pub(crate) type Leaves = HashMap<String, Json>;

/// A value as the text columns hold it: text as it is, anything else as JSON, bytes as base64.
pub(crate) fn plain(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => (*text).to_owned(),
        Value::Bytes(bytes) => base64(bytes),
        Value::Double(number) => number.to_string(),
        other => json(other),
    }
}

/// A value as compact JSON.
fn json(value: &Value<'_>) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Bool(yes) => yes.to_string(),
        // Doubles of a load are neither huge nor tiny: no exponents.
        Value::Double(number) => number.to_string(),
        Value::Text(text) => Json::from(*text).to_string(),
        Value::Bytes(bytes) => Json::from(base64(bytes)).to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Pairs(pairs) => {
            let member =
                |(key, value): &(&str, Value<'_>)| format!("{}:{}", Json::from(*key), json(value));
            let members: Vec<String> = pairs.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Standard base64 with padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// The leaves of a set as printed; `None` if it is no JSON object.
pub(crate) fn leaves(text: &[u8]) -> Option<Leaves> {
    let Ok(Json::Object(object)) = serde_json::from_slice(text) else { return None };
    Some(leaves_of(object))
}

/// The same for an array of sets.
pub(crate) fn list_of_leaves(text: &[u8]) -> Option<Vec<Leaves>> {
    let Ok(Json::Array(items)) = serde_json::from_slice(text) else { return None };
    let object =
        |item| if let Json::Object(object) = item { Some(leaves_of(object)) } else { None };
    items.into_iter().map(object).collect()
}

fn leaves_of(object: Map<String, Json>) -> Leaves {
    let mut leaves = Leaves::new();
    flatten(object, "", &mut leaves);
    leaves
}

fn flatten(object: Map<String, Json>, path: &str, leaves: &mut Leaves) {
    for (key, value) in object {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        match value {
            Json::Object(inner) if !inner.is_empty() => flatten(inner, &path, leaves),
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
}

/// Whether leaves are exactly these attributes.
pub(crate) fn is_set(found: &Leaves, wanted: &impl Attributes, variant: Variant) -> bool {
    let (mut count, mut is_right) = (0, true);
    wanted.each(&mut |key, value| match (variant, value) {
        (Variant::Json, Value::Pairs(pairs)) => {
            is_right &= are_members(found, key, pairs, &mut count);
        }
        (Variant::Json, value) => {
            count += 1;
            is_right &= found.get(key).is_some_and(|found| is_typed(found, &value));
        }
        (Variant::Map, value) => {
            count += 1;
            is_right &= found.get(key).is_some_and(|found| is_text(found, &value));
        }
    });
    is_right && count == found.len()
}

/// A list of pairs is paths below its key.
fn are_members(found: &Leaves, stem: &str, pairs: &[(&str, Value<'_>)], count: &mut usize) -> bool {
    pairs.iter().all(|(key, value)| {
        let path = format!("{stem}.{key}");
        match value {
            Value::Pairs(inner) => are_members(found, &path, inner, count),
            value => {
                *count += 1;
                found.get(&path).is_some_and(|found| is_typed(found, value))
            }
        }
    })
}

/// A `Map` column keeps every value as text.
fn is_text(found: &Json, wanted: &Value<'_>) -> bool {
    match wanted {
        Value::Text(text) => found.as_str() == Some(text),
        other => found.as_str() == Some(plain(other).as_str()),
    }
}

/// A `JSON` column keeps types.
fn is_typed(found: &Json, wanted: &Value<'_>) -> bool {
    match wanted {
        Value::Text(text) => found.as_str() == Some(text),
        Value::Int(number) => found.as_i64() == Some(*number),
        Value::Double(number) => found.as_f64() == Some(*number),
        Value::Bool(yes) => found.as_bool() == Some(*yes),
        Value::Bytes(bytes) => found.as_str() == Some(base64(bytes).as_str()),
        Value::List(items) => found.as_array().is_some_and(|found| {
            found.len() == items.len()
                && found.iter().zip(*items).all(|(found, wanted)| is_typed(found, wanted))
        }),
        Value::Pairs(_) => false,
    }
}

/// A set in words.
pub(crate) fn shown(wanted: &impl Attributes) -> String {
    let mut text = String::from("{");
    wanted.each(&mut |key, value| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{key}: {}, ", json(&value));
    });
    text.truncate(text.trim_end_matches(", ").len());
    text + "}"
}

#[cfg(test)]
#[path = "../../tests/unit/check/text.rs"]
mod tests;
