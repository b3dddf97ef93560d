//! Values of pasted YAML, and what is wrong with them, by line.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde_norway::Value;

use crate::document::lines::Lines;

/// Units of times, in milliseconds, the longer name of two that begin alike first.
const UNITS: [(&str, u64); 7] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_536_000_000),
];

/// Units of sizes and their powers of two, in either spelling; bytes last, since all end so.
const SIZES: [(&str, u32); 9] = [
    ("KiB", 10),
    ("MiB", 20),
    ("GiB", 30),
    ("TiB", 40),
    ("KB", 10),
    ("MB", 20),
    ("GB", 30),
    ("TB", 40),
    ("B", 0),
];

/// Reads values, and collects what is wrong.
pub(super) struct PastedReader {
    lines: Lines,
    problems: Vec<String>,
}

impl PastedReader {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, problems: Vec::new() }
    }

    /// What is wrong: at most so many.
    pub(super) fn into_problems(self, most: usize) -> Vec<String> {
        let mut problems = self.problems;
        let more = problems.len().saturating_sub(most);
        problems.truncate(most);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        problems
    }

    pub(super) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// Reports that the value at a path isn't accepted, and what to do.
    pub(super) fn refuse(&mut self, at: &str, what_to_do: &str) {
        let line = self.lines.position(at).map_or(1, |(line, _)| line);
        self.problems.push(format!("line {line}: {at}: {what_to_do}"));
    }

    /// Each field of a mapping.
    pub(super) fn read_fields(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &str, &Value),
    ) {
        let Value::Mapping(fields) = value else {
            self.refuse(at, "use a mapping of fields to values");
            return;
        };
        for (name, value) in fields {
            let Value::String(name) = name else {
                self.refuse(at, "a field name must be text");
                continue;
            };
            let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            take(self, name, &at, value);
        }
    }

    pub(super) fn read_list<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> Vec<T> {
        let Value::Sequence(items) = value else {
            self.refuse(at, "use a list");
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items.map(|(index, item)| take(self, &format!("{at}[{index}]"), item)).collect()
    }

    pub(super) fn read_map<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> BTreeMap<String, T> {
        let mut map = BTreeMap::new();
        self.read_fields(at, value, |reader, name, at, value| {
            map.insert(name.to_owned(), take(reader, at, value));
        });
        map
    }

    /// A text, or what YAML takes for a number or a flag.
    pub(super) fn read_text(&mut self, at: &str, value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => {
                self.refuse(at, "use text");
                String::new()
            }
        }
    }

    pub(super) fn read_flag(&mut self, at: &str, value: &Value) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.refuse(at, "use true or false");
            false
        })
    }

    /// A text that is checked.
    pub(super) fn read_parsed<T: FromStr<Err: Display>>(
        &mut self,
        at: &str,
        value: &Value,
    ) -> Option<T> {
        let text = self.read_text(at, value);
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(at, &error.to_string());
                None
            }
        }
    }

    /// A limit, of which 0 is none.
    pub(super) fn read_limit(&mut self, at: &str, value: &Value) -> Option<u32> {
        self.read_parsed(at, value).filter(|limit| *limit > 0)
    }

    /// A size with its unit. 0 needs none.
    pub(super) fn read_bytes(&mut self, at: &str, value: &Value) -> Option<u64> {
        let text = self.read_text(at, value);
        let bytes = parse_bytes(&text);
        if bytes.is_none() {
            self.refuse(at, "use a whole number with a unit, as in 512MB");
        }
        bytes
    }

    /// A time in whole seconds.
    pub(super) fn read_seconds(&mut self, at: &str, value: &Value) -> Option<u32> {
        let text = self.read_text(at, value);
        let seconds = parse_millis(&text)
            .filter(|millis| *millis > 0 && millis % 1000 == 0)
            .and_then(|millis| u32::try_from(millis / 1000).ok());
        if seconds.is_none() {
            self.refuse(at, "use whole seconds, as in 15s or 1m30s");
        }
        seconds
    }
}

/// A size such as `512MB`, of which a thousand are 1,024.
fn parse_bytes(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (digits, power) = SIZES
        .iter()
        .find_map(|(unit, power)| text.strip_suffix(unit).map(|digits| (digits, *power)))?;
    digits.parse::<u64>().ok()?.checked_mul(1 << power)
}

/// A time such as `1m30s`.
fn parse_millis(text: &str) -> Option<u64> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit())?;
        let (digits, behind) = rest.split_at(end);
        let (unit, length) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit))?;
        sum = sum.checked_add(digits.parse::<u64>().ok()?.checked_mul(*length)?)?;
        rest = &behind[unit.len()..];
    }
    Some(sum)
}
