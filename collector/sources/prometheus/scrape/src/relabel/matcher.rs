//! Compiles a rule's regular expression. Patterns that need no engine (`.*`, `a|b|c`, `go_.*`) are
//! matched directly: most rules on `__name__` have such patterns and see each sample.

use hashbrown::HashTable;
use regex::{CaptureLocations, Regex, RegexBuilder};

use super::pattern::{PatternError, translate_pattern};
use super::template::Groups;

/// The longest pattern. A list of 500 metric names has some 15 KiB.
pub const PATTERN_BYTES_MAX: usize = 16 * 1024;

/// The most memory of a compiled pattern: 256 rules with it take 512 MiB, usual ones 1 KiB each.
pub const COMPILED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The most memory of a search, in each thread that searches.
const SEARCH_BYTES_MAX: usize = 256 * 1024;

/// The most prefixes that are compared one after the other.
const PREFIXES_MAX: usize = 16;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    method: MatchMethod,
    /// The names of its groups, the complete match first.
    groups: Vec<Option<String>>,
}

#[derive(Debug, Clone)]
enum MatchMethod {
    /// `.*`: matches any value.
    Any,
    /// Exact texts and prefixes.
    Texts(Texts),
    Regex(Regex),
}

#[derive(Debug, Clone, Default)]
struct Texts {
    exact: HashTable<Box<str>>,
    prefixes: Vec<Box<str>>,
}

impl Matcher {
    /// Compiles a pattern that must match the complete value.
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::Long);
        }
        let translated = translate_pattern(pattern)?;
        let groups = translated.groups;
        if matches!(pattern, ".*" | "(.*)") {
            return Ok(Self { method: MatchMethod::Any, groups });
        }
        if let Some(texts) = Texts::of_pattern(pattern) {
            return Ok(Self { method: MatchMethod::Texts(texts), groups });
        }
        let regex = RegexBuilder::new(&translated.text)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(SEARCH_BYTES_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::Big,
                error => PatternError::Engine(error.to_string()),
            })?;
        Ok(Self { method: MatchMethod::Regex(regex), groups })
    }

    pub(super) fn groups(&self) -> &[Option<String>] {
        &self.groups
    }

    #[inline]
    pub(super) fn matches(&self, value: &str) -> bool {
        match &self.method {
            MatchMethod::Any => true,
            MatchMethod::Texts(texts) => texts.matches(value),
            MatchMethod::Regex(regex) => regex.is_match(value),
        }
    }

    /// Calls `take` with the matched groups, if the value matches. `needs_groups`: a group other
    /// than the complete match is needed.
    pub(super) fn match_groups<T>(
        &self,
        value: &str,
        needs_groups: bool,
        take: impl FnOnce(Groups<'_>) -> T,
    ) -> Option<T> {
        if let (MatchMethod::Regex(regex), true) = (&self.method, needs_groups) {
            let mut found: CaptureLocations = regex.capture_locations();
            return regex.captures_read(&mut found, value).map(|_| take(Groups::Captured(&found)));
        }
        // Without an engine, each group encloses the complete pattern.
        self.matches(value).then(|| take(Groups::EntireMatch))
    }
}

impl Texts {
    /// Parses `a|b|c.*`, also in one group. Returns `None` for any other pattern.
    fn of_pattern(pattern: &str) -> Option<Self> {
        let inner = match pattern.strip_prefix('(') {
            Some(rest) => rest.strip_prefix("?:").unwrap_or(rest).strip_suffix(')')?,
            None => pattern,
        };
        let mut texts = Self::default();
        for part in inner.split('|') {
            let (text, is_prefix) = match part.strip_suffix(".*") {
                Some(text) => (text, true),
                None => (part, false),
            };
            let is_plain =
                |byte: u8| byte.is_ascii_alphanumeric() || b"_:/-, ;@#%&=~<>\"'!`".contains(&byte);
            if !text.bytes().all(is_plain) {
                return None;
            }
            if is_prefix {
                texts.prefixes.push(text.into());
            } else if texts.find_exact(text).is_none() {
                texts.exact.insert_unique(hash(text), text.into(), |text| hash(text));
            }
        }
        (texts.prefixes.len() <= PREFIXES_MAX).then_some(texts)
    }

    fn find_exact(&self, text: &str) -> Option<&str> {
        self.exact.find(hash(text), |known| **known == *text).map(|text| &**text)
    }

    #[inline]
    fn matches(&self, value: &str) -> bool {
        let is_exact = !self.exact.is_empty() && self.find_exact(value).is_some();
        is_exact || self.prefixes.iter().any(|prefix| value.starts_with(&**prefix))
    }
}

#[inline]
fn hash(text: &str) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(3).build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}
