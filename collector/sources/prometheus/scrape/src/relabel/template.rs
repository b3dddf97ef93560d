//! Replacements, as Go's `Regexp.Expand` reads them: `$1`, `${1}` and `${name}` are replaced by a
//! group's match, `$$` by a dollar.

use std::sync::LazyLock;

use regex::{CaptureLocations, Regex};

/// A parsed replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Text(String),
    /// The first of these groups that matched: several may have one name.
    Groups(Vec<usize>),
}

impl Template {
    /// Parses a replacement for a pattern whose groups have these names, the complete match first.
    /// An unknown group is replaced by nothing.
    pub(super) fn new(text: &str, groups: &[Option<String>]) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            rest = after;
            if let Some(after) = rest.strip_prefix('$') {
                literal.push('$');
                rest = after;
                continue;
            }
            let Some((name, after)) = parse_reference(rest) else {
                literal.push('$');
                continue;
            };
            rest = after;
            let found = groups_named(name, groups);
            if !found.is_empty() {
                if !literal.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut literal)));
                }
                parts.push(TemplatePart::Groups(found));
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Text(literal));
        }
        Self(parts)
    }

    /// Whether it refers to groups other than the complete match.
    pub(super) fn has_groups(&self) -> bool {
        self.0.iter().any(|part| matches!(part, TemplatePart::Groups(groups) if *groups != [0]))
    }

    /// Writes the text to `out`, for a match in `value`.
    pub(super) fn expand_into(&self, value: &str, groups: Groups<'_>, out: &mut String) {
        out.clear();
        for part in &self.0 {
            match part {
                TemplatePart::Text(text) => out.push_str(text),
                TemplatePart::Groups(indexes) => {
                    let found = indexes.iter().find_map(|index| groups.get(*index, value));
                    out.push_str(found.unwrap_or_default());
                }
            }
        }
    }
}

/// The matches of groups.
#[derive(Debug, Clone, Copy)]
pub(super) enum Groups<'a> {
    /// All requested groups matched the complete value.
    EntireMatch,
    Captured(&'a CaptureLocations),
}

impl Groups<'_> {
    fn get<'t>(&self, group: usize, value: &'t str) -> Option<&'t str> {
        match self {
            Self::EntireMatch => Some(value),
            Self::Captured(found) => {
                found.get(group).and_then(|(start, end)| value.get(start..end))
            }
        }
    }
}

/// Parses a reference after a dollar. Returns it and the rest; `None` if the dollar is a character.
fn parse_reference(text: &str) -> Option<(&str, &str)> {
    let (is_braced, text) = match text.strip_prefix('{') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let end = text.find(|one| !is_name_char(one)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).filter(|(name, _)| !name.is_empty())?;
    match is_braced {
        true => Some((name, rest.strip_prefix('}')?)),
        false => Some((name, rest)),
    }
}

/// Whether a group's name may contain a character: letters and decimal digits of any script.
fn is_name_char(one: char) -> bool {
    static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{Nd}]$").ok());
    if one.is_ascii() {
        return one.is_ascii_alphanumeric() || one == '_';
    }
    WORD.as_ref().is_some_and(|word| word.is_match(one.encode_utf8(&mut [0; 4])))
}

/// Returns the groups with a name or number.
fn groups_named(name: &str, groups: &[Option<String>]) -> Vec<usize> {
    let is_number =
        name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if is_number {
        let number = name.parse().ok().filter(|number: &usize| *number < groups.len());
        return number.into_iter().collect();
    }
    let has_name = |index: &usize| groups[*index].as_deref() == Some(name);
    (0..groups.len()).filter(has_name).collect()
}
