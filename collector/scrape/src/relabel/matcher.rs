//! A rule's regular expression, ready: patterns that need no engine (`.*`, `a|b|c`, `go_.*`) are
//! told apart, since rules on `__name__` are mostly such and meet each sample.

use hashbrown::HashTable;
use regex::{CaptureLocations, Regex, RegexBuilder};

use super::pattern::{PatternError, translate};
use super::template::Groups;

/// The longest pattern. A list of 500 metrics' names has some 15 KiB.
pub const PATTERN_BYTES_MAX: usize = 16 * 1024;

/// What a compiled pattern may take: 256 rules with it are 512 MiB, usual ones 1 KiB each.
pub const COMPILED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// What a search may keep beside it, in each thread that searches.
const SEARCH_BYTES_MAX: usize = 256 * 1024;

/// Prefixes are tried one after the other.
const PREFIXES_MAX: usize = 16;

/// A pattern that is ready.
#[derive(Debug, Clone)]
pub(super) struct Matcher {
    way: Way,
    /// Names of its groups, the whole match first.
    groups: Vec<Option<String>>,
}

#[derive(Debug, Clone)]
enum Way {
    /// `.*`: anything.
    Any,
    /// Texts, and texts that are followed by anything.
    Texts(Texts),
    Regex(Regex),
}

#[derive(Debug, Clone, Default)]
struct Texts {
    exact: HashTable<Box<str>>,
    prefixes: Vec<Box<str>>,
}

impl Matcher {
    /// Compiles a pattern that is to match all of a value.
    pub(super) fn new(pattern: &str) -> Result<Self, PatternError> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::Long);
        }
        let translated = translate(pattern)?;
        let groups = translated.groups;
        if matches!(pattern, ".*" | "(.*)") {
            return Ok(Self { way: Way::Any, groups });
        }
        if let Some(texts) = Texts::of_pattern(pattern) {
            return Ok(Self { way: Way::Texts(texts), groups });
        }
        let regex = RegexBuilder::new(&translated.text)
            .size_limit(COMPILED_BYTES_MAX)
            .dfa_size_limit(SEARCH_BYTES_MAX)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::Big,
                error => PatternError::Engine(error.to_string()),
            })?;
        Ok(Self { way: Way::Regex(regex), groups })
    }

    pub(super) fn groups(&self) -> &[Option<String>] {
        &self.groups
    }

    #[inline]
    pub(super) fn matches(&self, value: &str) -> bool {
        match &self.way {
            Way::Any => true,
            Way::Texts(texts) => texts.matches(value),
            Way::Regex(regex) => regex.is_match(value),
        }
    }

    /// What groups matched, if the value matches. `needs_groups`: whether any but the whole match
    /// is asked for.
    pub(super) fn find<T>(
        &self,
        value: &str,
        needs_groups: bool,
        take: impl FnOnce(Groups<'_>) -> T,
    ) -> Option<T> {
        if let (Way::Regex(regex), true) = (&self.way, needs_groups) {
            let mut found: CaptureLocations = regex.capture_locations();
            return regex.captures_read(&mut found, value).map(|_| take(Groups::Found(&found)));
        }
        // Where no engine runs, a group encloses all of the pattern.
        self.matches(value).then(|| take(Groups::Whole))
    }
}

impl Texts {
    /// Those of `a|b|c.*`, or of that in one group. None where it is anything else.
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
            } else if texts.find(text).is_none() {
                texts.exact.insert_unique(hash(text), text.into(), |text| hash(text));
            }
        }
        (texts.prefixes.len() <= PREFIXES_MAX).then_some(texts)
    }

    fn find(&self, text: &str) -> Option<&str> {
        self.exact.find(hash(text), |known| **known == *text).map(|text| &**text)
    }

    #[inline]
    fn matches(&self, value: &str) -> bool {
        let is_exact = !self.exact.is_empty() && self.find(value).is_some();
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
