//! Tests of redaction.

mod actions;
mod corpus;
mod properties;
mod settings;

use millrace_processing::redact::{RedactConfig, RedactScratch, Redaction, Redactor};

pub(crate) const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(crate) fn redactor(config: serde_json::Value) -> Redactor {
    let config: RedactConfig = serde_json::from_value(config).expect("settings");
    Redactor::compile(&config, Some(KEY)).expect("usable settings")
}

/// The text as it's passed on; absent if the value is dropped.
pub(crate) fn redact(redactor: &Redactor, text: &str) -> Option<String> {
    let mut out = Vec::new();
    match redactor.redact(text.as_bytes(), &mut RedactScratch::default(), &mut out) {
        Redaction::Unchanged => Some(text.to_owned()),
        Redaction::Changed => Some(String::from_utf8(out).expect("UTF-8")),
        Redaction::Drop => None,
    }
}
