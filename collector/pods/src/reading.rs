//! How a pod's annotations ask for its logs to be read. Pure.
//!
//! `millrace.dev/logs`, `millrace.dev/logs-parser` and `millrace.dev/logs-multiline` are of all of
//! a pod's containers; with `.CONTAINER` behind they are of one. What can't be used is left out,
//! one annotation at a time, and told.

use std::collections::BTreeMap;
use std::fmt;

use millrace_config::Traces;
use millrace_lines::{FOREIGN_PATTERN_BYTES_MAX, Multiline as Compiled};
use millrace_pipeline::pods::{Multiline, Parser, Reading, Wanted};

/// What the names of these annotations begin with.
pub const ANNOTATION: &str = "millrace.dev/logs";

/// Names and values of one pod's annotations of this kind, in bytes: a dozen containers with a
/// pattern each. 1,024 pods have 4 MiB of them at most.
pub const READING_BYTES_MAX: usize = 4 * 1024;

/// The longest pattern. Those of dates and levels have some 40 characters.
const PATTERN_CHARACTERS_MAX: usize = 256;

/// Most annotations of one pod that are told as wrong. A pod may have thousands, and each is kept
/// so that it is told once: 8 of some 500 bytes are 4 MiB for 1,024 pods.
pub const FAULTS_MAX: usize = 8;

/// What is shown of a value that can't be used.
const SHOWN_CHARACTERS: usize = 64;

/// An annotation that can't be used, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    annotation: String,
    value: String,
    /// What to write.
    remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { annotation, value, remedy } = self;
        write!(f, "{annotation}: {value:?} can't be used: {remedy}")
    }
}

/// What annotations say: of all containers, of single ones, and what of it can't be used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Readings {
    pub(crate) all: Reading,
    pub(crate) containers: BTreeMap<String, Reading>,
    pub(crate) faults: Vec<Fault>,
}

/// The part of a reading that an annotation says.
enum Said {
    Wanted(Wanted),
    Parser(Parser),
    Multiline(Multiline),
}

impl Readings {
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Self {
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
            let said = if bytes > READING_BYTES_MAX {
                Err(format!("{READING_BYTES_MAX} bytes are read of these annotations: write less"))
            } else {
                read(what, value)
            };
            match (said, container) {
                (Err(_), _) if readings.faults.len() >= FAULTS_MAX => {}
                (Err(remedy), _) => readings.faults.push(Fault::new(name, value, remedy)),
                (Ok(said), None) => put(&mut readings.all, said),
                (Ok(said), Some(container)) => {
                    put(readings.containers.entry(container.to_owned()).or_default(), said);
                }
            }
        }
        readings
    }
}

fn put(reading: &mut Reading, said: Said) {
    match said {
        Said::Wanted(wanted) => reading.wanted = Some(wanted),
        Said::Parser(parser) => reading.parser = Some(parser),
        Said::Multiline(multiline) => reading.multiline = Some(multiline),
    }
}

/// What one annotation says, by the end of its name; or what to write instead.
fn read(what: &str, value: &str) -> Result<Said, String> {
    let word = value.trim().to_ascii_lowercase();
    match what {
        "" => match word.as_str() {
            "off" => Ok(Said::Wanted(Wanted::Off)),
            "on" => Ok(Said::Wanted(Wanted::On)),
            _ => Err("write on or off, in quotes".to_owned()),
        },
        "-parser" => Ok(Said::Parser(match word.as_str() {
            "none" => Parser::None,
            "json" => Parser::Json,
            "logfmt" => Parser::Logfmt,
            _ => return Err("write json, logfmt or none".to_owned()),
        })),
        "-multiline" => Ok(Said::Multiline(match word.as_str() {
            "none" => Multiline::None,
            "java" => Multiline::Traces(Traces::Java),
            "python" => Multiline::Traces(Traces::Python),
            "go" => Multiline::Traces(Traces::Go),
            "nodejs" => Multiline::Traces(Traces::NodeJs),
            "rust" => Multiline::Traces(Traces::Rust),
            _ => return pattern(value).map(Said::Multiline),
        })),
        _ => Err(format!(
            "no annotation has this name: write {ANNOTATION}, {ANNOTATION}-parser or \
             {ANNOTATION}-multiline, with .CONTAINER behind for one container"
        )),
    }
}

/// A pattern that compiles. `^` tells it from a word that is misspelt.
fn pattern(value: &str) -> Result<Multiline, String> {
    if !value.starts_with('^') {
        return Err("write java, python, go, nodejs, rust, none, or a regular expression that \
                    begins with ^"
            .to_owned());
    }
    if value.chars().count() > PATTERN_CHARACTERS_MAX {
        return Err(format!("write a pattern of {PATTERN_CHARACTERS_MAX} characters at most"));
    }
    match Compiled::foreign_start(value) {
        Ok(_) => Ok(Multiline::Start(value.to_owned())),
        // The error shows the pattern, whatever that is.
        Err(_) => Err(format!(
            "write a regular expression (RE2's syntax) of at most {} KiB when compiled",
            FOREIGN_PATTERN_BYTES_MAX / 1024
        )),
    }
}

impl Fault {
    fn new(annotation: &str, value: &str, remedy: String) -> Self {
        let value = value.chars().take(SHOWN_CHARACTERS).collect();
        Self { annotation: annotation.to_owned(), value, remedy }
    }
}

#[cfg(test)]
#[path = "../tests/unit/reading.rs"]
mod tests;
