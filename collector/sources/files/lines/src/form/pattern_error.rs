//! The limit of compiled patterns, and why a pattern can't be used.

use regex_automata::dfa::dense;

/// The memory limit of a compiled pattern: 1 MiB, a tenth of the library's. Patterns of log lines
/// take some KiB.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// A pattern that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It is no regular expression, or takes too much memory.
    #[error("not a valid regular expression: {0}")]
    Regex(#[from] regex::Error),
    /// As `Regex`, for [`crate::MultilineRule::from_foreign_pattern`].
    #[error("not a valid regular expression: {0}")]
    Automaton(#[from] Box<dense::BuildError>),
    /// No group is named, so the pattern yields no field.
    #[error("no group has a name: name at least one, as in `(?P<level>[A-Z]+)`")]
    NoName,
}
