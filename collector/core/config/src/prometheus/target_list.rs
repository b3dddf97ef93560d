//! Lists of targets that are stored outside the settings: JSON or YAML files, and answers of HTTP
//! servers, in the form of Prometheus' `file_sd` and `http_sd`.
//!
//! Pure: bytes go in, groups come out, or what is wrong with its line. A list is accepted
//! completely or not at all. Addresses may be anything that relabeling can make a target of.
//!
//! # Limits
//! The caller bounds the bytes ([`TARGET_LIST_BYTES_MAX`]): reading takes a multiple of them for a
//! moment, of YAML more than of JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::values::text::as_text;

/// The longest list: 10,000 targets with 200 bytes of addresses and labels each.
pub const TARGET_LIST_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Most targets of one process, however they are found: with 8 KiB each (a task, its labels, its
/// row on the page) 80 MiB, in addition to the memory of their series.
pub const TARGETS_MAX: usize = 10_000;

/// The longest address: what relabeling makes a target of may be a URL.
const ADDRESS_BYTES_MAX: usize = 2048;

/// The longest name and value of a label.
const LABEL_NAME_BYTES_MAX: usize = 256;
const LABEL_VALUE_BYTES_MAX: usize = 2048;

/// Most labels of a group: Kubernetes objects have some dozen.
const GROUP_LABELS_MAX: usize = 64;

/// The longest quotation of a list in a message.
const QUOTE_CHARACTERS_MAX: usize = 200;

/// A list that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct ListError {
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    message: String,
}

/// A text of a list that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: use {rule}")]
pub struct ListTextError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

/// Targets with the same labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetGroup {
    /// Their addresses: `host:port`, or what relabeling makes that of.
    #[serde(default)]
    pub targets: Vec<ListedAddress>,
    /// Their labels. Those that begin with `__` are for relabeling.
    #[serde(default)]
    pub labels: BTreeMap<ListedName, ListedValue>,
}

/// An address of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListedAddress(String);

/// A label's name in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListedName(String);

/// A label's value in a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ListedValue(String);

impl TargetGroup {
    /// Reads a JSON list.
    ///
    /// # Errors
    /// It isn't one, or something of it can't be used.
    pub fn of_json(bytes: &[u8]) -> Result<Vec<Self>, ListError> {
        let read = serde_json::from_slice::<Vec<Self>>(bytes);
        let groups = read.map_err(|error| {
            let text = error.to_string();
            let message =
                text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            ListError::new(Some(error.line()).filter(|line| *line > 0), message)
        })?;
        check_groups(groups)
    }

    /// Reads a YAML list. An empty file is none: it may be about to be written.
    ///
    /// # Errors
    /// It isn't one, or something of it can't be used.
    pub fn of_yaml(bytes: &[u8]) -> Result<Vec<Self>, ListError> {
        let read = serde_norway::from_slice::<Option<Vec<Self>>>(bytes);
        let groups = read.map_err(|error| {
            let text = error.to_string();
            let message =
                text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            ListError::new(error.location().map(|location| location.line()), message)
        })?;
        let empty = || ListError::new(None, "the list is empty: write [] if there are no targets");
        check_groups(groups.ok_or_else(empty)?)
    }
}

fn check_groups(groups: Vec<TargetGroup>) -> Result<Vec<TargetGroup>, ListError> {
    for (index, group) in groups.iter().enumerate() {
        let count = group.labels.len();
        if count > GROUP_LABELS_MAX {
            let message = format!("group {index}: {count} labels: use at most {GROUP_LABELS_MAX}");
            return Err(ListError::new(None, &message));
        }
    }
    Ok(groups)
}

impl ListError {
    fn new(line: Option<usize>, message: &str) -> Self {
        Self { line, message: message.chars().take(QUOTE_CHARACTERS_MAX).collect() }
    }
}

/// The text, if it has so many bytes, none of them of a control character.
fn bounded_text(
    text: &str,
    (least, most): (usize, usize),
    what: &'static str,
    rule: &'static str,
) -> Result<String, ListTextError> {
    let is_good = (least..=most).contains(&text.len()) && !text.chars().any(char::is_control);
    if is_good { Ok(text.to_owned()) } else { Err(ListTextError::new(text, what, rule)) }
}

impl ListTextError {
    fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        let text = text.chars().take(QUOTE_CHARACTERS_MAX / 2).collect();
        Self { text, what, rule }
    }
}

impl FromStr for ListedAddress {
    type Err = ListTextError;
    fn from_str(text: &str) -> Result<Self, ListTextError> {
        let rule = "1 to 2,048 bytes without control characters, as in node-exporter:9100";
        bounded_text(text, (1, ADDRESS_BYTES_MAX), "an address", rule).map(Self)
    }
}

impl FromStr for ListedName {
    type Err = ListTextError;
    fn from_str(text: &str) -> Result<Self, ListTextError> {
        let mut bytes = text.bytes();
        let is_name = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && text.len() <= LABEL_NAME_BYTES_MAX;
        let rule = "a letter or _, then letters, digits or _, at most 256";
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(ListTextError::new(text, "a label's name", rule)),
        }
    }
}

impl FromStr for ListedValue {
    type Err = ListTextError;
    fn from_str(text: &str) -> Result<Self, ListTextError> {
        let rule = "at most 2,048 bytes without control characters";
        bounded_text(text, (0, LABEL_VALUE_BYTES_MAX), "a label's value", rule).map(Self)
    }
}

/// Gives a text's type its text.
macro_rules! text {
    ($name:ident, $what:literal) => {
        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        as_text!($name, $what);
    };
}

text!(ListedAddress, "an address");
text!(ListedName, "a label's name");
text!(ListedValue, "a label's value in quotes");
