//! Editors.

use regex::Regex;

use crate::edit::memory::Ref;
use crate::program::{Expr, Path, TextFn};

/// A call of an editor.
#[derive(Clone, Debug)]
pub(crate) enum Editor {
    Set {
        target: Path,
        value: Expr,
    },
    DeleteKey {
        target: Path,
        key: Expr,
    },
    /// `delete_matching_keys` if `is_kept` is false, `keep_matching_keys` otherwise.
    MatchKeys {
        target: Path,
        pattern: Regex,
        retains_matches: bool,
    },
    KeepKeys {
        target: Path,
        keys: Vec<Expr>,
    },
    ReplacePattern {
        target: Path,
        pattern: Regex,
        with: Replace,
    },
    ReplaceMatch {
        target: Path,
        pattern: Regex,
        with: Replace,
    },
    /// `replace_all_patterns`, on keys or values.
    ReplaceAllPatterns {
        target: Path,
        is_keys: bool,
        pattern: Regex,
        with: Replace,
    },
    ReplaceAllMatches {
        target: Path,
        pattern: Regex,
        with: Replace,
    },
    TruncateAll {
        target: Path,
        limit: usize,
        marker: Ref,
    },
    Limit {
        target: Path,
        limit: usize,
        priority_keys: Vec<Ref>,
    },
    MergeMaps {
        target: Path,
        source: Expr,
        strategy: Strategy,
    },
    Flatten {
        target: Path,
        prefix: Vec<u8>,
        depth: i64,
        resolves_conflicts: bool,
    },
    Append {
        target: Path,
        values: Vec<Expr>,
    },
}

/// The replacement of a match.
#[derive(Clone, Debug)]
pub(crate) struct Replace {
    pub(crate) replacement: Expr,
    /// The function that is applied to the replacement, and the text around its result.
    pub(crate) function: Option<(TextFn, String, String)>,
}

/// What `merge_maps` does with a member of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Insert,
    Update,
    Upsert,
}
