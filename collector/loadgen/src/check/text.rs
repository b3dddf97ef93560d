//! The expected form of values that a table stores as text or as JSON.

use std::collections::HashMap;
use std::fmt::Write;

use millrace_ddl::AttributeStorage as Variant;
use serde_json::{Map, Value as Json};

use crate::content::{AttributeList, SentValue};

/// The leaves of a JSON object by dotted path: `JSON` columns print paths as nested objects, `Map`
/// columns as dotted keys.
pub(crate) type Leaves = HashMap<String, Json>;

/// Returns a value as the text columns store it: text unchanged, anything else as JSON, bytes as
/// base64.
pub(crate) fn plain_text(value: &SentValue<'_>) -> String {
    match value {
        SentValue::Text(text) => (*text).to_owned(),
        SentValue::Bytes(bytes) => encode_base64(bytes),
        SentValue::Double(number) => number.to_string(),
        other => json_text(other),
    }
}

/// Returns a value as compact JSON.
fn json_text(value: &SentValue<'_>) -> String {
    match value {
        SentValue::Int(number) => number.to_string(),
        SentValue::Bool(yes) => yes.to_string(),
        // Doubles of a load are neither huge nor tiny, so they have no exponents.
        SentValue::Double(number) => number.to_string(),
        SentValue::Text(text) => Json::from(*text).to_string(),
        SentValue::Bytes(bytes) => Json::from(encode_base64(bytes)).to_string(),
        SentValue::List(items) => {
            let items: Vec<String> = items.iter().map(json_text).collect();
            format!("[{}]", items.join(","))
        }
        SentValue::Pairs(pairs) => {
            let member = |(key, value): &(&str, SentValue<'_>)| {
                format!("{}:{}", Json::from(*key), json_text(value))
            };
            let members: Vec<String> = pairs.iter().map(member).collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

/// Encodes standard base64 with padding (RFC 4648).
fn encode_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * index)) as usize & 63];
            text.push(if index > chunk.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

/// Parses the leaves of a printed set; `None` if it is not a JSON object.
pub(crate) fn parse_leaves(text: &[u8]) -> Option<Leaves> {
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
    flatten_object(object, "", &mut leaves);
    leaves
}

fn flatten_object(object: Map<String, Json>, path: &str, leaves: &mut Leaves) {
    for (key, value) in object {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        match value {
            Json::Object(inner) if !inner.is_empty() => flatten_object(inner, &path, leaves),
            leaf => {
                leaves.insert(path, leaf);
            }
        }
    }
}

/// Returns whether leaves are exactly these attributes.
pub(crate) fn is_set(found: &Leaves, expected: &impl AttributeList, variant: Variant) -> bool {
    let (mut count, mut is_right) = (0, true);
    expected.for_each(&mut |key, value| match (variant, value) {
        (Variant::Json, SentValue::Pairs(pairs)) => {
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

/// Compares a list of pairs with the paths below its key.
fn are_members(
    found: &Leaves,
    stem: &str,
    pairs: &[(&str, SentValue<'_>)],
    count: &mut usize,
) -> bool {
    pairs.iter().all(|(key, value)| {
        let path = format!("{stem}.{key}");
        match value {
            SentValue::Pairs(inner) => are_members(found, &path, inner, count),
            value => {
                *count += 1;
                found.get(&path).is_some_and(|found| is_typed(found, value))
            }
        }
    })
}

/// Compares with a `Map` column, which stores every value as text.
fn is_text(found: &Json, expected: &SentValue<'_>) -> bool {
    match expected {
        SentValue::Text(text) => found.as_str() == Some(text),
        other => found.as_str() == Some(plain_text(other).as_str()),
    }
}

/// Compares with a `JSON` column, which stores types.
fn is_typed(found: &Json, expected: &SentValue<'_>) -> bool {
    match expected {
        SentValue::Text(text) => found.as_str() == Some(text),
        SentValue::Int(number) => found.as_i64() == Some(*number),
        SentValue::Double(number) => found.as_f64() == Some(*number),
        SentValue::Bool(yes) => found.as_bool() == Some(*yes),
        SentValue::Bytes(bytes) => found.as_str() == Some(encode_base64(bytes).as_str()),
        SentValue::List(items) => found.as_array().is_some_and(|found| {
            found.len() == items.len()
                && found.iter().zip(*items).all(|(found, expected)| is_typed(found, expected))
        }),
        SentValue::Pairs(_) => false,
    }
}

/// Describes a set.
pub(crate) fn describe_set(expected: &impl AttributeList) -> String {
    let mut text = String::from("{");
    expected.for_each(&mut |key, value| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{key}: {}, ", json_text(&value));
    });
    text.truncate(text.trim_end_matches(", ").len());
    text + "}"
}

#[cfg(test)]
mod tests;
