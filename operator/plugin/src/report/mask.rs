//! Takes credentials out of what goes into a bundle: environment values, fields that are named like
//! one, and texts that look like one. Pure.
//!
//! It never decides by a list of known values: Secrets are never read, so there is none. What it
//! can't know is a password in a text without a word that tells it is one.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

/// What stands in place of a credential.
pub const MASK: &str = "(masked)";

/// A name with one of these is a credential's,
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
/// unless it ends like the name of a place where one is.
const PLACES: [&str; 9] =
    ["name", "ref", "refs", "path", "file", "namespace", "kind", "seconds", "key"];
/// What an object's annotation repeats of the whole object.
const REPEATED: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "millrace.dev/rollout-baseline"];

/// Values within values that are looked through; what is deeper is masked as a whole.
const NESTED_MAX: u8 = 8;

/// Texts that look like a credential, and what stays of them.
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
        // An option with its value behind it.
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

/// How many patterns there are: a test holds that each compiles.
#[cfg(test)]
pub(super) fn patterns() -> usize {
    TEXTS.len() + usize::from(NAMED.is_some())
}

/// A text without credentials.
#[must_use]
pub fn text(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, stays) in TEXTS.iter() {
        text = pattern.replace_all(&text, *stays).into_owned();
    }
    named(&text, NESTED_MAX)
}

fn named(text: &str, nested: u8) -> String {
    let Some(pattern) = NAMED.as_ref().filter(|_| nested > 0) else { return MASK.to_owned() };
    let masked = pattern.replace_all(text, |found: &regex_lite::Captures<'_>| {
        let part = |at| found.get(at).map_or("", |it: regex_lite::Match<'_>| it.as_str());
        let (name, between, value) = (part(1), part(2), part(3));
        // A name of a place may have a credential in its value.
        match is_credential(name) {
            true => format!("{name}{between}{}", quoted(value)),
            false => format!("{name}{between}{}", self::named(value, nested - 1)),
        }
    });
    masked.into_owned()
}

/// The mask in the quotes of what it stands for.
fn quoted(value: &str) -> String {
    let quotes = ["\\\"", "\"", "'"];
    let quote = quotes.into_iter().find(|quote| value.starts_with(quote)).unwrap_or_default();
    format!("{quote}{MASK}{quote}")
}

/// Whether a field of this name has a credential.
#[must_use]
pub fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let named = NAMES.iter().any(|word| name.contains(word));
    let place = PLACES.iter().any(|end| name.ends_with(end));
    // `apiKey` and `privateKey` are credentials; `secretKey` names a key in a Secret.
    let key = ["apikey", "api_key", "api-key", "accesskey", "privatekey"];
    named && (!place || key.iter().any(|end| name.ends_with(end)))
}

/// An object without credentials, and without what repeats or only bloats it.
pub fn object(value: &mut Value) {
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
                field(name, below);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(object),
        Value::String(string) => *string = text(string),
        _ => {}
    }
}

fn field(name: &str, below: &mut Value) {
    if name == "env" {
        for one in below.as_array_mut().into_iter().flatten() {
            if let Some(value) = one.get_mut("value") {
                *value = MASK.into();
            }
        }
    }
    if is_credential(name) {
        hide(below);
    }
    object(below);
}

/// Masks texts and lists of texts; what has fields is walked by its names.
fn hide(value: &mut Value) {
    match value {
        Value::String(string) if !string.is_empty() => *value = MASK.into(),
        Value::Array(items) => {
            items.iter_mut().filter(|item| item.is_string()).for_each(hide);
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "../../tests/unit/mask.rs"]
mod tests;
