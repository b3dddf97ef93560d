//! Removes credentials from the content of a bundle: environment values, fields with a credential's
//! name, and texts in the form of one. Pure.
//!
//! It never uses a list of known values: Secrets are never read, so none exists. Limit: it can't
//! recognise a password in a text without a word that marks it as one.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

/// The replacement of a credential.
pub const MASK: &str = "(masked)";

/// A field with one of these in its name is a credential,
const NAMES: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "credential",
    "private",
    "accesskey",
];
/// unless its name ends like a reference to one.
const REFERENCE_ENDINGS: [&str; 9] =
    ["name", "ref", "refs", "path", "file", "namespace", "kind", "seconds", "key"];
/// Annotations that repeat the complete object.
const REPEATED: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "millrace.dev/rollout-baseline"];

/// Maximum depth of nested values; deeper ones are masked completely.
const NESTED_MAX: u8 = 8;

/// Patterns of credentials, each with its replacement.
static TEXTS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let patterns = [
        // A URL's user and password.
        (r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@\x22']+@", "${1}(masked)@"),
        // A key in PEM, also on one line.
        (
            r"(?s)-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
            "(masked private key)",
        ),
        // A JSON web token.
        (r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*", "(masked)"),
        // A header's scheme with its value.
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}", "${1} (masked)"),
        // Keys of clouds.
        (r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", "(masked)"),
        // An option followed by its value.
        (
            r"(?i)(--[a-z0-9-]*(?:password|passwd|passphrase|secret|token|api-?key|credential))\s+[^\s-]\S*",
            "${1} (masked)",
        ),
    ];
    let compiled = patterns.into_iter();
    compiled.filter_map(|(pattern, stays)| Some((Regex::new(pattern).ok()?, stays))).collect()
});

/// `password=x`, `password: x`, `"password":"x"`, the last also inside a string.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let name = r"([A-Za-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|authorization|credential|private|accesskey)[A-Za-z0-9_-]*)";
    let between = r#"(\\?["']?\s*[:=]\s*)"#;
    let value = r#"(\\"[^"\\]*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|\\?["']?[^\s"'&]+)"#;
    Regex::new(&format!("(?i){name}{between}{value}")).ok()
});

/// Returns the number of patterns, for the test that each compiles.
#[cfg(test)]
pub(super) fn pattern_count() -> usize {
    TEXTS.len() + usize::from(NAMED.is_some())
}

/// Returns a text without credentials.
#[must_use]
pub fn mask_text(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, stays) in TEXTS.iter() {
        text = pattern.replace_all(&text, *stays).into_owned();
    }
    mask_named(&text, NESTED_MAX)
}

fn mask_named(text: &str, nested: u8) -> String {
    let Some(pattern) = NAMED.as_ref().filter(|_| nested > 0) else { return MASK.to_owned() };
    let masked = pattern.replace_all(text, |found: &regex_lite::Captures<'_>| {
        let part = |at| found.get(at).map_or("", |it: regex_lite::Match<'_>| it.as_str());
        let (name, between, value) = (part(1), part(2), part(3));
        // The value of a reference may itself contain a credential.
        match is_credential(name) {
            true => format!("{name}{between}{}", quote_mask(value)),
            false => format!("{name}{between}{}", self::mask_named(value, nested - 1)),
        }
    });
    masked.into_owned()
}

/// Returns the mask in the quotes of the replaced value.
fn quote_mask(value: &str) -> String {
    let quotes = ["\\\"", "\"", "'"];
    let quote = quotes.into_iter().find(|quote| value.starts_with(quote)).unwrap_or_default();
    format!("{quote}{MASK}{quote}")
}

/// Returns whether a field of this name holds a credential.
#[must_use]
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = NAMES.iter().any(|word| name.contains(word));
    let is_reference = REFERENCE_ENDINGS.iter().any(|end| name.ends_with(end));
    // `apiKey` and `privateKey` are credentials; `secretKey` names a key in a Secret.
    let key = ["apikey", "api_key", "api-key", "accesskey", "privatekey"];
    named && (!is_reference || key.iter().any(|end| name.ends_with(end)))
}

/// Removes an object's credentials, and fields that only repeat or enlarge it.
pub fn mask_object(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            for repeated in REPEATED {
                fields.remove(repeated);
            }
            if fields.get("kind").and_then(Value::as_str) == Some("Secret") {
                fields.remove("data");
                fields.remove("stringData");
            }
            for (name, below) in fields.iter_mut() {
                mask_field(name, below);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_object),
        Value::String(string) => *string = mask_text(string),
        _ => {}
    }
}

fn mask_field(name: &str, below: &mut Value) {
    if name == "env" {
        for one in below.as_array_mut().into_iter().flatten() {
            if let Some(value) = one.get_mut("value") {
                *value = MASK.into();
            }
        }
    }
    if is_credential(name) {
        mask_value(below);
    }
    mask_object(below);
}

/// Masks texts and lists of texts; nested fields are checked by their own names.
fn mask_value(value: &mut Value) {
    match value {
        Value::String(string) if !string.is_empty() => *value = MASK.into(),
        Value::Array(items) => {
            items.iter_mut().filter(|item| item.is_string()).for_each(mask_value);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
