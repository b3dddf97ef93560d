//! Parses the annotations that determine how a pod's logs are read. Pure.
//!
//! `millrace.dev/logs`, `millrace.dev/logs-parser` and `millrace.dev/logs-multiline` apply to all
//! containers of a pod; with the suffix `.CONTAINER` they apply to one. Each invalid annotation is
//! skipped and reported.

use std::collections::BTreeMap;
use std::fmt;

use millrace_config::StackTraces;
use millrace_lines::{FOREIGN_PATTERN_BYTES_MAX, MultilineRule as Compiled};
use millrace_pipeline::pods::{LogReading, PodMultiline, Reading, TextParser};

/// The prefix of these annotations' names.
pub const ANNOTATION: &str = "millrace.dev/logs";

/// The most bytes of one pod's annotations of this kind, names and values: a dozen containers with
/// a pattern each. 1,024 pods have 4 MiB of them at most.
pub const READING_BYTES_MAX: usize = 4 * 1024;

/// The longest pattern. Those of dates and levels have some 40 characters.
const PATTERN_CHARACTERS_MAX: usize = 256;

/// The most invalid annotations of one pod that are reported. A pod may have thousands, and each is
/// stored so that it is reported once: 8 of some 500 bytes are 4 MiB for 1,024 pods.
pub const FAULTS_MAX: usize = 8;

/// The most characters of an invalid value that are shown.
const SHOWN_CHARACTERS: usize = 64;

/// An invalid annotation, and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationFault {
    annotation: String,
    value: String,
    /// The text to write instead.
    remedy: String,
}

impl fmt::Display for AnnotationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { annotation, value, remedy } = self;
        write!(f, "{annotation}: {value:?} is invalid: {remedy}")
    }
}

/// The content of annotations for all containers, for single ones, and the invalid ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    pub(crate) all: Reading,
    pub(crate) containers: BTreeMap<String, Reading>,
    pub(crate) faults: Vec<AnnotationFault>,
}

/// The value of one annotation.
enum AnnotationValue {
    Logs(LogReading),
    Parser(TextParser),
    Multiline(PodMultiline),
}

impl Readings {
    pub(crate) fn from_annotations(annotations: &BTreeMap<String, String>) -> Self {
        let mut readings = Self::default();
        let mut bytes = 0;
        let of_ours = annotations
            .range(ANNOTATION.to_owned()..)
            .take_while(|(name, _)| name.starts_with(ANNOTATION));
        for (name, value) in of_ours {
            let rest = name.get(ANNOTATION.len()..).unwrap_or_default();
            let (what, container) = match rest.split_once('.') {
                Some((what, container)) => (what, Some(container)),
                None => (rest, None),
            };
            bytes += name.len() + value.len();
            let parsed = if bytes > READING_BYTES_MAX {
                Err(format!(
                    "only {READING_BYTES_MAX} bytes of these annotations are read: shorten them"
                ))
            } else {
                read(what, value)
            };
            match (parsed, container) {
                (Err(_), _) if readings.faults.len() >= FAULTS_MAX => {}
                (Err(remedy), _) => readings.faults.push(AnnotationFault::new(name, value, remedy)),
                (Ok(parsed), None) => apply_value(&mut readings.all, parsed),
                (Ok(parsed), Some(container)) => {
                    apply_value(
                        readings.containers.entry(container.to_owned()).or_default(),
                        parsed,
                    );
                }
            }
        }
        readings
    }
}

fn apply_value(reading: &mut Reading, value: AnnotationValue) {
    match value {
        AnnotationValue::Logs(logs) => reading.logs = Some(logs),
        AnnotationValue::Parser(parser) => reading.parser = Some(parser),
        AnnotationValue::Multiline(multiline) => reading.multiline = Some(multiline),
    }
}

/// Parses one annotation by its name's suffix. Errors state the correction.
fn read(what: &str, value: &str) -> Result<AnnotationValue, String> {
    let word = value.trim().to_ascii_lowercase();
    match what {
        "" => match word.as_str() {
            "off" => Ok(AnnotationValue::Logs(LogReading::Off)),
            "on" => Ok(AnnotationValue::Logs(LogReading::On)),
            _ => Err("use on or off, in quotes".to_owned()),
        },
        "-parser" => Ok(AnnotationValue::Parser(match word.as_str() {
            "none" => TextParser::None,
            "json" => TextParser::Json,
            "logfmt" => TextParser::Logfmt,
            _ => return Err("use json, logfmt or none".to_owned()),
        })),
        "-multiline" => Ok(AnnotationValue::Multiline(match word.as_str() {
            "none" => PodMultiline::None,
            "java" => PodMultiline::Traces(StackTraces::Java),
            "python" => PodMultiline::Traces(StackTraces::Python),
            "go" => PodMultiline::Traces(StackTraces::Go),
            "nodejs" => PodMultiline::Traces(StackTraces::NodeJs),
            "rust" => PodMultiline::Traces(StackTraces::Rust),
            _ => return parse_pattern(value).map(AnnotationValue::Multiline),
        })),
        _ => Err(format!(
            "unknown annotation: use {ANNOTATION}, {ANNOTATION}-parser or {ANNOTATION}-multiline, \
             followed by .CONTAINER for one container"
        )),
    }
}

/// Parses a pattern and checks that it compiles. `^` distinguishes it from a misspelt word.
fn parse_pattern(value: &str) -> Result<PodMultiline, String> {
    if !value.starts_with('^') {
        return Err(
            "use java, python, go, nodejs, rust, none, or a regular expression that begins with ^"
                .to_owned(),
        );
    }
    if value.chars().count() > PATTERN_CHARACTERS_MAX {
        return Err(format!("use a pattern of at most {PATTERN_CHARACTERS_MAX} characters"));
    }
    match Compiled::from_foreign_pattern(value) {
        Ok(_) => Ok(PodMultiline::Start(value.to_owned())),
        // The error would show the pattern, whatever its content.
        Err(_) => Err(format!(
            "use a regular expression (RE2 syntax; classes are ASCII only, so no \\p{{Lu}} and no \
             other letters in brackets) of at most {} KiB when compiled: counted repetitions after \
             a variable beginning, as in ^.*x.{{20}}, need the most",
            FOREIGN_PATTERN_BYTES_MAX / 1024
        )),
    }
}

impl AnnotationFault {
    fn new(annotation: &str, value: &str, remedy: String) -> Self {
        let value = value.chars().take(SHOWN_CHARACTERS).collect();
        Self { annotation: annotation.to_owned(), value, remedy }
    }
}

#[cfg(test)]
mod tests;
