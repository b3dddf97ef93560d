//! A regular expression whose named groups are fields.
//!
//! Most patterns end with a group for the rest of the line, as in `(?P<message>.*)$`. Matching that
//! takes most of the time and finds nothing: the pattern is matched up to there, and the rest is
//! that group.

use memchr::memchr;
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::ParseFault;
use super::sink::{Sink, Value};
use crate::form::{PATTERN_BYTES_MAX, PatternError};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    whole: Regex,
    /// What precedes a last group for the rest of the line.
    head: Option<Regex>,
    /// The groups that have names, in order.
    names: Vec<(usize, String)>,
}

/// Where groups were found, used again for each line.
#[derive(Clone, Debug)]
pub(super) struct Locations {
    whole: CaptureLocations,
    head: Option<CaptureLocations>,
}

impl Pattern {
    /// Compiles it.
    ///
    /// # Errors
    /// It is malformed, too large, or no group has a name.
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let compile =
            |pattern: &str| RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        let whole = compile(pattern)?;
        let names = whole.capture_names().enumerate();
        let names: Vec<_> =
            names.filter_map(|(group, name)| Some((group, name?.to_owned()))).collect();
        if names.is_empty() {
            return Err(PatternError::NoName);
        }
        let head = before_rest(pattern).and_then(|head| compile(head).ok());
        let head = head.filter(|head| head.captures_len() + 1 == whole.captures_len());
        Ok(Self { whole, head, names })
    }

    pub(super) fn locations(&self) -> Locations {
        Locations {
            whole: self.whole.capture_locations(),
            head: self.head.as_ref().map(Regex::capture_locations),
        }
    }

    /// Passes the groups that matched to `sink`.
    pub(super) fn parse<'a>(
        &self,
        text: &'a [u8],
        locations: &mut Locations,
        sink: &mut Sink<'_, 'a>,
    ) -> Result<(), ParseFault> {
        let Locations { whole, head } = locations;
        let (found, rest) = match (&self.head, head) {
            (Some(regex), Some(head)) if memchr(b'\n', text).is_none() => {
                let found = regex.captures_read(head, text).ok_or(ParseFault::Malformed)?;
                (head, Some(&text[found.end()..]))
            }
            _ => {
                self.whole.captures_read(whole, text).ok_or(ParseFault::Malformed)?;
                (whole, None)
            }
        };
        for (group, name) in &self.names {
            let value = match found.get(*group) {
                Some((start, end)) => &text[start..end],
                None if *group == found.len() => rest.unwrap_or_default(),
                None => continue,
            };
            sink.field(name.as_bytes(), value, Value::Text(value))?;
        }
        Ok(())
    }
}

/// What precedes a last named group that takes the rest of a line without line feeds. None without
/// such a group, or if it may mean something else by itself: with flags, or with alternatives of
/// which the last has the group.
fn before_rest(pattern: &str) -> Option<&str> {
    let group = pattern.strip_suffix('$').unwrap_or(pattern).strip_suffix(">.*)")?;
    let start = group.rfind('(')?;
    let name =
        group[start..].strip_prefix("(?P<").or_else(|| group[start..].strip_prefix("(?<"))?;
    if !name.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '_' | '.')) {
        return None;
    }
    let head = &pattern[..start];
    has_one_meaning(head).then_some(head)
}

/// Whether there are neither flags nor alternatives outside of groups.
fn has_one_meaning(head: &str) -> bool {
    let mut rest = head.as_bytes();
    let (mut groups, mut classes) = (0_usize, 0_usize);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => rest = rest.get(1..).unwrap_or_default(),
            b'[' => {
                // A bracket that begins a class stands for itself.
                rest = rest.strip_prefix(b"^").unwrap_or(rest);
                rest = rest.strip_prefix(b"]").unwrap_or(rest);
                classes += 1;
            }
            b']' => classes = classes.saturating_sub(1),
            _ if classes > 0 => {}
            b'(' if rest.starts_with(b"?") => {
                let is_plain =
                    [&b"?P<"[..], b"?<", b"?:"].iter().any(|kind| rest.starts_with(kind));
                if !is_plain {
                    return false;
                }
                groups += 1;
            }
            b'(' => groups += 1,
            b')' => groups = groups.saturating_sub(1),
            b'|' if groups == 0 => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: patterns with and without a last group for the rest of the line. Guarantee: only
    /// where what is before means the same alone it is matched alone.
    #[test]
    fn only_a_last_group_that_takes_the_rest_is_left_out() {
        for (pattern, head) in [
            (r"^(?P<a>\S+) (?P<b>.*)$", Some(r"^(?P<a>\S+) ")),
            (r"^(?<a>x|y) [|(](?<b>.*)", Some(r"^(?<a>x|y) [|(]")),
            (r"[]|](?P<b>.*)", Some(r"[]|]")),
            (r"\|\((?P<b>.*)", Some(r"\|\(")),
            ("(?P<b>.*)", Some("")),
            (r"x|y(?P<b>.*)", None),
            (r"(x)|y(?P<b>.*)", None),
            (r"[(]x|y(?P<b>.*)", None),
            (r"[^](]x|y(?P<b>.*)", None),
            (r"\(x|y(?P<b>.*)", None),
            ("(?s)(?P<b>.*)", None),
            ("(?U:a+)(?P<b>.*)", None),
            ("(?P<b>.+)", None),
            ("(?P<b>.*?)", None),
            ("(?P<b>.*)x", None),
            ("((?P<b>.*))", None),
            ("(.*)", None),
        ] {
            assert_eq!(before_rest(pattern), head, "{pattern}");
        }
    }

    /// Scenario: an escaped bracket that looks like a group's. Guarantee: what can't stand alone is
    /// not matched alone.
    #[test]
    fn what_can_not_stand_alone_is_not_matched_alone() {
        let pattern = Pattern::new(r"(?P<a>x(y\(?P<b>.*))").unwrap();
        assert!(pattern.head.is_none());
        assert!(Pattern::new(r"(?P<a>x)(?P<b>.*)$").unwrap().head.is_some());
    }
}
