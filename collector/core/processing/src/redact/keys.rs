//! What happens to a value because of its key.

use regex::bytes::{RegexSet, RegexSetBuilder};

use super::KeyListConfig;
use super::limits::{KEY_NAMES_MAX, PATTERN_BYTES_MAX};
use super::problem::RedactProblemKind;

/// The memory limit of a list's compiled patterns.
const PATTERNS_BYTES_MAX: usize = 1024 * 1024;

/// What happens to a value because of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDecision {
    /// The value is read.
    Scan,
    /// The value stays as it is, unread.
    Ignore,
    /// The key isn't on the list of allowed ones: the attribute is removed.
    Remove,
    /// The entire value is redacted, whatever it contains.
    Block,
}

/// The lists of keys.
#[derive(Debug, Default)]
pub(super) struct KeyRules {
    pub(super) ignored: KeyList,
    pub(super) allowed: Option<KeyList>,
    pub(super) blocked: KeyList,
}

impl KeyRules {
    pub(super) fn decide(&self, key: &[u8]) -> KeyDecision {
        match &self.allowed {
            Some(allowed) if !self.ignored.contains(key) && !allowed.contains(key) => {
                KeyDecision::Remove
            }
            _ => self.decide_member(key),
        }
    }

    pub(super) fn decide_member(&self, key: &[u8]) -> KeyDecision {
        if self.ignored.contains(key) {
            KeyDecision::Ignore
        } else if self.blocked.contains(key) {
            KeyDecision::Block
        } else {
            KeyDecision::Scan
        }
    }
}

/// A list of keys, compiled.
#[derive(Debug, Default)]
pub(super) struct KeyList {
    /// In order of length, then of bytes: most keys differ in length from those compared.
    names: Vec<Box<[u8]>>,
    patterns: Option<RegexSet>,
}

impl KeyList {
    pub(super) fn compile(config: &KeyListConfig) -> Result<Self, RedactProblemKind> {
        let count = config.names.len().max(config.patterns.len());
        if count > KEY_NAMES_MAX {
            return Err(RedactProblemKind::TooManyKeys(count));
        }
        let mut names: Vec<Box<[u8]>> =
            config.names.iter().map(|name| name.as_bytes().into()).collect();
        names.sort_unstable_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names.dedup();
        let longest = config.patterns.iter().map(String::len).max().unwrap_or_default();
        if longest > PATTERN_BYTES_MAX {
            return Err(RedactProblemKind::PatternLength(longest));
        }
        let patterns = (!config.patterns.is_empty())
            .then(|| {
                RegexSetBuilder::new(&config.patterns)
                    .unicode(false)
                    .size_limit(PATTERNS_BYTES_MAX)
                    .build()
            })
            .transpose()
            .map_err(|error| RedactProblemKind::Pattern(error.to_string()))?;
        Ok(Self { names, patterns })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_none()
    }

    #[inline]
    fn contains(&self, key: &[u8]) -> bool {
        !self.is_empty() && self.contains_any(key)
    }

    fn contains_any(&self, key: &[u8]) -> bool {
        self.names.binary_search_by(|name| (name.len(), &name[..]).cmp(&(key.len(), key))).is_ok()
            || self.patterns.as_ref().is_some_and(|patterns| patterns.is_match(key))
    }
}
