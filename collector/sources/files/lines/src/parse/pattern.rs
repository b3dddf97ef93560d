//! Matches a regular expression whose named groups are fields.
//!
//! Most patterns end with a group for the remainder of the line, as in `(?P<message>.*)$`. Matching
//! that takes most of the time and finds nothing, so only the pattern before it is matched, and the
//! remainder is that group.

use memchr::memchr;
use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

use super::ParseFault;
use super::sink::{FieldSink, FieldValue};
use crate::form::pattern_error::{PATTERN_BYTES_MAX, PatternError};

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    full: Regex,
    /// The pattern before a last group that matches the remainder of the line.
    head: Option<Regex>,
    /// The named groups, in order.
    names: Vec<(usize, String)>,
}

/// The positions of groups, reused for each line.
#[derive(Clone, Debug)]
pub(crate) struct Locations {
    full: CaptureLocations,
    head: Option<CaptureLocations>,
}

impl Pattern {
    /// Compiles the pattern.
    ///
    /// # Errors
    /// If it is malformed, too large, or no group is named.
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        let compile =
            |pattern: &str| RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
        let full = compile(pattern)?;
        let names = full.capture_names().enumerate();
        let names: Vec<_> =
            names.filter_map(|(group, name)| Some((group, name?.to_owned()))).collect();
        if names.is_empty() {
            return Err(PatternError::NoName);
        }
        let head = before_last_group(pattern).and_then(|head| compile(head).ok());
        let head = head.filter(|head| head.captures_len() + 1 == full.captures_len());
        Ok(Self { full, head, names })
    }

    pub(super) fn new_locations(&self) -> Locations {
        Locations {
            full: self.full.capture_locations(),
            head: self.head.as_ref().map(Regex::capture_locations),
        }
    }

    /// Passes the matched groups to `sink`.
    pub(super) fn parse_text<'a>(
        &self,
        text: &'a [u8],
        locations: &mut Locations,
        sink: &mut FieldSink<'_, 'a>,
    ) -> Result<(), ParseFault> {
        let Locations { full, head } = locations;
        let (found, rest) = match (&self.head, head) {
            (Some(regex), Some(head)) if memchr(b'\n', text).is_none() => {
                let found = regex.captures_read(head, text).ok_or(ParseFault::Malformed)?;
                (head, Some(&text[found.end()..]))
            }
            _ => {
                self.full.captures_read(full, text).ok_or(ParseFault::Malformed)?;
                (full, None)
            }
        };
        for (group, name) in &self.names {
            let value = match found.get(*group) {
                Some((start, end)) => &text[start..end],
                None if *group == found.len() => rest.unwrap_or_default(),
                None => continue,
            };
            sink.write_field(name.as_bytes(), value, FieldValue::Text(value))?;
        }
        Ok(())
    }
}

/// Returns the pattern before a last named group that matches the remainder of a line without line
/// feeds. None without such a group, or if that pattern may have another meaning alone: with flags,
/// or with alternatives of which the last has the group.
fn before_last_group(pattern: &str) -> Option<&str> {
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

/// Whether the pattern has neither flags nor alternatives outside of groups.
fn has_one_meaning(head: &str) -> bool {
    let mut rest = head.as_bytes();
    let (mut groups, mut classes) = (0_usize, 0_usize);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => rest = rest.get(1..).unwrap_or_default(),
            b'[' => {
                // A bracket at the beginning of a class is literal.
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

    /// Scenario: patterns with and without a last group for the remainder of the line. Guarantee:
    /// the pattern before it is matched alone only if that has the same meaning.
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
            assert_eq!(before_last_group(pattern), head, "{pattern}");
        }
    }

    /// Scenario: an escaped bracket that looks like a group's. Guarantee: a pattern that is invalid
    /// alone is not matched alone.
    #[test]
    fn what_can_not_stand_alone_is_not_matched_alone() {
        let pattern = Pattern::new(r"(?P<a>x(y\(?P<b>.*))").unwrap();
        assert!(pattern.head.is_none());
        assert!(Pattern::new(r"(?P<a>x)(?P<b>.*)$").unwrap().head.is_some());
    }
}
