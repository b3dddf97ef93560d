//! Names in string literals of statements: clusters, Keeper paths, replicas, storage policies. They
//! are checked on construction, so that none can escape its literal.

use std::fmt;
use std::str::FromStr;

use millrace_schema::{Identifier, TableKind, View};

/// The longest accepted Keeper path or name. ZooKeeper's own limit on a path is far higher;
/// anything longer than this is a mistake.
const KEEPER_TEXT_BYTES_MAX: usize = 255;

/// A name for a statement's string literal was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not usable: {rule}")]
pub struct NameError {
    what: &'static str,
    text: String,
    rule: &'static str,
}

/// A cluster of the server's configuration, or a macro that names one, such as `{cluster}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterName(String);

/// An absolute path in Keeper; it may contain macros in braces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeeperPath(String);

/// The name of a replica; it may contain macros in braces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaName(String);

/// A storage policy or volume of the server's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StorageName(String);

/// Returns whether the text consists of letters, digits, `_`, `-`, `.` and macros `{name}`, which
/// no string literal has to escape.
fn has_plain_text_and_macros(text: &str) -> bool {
    let mut in_macro = false;
    let mut macro_bytes = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'{' if !in_macro => (in_macro, macro_bytes) = (true, 0),
            b'}' if in_macro && macro_bytes > 0 => in_macro = false,
            b'_' | b'-' | b'.' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => macro_bytes += 1,
            b'/' if !in_macro => {}
            _ => return false,
        }
    }
    !in_macro
}

const PLAIN_RULE: &str = "write letters, digits, '_', '-', '.' and macros such as {replica}, at \
                          most 255 bytes";
const PATH_RULE: &str = "write an absolute path such as /clickhouse/tables/{shard}, of letters, \
                         digits, '_', '-', '.' and macros, no empty step, at most 255 bytes";

fn check_plain(what: &'static str, text: &str) -> Result<String, NameError> {
    let fits = !text.is_empty()
        && text.len() <= KEEPER_TEXT_BYTES_MAX
        && !text.contains('/')
        && has_plain_text_and_macros(text);
    let refused = || NameError { what, text: text.to_owned(), rule: PLAIN_RULE };
    fits.then(|| text.to_owned()).ok_or_else(refused)
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_plain("cluster", text).map(Self)
    }
}

impl FromStr for ReplicaName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        check_plain("replica name", text).map(Self)
    }
}

impl FromStr for StorageName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let has_macro = text.contains(['{', '}']);
        let name = check_plain("storage policy or volume", if has_macro { "" } else { text })?;
        Ok(Self(name))
    }
}

impl FromStr for KeeperPath {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = text.len() <= KEEPER_TEXT_BYTES_MAX
            && text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(is_step))
            && has_plain_text_and_macros(text);
        let refused = || NameError { what: "keeper path", text: text.to_owned(), rule: PATH_RULE };
        fits.then(|| Self(text.to_owned())).ok_or_else(refused)
    }
}

fn is_step(step: &str) -> bool {
    !matches!(step, "" | "." | "..")
}

macro_rules! shown_as_written {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
shown_as_written!(ClusterName, KeeperPath, ReplicaName, StorageName);

impl KeeperPath {
    /// Wraps a path known to be valid.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl ReplicaName {
    /// Wraps a name known to be valid.
    pub(crate) fn from_static(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

/// The full name of one table. Its parts are checked, so it can always be quoted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    database: Identifier,
    table: String,
}

impl TableName {
    /// Returns the name of the table of this kind under a prefix.
    #[must_use]
    pub fn new(database: &Identifier, prefix: &Identifier, kind: TableKind) -> Self {
        Self::with_suffix(database, prefix, kind.suffix())
    }

    /// Returns the name of the view under a prefix.
    #[must_use]
    pub fn of_view(database: &Identifier, prefix: &Identifier, view: &View) -> Self {
        Self::with_suffix(database, prefix, view.suffix)
    }

    /// Returns the name of a table or view by the suffix of its prefix.
    pub(crate) fn with_suffix(
        database: &Identifier,
        prefix: &Identifier,
        suffix: &'static str,
    ) -> Self {
        Self { database: database.clone(), table: format!("{prefix}_{suffix}") }
    }

    /// Returns the name of a prefix's journal of migrations.
    #[must_use]
    pub fn of_journal(database: &Identifier, prefix: &Identifier) -> Self {
        Self::with_suffix(database, prefix, "schema_migrations")
    }

    /// Returns this table's name followed by `_suffix`.
    pub(crate) fn followed_by(&self, suffix: &'static str) -> Self {
        Self { database: self.database.clone(), table: format!("{}_{suffix}", self.table) }
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Identifier {
        &self.database
    }

    /// Returns the table's name within the database.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Scenario: names from real installations, and names that try to escape their literal.
    /// Guarantee: the first are accepted, the second refused.
    #[test]
    fn cluster_and_keeper_names_are_checked() {
        for good in ["prod", "{cluster}", "prod-eu.1", "a_{shard}_b"] {
            assert!(good.parse::<ClusterName>().is_ok(), "{good}");
            assert!(good.parse::<ReplicaName>().is_ok(), "{good}");
        }
        for bad in
            ["", "a b", "a'b", "a\\", "{", "}", "{}", "{a", "a}", "{a{b}}", "a/b", "é", "a\n"]
        {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
            assert!(bad.parse::<ReplicaName>().is_err(), "{bad}");
        }
        assert!("/clickhouse/tables/{shard}".parse::<KeeperPath>().is_ok());
        for bad in ["", "/", "relative", "//a", "/a/", "/a//b", "/a/../b", "/a'b", "/{a/b}", "/ä"]
        {
            assert!(bad.parse::<KeeperPath>().is_err(), "{bad}");
        }
    }

    proptest! {
        /// Guarantee: an accepted name contains nothing that a string literal would have to escape.
        #[test]
        fn accepted_names_need_no_escaping(text in "\\PC{0,40}") {
            let harmless = |text: &str| !text.contains(['\'', '\\', '`', '"', ' ', ';', '\n']);
            if text.parse::<ClusterName>().is_ok() || text.parse::<KeeperPath>().is_ok() {
                prop_assert!(harmless(&text));
            }
        }
    }
}
