//! What is wrong with a redaction's settings.

use super::limits::{
    HASH_KEY_BYTES_MIN, HASH_LENGTH_MAX, HASH_LENGTH_MIN, KEY_NAMES_MAX, MASK_BYTES_MAX,
    PATTERN_BYTES_MAX, PATTERNS_MAX, VISIBLE_LAST_MAX,
};

/// Settings that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {kind}")]
pub struct RedactProblem {
    /// The field, such as `patterns[2].pattern`.
    pub path: String,
    /// What is wrong with it.
    pub kind: RedactProblemKind,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedactProblemKind {
    /// An action is none, or several.
    #[error("an action is exactly one of mask, hash and drop")]
    Action,
    /// A hash needs a key.
    #[error("a hash needs a key: name the file that has it in hashKeyFile")]
    NoHashKey,
    /// The key is too short.
    #[error("the key has {0} bytes: {HASH_KEY_BYTES_MIN} are required")]
    HashKeyLength(usize),
    /// The length of a hash is outside its range.
    #[error("a hash of {0} characters is outside {HASH_LENGTH_MIN} to {HASH_LENGTH_MAX}")]
    HashLength(u8),
    /// The text of a mask is too long.
    #[error("the mask has {0} bytes: {MASK_BYTES_MAX} are permitted")]
    MaskLength(usize),
    /// Too many characters would stay.
    #[error("{0} last characters are more than {VISIBLE_LAST_MAX}")]
    KeepLast(u8),
    /// An action is that of a set which isn't in use.
    #[error("the set {0} isn't in `sets`")]
    UnusedSet(&'static str),
    /// A set has two actions.
    #[error("the set {0} has an action already")]
    DuplicateSet(&'static str),
    /// There are too many patterns.
    #[error("{0} patterns are more than {PATTERNS_MAX}")]
    TooManyPatterns(usize),
    /// A pattern's name is empty, or exists already.
    #[error(
        "{0:?} can't name a pattern: it is empty, or a ready set or another pattern has this name"
    )]
    Name(String),
    /// A pattern is too long.
    #[error("a pattern has {PATTERN_BYTES_MAX} bytes at most, this one {0}")]
    PatternLength(usize),
    /// A pattern is malformed.
    #[error("not a usable regular expression: {0}")]
    Pattern(String),
    /// A pattern matches without any character.
    #[error("this pattern matches the empty text")]
    MatchesNothing,
    /// All patterns together take too much memory.
    #[error("the patterns take too much memory: write classes and shorter repetitions: {0}")]
    PatternsTooLarge(String),
    /// A list of keys is too long.
    #[error("{0} keys are more than {KEY_NAMES_MAX}")]
    TooManyKeys(usize),
}
