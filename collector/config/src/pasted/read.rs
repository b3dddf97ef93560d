//! Values of pasted YAML, and what is wrong with them, by line.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use serde_norway::Value;

use crate::lines::Lines;

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
pub(super) struct Reader {
    lines: Lines,
    problems: Vec<String>,
}

impl Reader {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, problems: Vec::new() }
    }

    /// What is wrong: at most so many.
    pub(super) fn problems(self, most: usize) -> Vec<String> {
        let mut problems = self.problems;
        let more = problems.len().saturating_sub(most);
        problems.truncate(most);
        if more > 0 {
            problems.push(format!("and {more} more"));
        }
        problems
    }

    pub(super) fn count(&self) -> usize {
        self.problems.len()
    }

    /// Says that what stands at a path isn't taken, and what to do.
    pub(super) fn refuse(&mut self, at: &str, what_to_do: &str) {
        let line = self.lines.position(at).map_or(1, |(line, _)| line);
        self.problems.push(format!("line {line}: {at}: {what_to_do}"));
    }

    /// Each field of a mapping.
    pub(super) fn fields(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &str, &Value),
    ) {
        let Value::Mapping(fields) = value else {
            self.refuse(at, "write fields, each with its value");
            return;
        };
        for (name, value) in fields {
            let Value::String(name) = name else {
                self.refuse(at, "a field's name must be a text");
                continue;
            };
            let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            take(self, name, &at, value);
        }
    }

    pub(super) fn list<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> Vec<T> {
        let Value::Sequence(items) = value else {
            self.refuse(at, "write a list");
            return Vec::new();
        };
        let items = items.iter().enumerate();
        items.map(|(place, item)| take(self, &format!("{at}[{place}]"), item)).collect()
    }

    pub(super) fn map<T>(
        &mut self,
        at: &str,
        value: &Value,
        mut take: impl FnMut(&mut Self, &str, &Value) -> T,
    ) -> BTreeMap<String, T> {
        let mut map = BTreeMap::new();
        self.fields(at, value, |reader, name, at, value| {
            map.insert(name.to_owned(), take(reader, at, value));
        });
        map
    }

    /// A text, or what YAML takes for a number or a flag.
    pub(super) fn text(&mut self, at: &str, value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => {
                self.refuse(at, "write a text");
                String::new()
            }
        }
    }

    pub(super) fn flag(&mut self, at: &str, value: &Value) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.refuse(at, "write true or false");
            false
        })
    }

    /// A text that is checked.
    pub(super) fn parsed<T: FromStr<Err: Display>>(
        &mut self,
        at: &str,
        value: &Value,
    ) -> Option<T> {
        let text = self.text(at, value);
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(at, &error.to_string());
                None
            }
        }
    }

    /// A limit, of which 0 is none.
    pub(super) fn limit(&mut self, at: &str, value: &Value) -> Option<u32> {
        self.parsed(at, value).filter(|limit| *limit > 0)
    }

    /// A size with its unit. 0 needs none.
    pub(super) fn bytes(&mut self, at: &str, value: &Value) -> Option<u64> {
        let text = self.text(at, value);
        let bytes = bytes(&text);
        if bytes.is_none() {
            self.refuse(at, "write a whole number and its unit, as in 512MB");
        }
        bytes
    }

    /// A time in whole seconds.
    pub(super) fn seconds(&mut self, at: &str, value: &Value) -> Option<u32> {
        let text = self.text(at, value);
        let seconds = millis(&text)
            .filter(|millis| *millis > 0 && millis % 1000 == 0)
            .and_then(|millis| u32::try_from(millis / 1000).ok());
        if seconds.is_none() {
            self.refuse(at, "write whole seconds, as in 15s or 1m30s");
        }
        seconds
    }
}

/// A size such as `512MB`, of which a thousand are 1,024.
fn bytes(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (digits, power) = SIZES
        .iter()
        .find_map(|(unit, power)| text.strip_suffix(unit).map(|digits| (digits, *power)))?;
    digits.parse::<u64>().ok()?.checked_mul(1 << power)
}

/// A time such as `1m30s`.
fn millis(text: &str) -> Option<u64> {
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
