//! What the tables should be: database, prefix, signals with their options, cluster. Values are
//! checked when made, so a [`Declared`] always renders. No clock, no I/O, no SQL text.

use std::fmt;
use std::str::FromStr;

use millrace_schema::{Attributes, Identifier, Table, TableKind, View, table, trace_id_view};
use sha2::{Digest, Sha256};

use crate::render;
use crate::ttl::Ttl;

/// Longest Keeper path or name taken. ZooKeeper's own limit on a path is far higher; anything
/// longer than this is a mistake.
const KEEPER_TEXT_BYTES_MAX: usize = 255;

/// The tables of one pipeline, as they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Database of all tables.
    pub database: Identifier,
    /// What stands before `_traces`, `_logs`, `_metrics_...`; normally `otel`.
    pub prefix: Identifier,
    /// Servers to run every statement on (`ON CLUSTER`); `None`: only on the server that is asked.
    pub cluster: Option<ClusterName>,
    /// Span tables, if wanted.
    pub traces: Option<TableOptions>,
    /// Log table, if wanted.
    pub logs: Option<TableOptions>,
    /// The five metric tables, if wanted.
    pub metrics: Option<TableOptions>,
}

/// Options of one signal's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TableOptions {
    /// How attributes are stored.
    pub attributes: Attributes,
    /// Table engine.
    pub engine: Engine,
    /// How long rows are kept after their own timestamp; `None`: for ever.
    pub ttl: Option<Ttl>,
}

/// The signals a set of tables serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Spans.
    pub traces: bool,
    /// Log records.
    pub logs: bool,
    /// Metric points.
    pub metrics: bool,
}

impl Signals {
    /// All three.
    pub const ALL: Self = Self { traces: true, logs: true, metrics: true };
}

/// A table engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Sorted parts on one server's disk.
    #[default]
    MergeTree,
    /// The same, kept equal on several servers through Keeper.
    ReplicatedMergeTree(Replication),
    /// Takes rows and keeps none; for measuring the way there.
    Null,
}

impl Engine {
    /// The engine's name as ClickHouse spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MergeTree => "MergeTree",
            Self::ReplicatedMergeTree(_) => "ReplicatedMergeTree",
            Self::Null => "Null",
        }
    }
}

/// Where replicas of a table find each other in Keeper.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Keeper path **above** the table: the database's and the table's name are added below it.
    pub path: KeeperPath,
    /// Name of a replica, different on each; normally the macro `{replica}`.
    pub replica: ReplicaName,
}

impl Default for Replication {
    /// `/clickhouse/tables/{shard}` and `{replica}`: the macros every replicated installation sets.
    /// The server's own default path holds the table's UUID, which differs between servers unless
    /// one `ON CLUSTER` statement made them all; ours works either way.
    fn default() -> Self {
        Self {
            path: KeeperPath("/clickhouse/tables/{shard}".to_owned()),
            replica: ReplicaName("{replica}".to_owned()),
        }
    }
}

/// A name that goes into a string literal of a statement was refused.
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

/// An absolute path in Keeper, macros in braces allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeeperPath(String);

/// The name of a replica, macros in braces allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaName(String);

/// Letters, digits, `_`, `-`, `.` and macros `{name}`: nothing a string literal has to escape.
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

fn plain(what: &'static str, text: &str) -> Result<String, NameError> {
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
        plain("cluster", text).map(Self)
    }
}

impl FromStr for ReplicaName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        plain("replica name", text).map(Self)
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
shown_as_written!(ClusterName, KeeperPath, ReplicaName);

/// The full name of one table: checked parts only, so it can be quoted without further thought.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    database: Identifier,
    table: String,
}

impl TableName {
    /// The table of that kind under a prefix.
    #[must_use]
    pub fn new(database: &Identifier, prefix: &Identifier, kind: TableKind) -> Self {
        Self::under(database, prefix, kind.suffix())
    }

    /// The view under a prefix.
    #[must_use]
    pub fn of_view(database: &Identifier, prefix: &Identifier, view: &View) -> Self {
        Self::under(database, prefix, view.suffix)
    }

    fn under(database: &Identifier, prefix: &Identifier, suffix: &'static str) -> Self {
        Self { database: database.clone(), table: format!("{prefix}_{suffix}") }
    }

    /// Its database.
    #[must_use]
    pub fn database(&self) -> &Identifier {
        &self.database
    }

    /// Its name within the database.
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

/// One table of a [`Declared`] set, with everything needed to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTable {
    /// Its full name.
    pub name: TableName,
    /// Columns, keys, indexes.
    pub table: Table,
    /// Engine and time to live.
    pub options: TableOptions,
}

/// The view of a [`Declared`] set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredView {
    /// Its full name.
    pub name: TableName,
    /// The table it reads.
    pub source: TableName,
    /// The table it fills.
    pub target: TableName,
    /// What it computes.
    pub view: View,
}

impl Declared {
    /// The same options for every signal asked for, on the server that is asked.
    #[must_use]
    pub fn uniform(
        database: Identifier,
        prefix: Identifier,
        signals: Signals,
        options: &TableOptions,
    ) -> Self {
        let Signals { traces, logs, metrics } = signals;
        let wanted = |yes: bool| yes.then(|| options.clone());
        Self {
            database,
            prefix,
            cluster: None,
            traces: wanted(traces),
            logs: wanted(logs),
            metrics: wanted(metrics),
        }
    }

    fn options(&self, kind: TableKind) -> Option<&TableOptions> {
        match kind {
            TableKind::Traces => self.traces.as_ref(),
            // A Null table feeds its views, but there is nothing to look up afterwards.
            TableKind::TraceIdTs => {
                self.traces.as_ref().filter(|options| options.engine != Engine::Null)
            }
            TableKind::Logs => self.logs.as_ref(),
            TableKind::MetricsGauge
            | TableKind::MetricsSum
            | TableKind::MetricsHistogram
            | TableKind::MetricsExponentialHistogram
            | TableKind::MetricsSummary => self.metrics.as_ref(),
        }
    }

    /// Every table, in the order they are made.
    #[must_use]
    pub fn tables(&self) -> Vec<DeclaredTable> {
        let made = |kind| {
            let options = self.options(kind)?.clone();
            Some(DeclaredTable {
                name: TableName::new(&self.database, &self.prefix, kind),
                table: table(kind, options.attributes),
                options,
            })
        };
        TableKind::ALL.into_iter().filter_map(made).collect()
    }

    /// The view from spans to the trace-id table, where both exist.
    #[must_use]
    pub fn view(&self) -> Option<DeclaredView> {
        let view = trace_id_view();
        self.options(view.target)?;
        Some(DeclaredView {
            name: TableName::of_view(&self.database, &self.prefix, &view),
            source: TableName::new(&self.database, &self.prefix, view.source),
            target: TableName::new(&self.database, &self.prefix, view.target),
            view,
        })
    }

    /// A short, stable name of this declaration: 12 hexadecimal digits of the SHA-256 of every
    /// statement that would make it. It changes exactly when what is made would change.
    #[must_use]
    pub fn revision(&self) -> String {
        let mut hash = Sha256::new();
        for statement in render::create_all(self) {
            hash.update(statement.sql());
            hash.update(b"\0");
        }
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn declared(signals: Signals, engine: Engine) -> Declared {
        let options = TableOptions { engine, ..TableOptions::default() };
        let name = |text| Identifier::new(text).unwrap();
        Declared::uniform(name("telemetry"), name("otel"), signals, &options)
    }

    /// Scenario: all signals, then Null tables. Guarantee: eight tables and the view; a Null set
    /// has neither the trace-id table nor the view.
    #[test]
    fn the_set_of_tables_follows_signals_and_engine() {
        let all = declared(Signals::ALL, Engine::MergeTree);
        assert_eq!(all.tables().len(), TableKind::ALL.len());
        assert!(all.view().is_some());
        let null = declared(Signals::ALL, Engine::Null);
        assert_eq!(null.tables().len(), TableKind::ALL.len() - 1);
        assert!(null.view().is_none());
        let logs = declared(Signals { logs: true, ..Signals::default() }, Engine::MergeTree);
        let names: Vec<_> = logs.tables().iter().map(|t| t.name.to_string()).collect();
        assert_eq!(names, ["telemetry.otel_logs"]);
        assert!(logs.view().is_none());
    }

    /// Scenario: one option changes. Guarantee: so does the revision, and only then.
    #[test]
    fn the_revision_changes_exactly_with_what_is_made() {
        let one = declared(Signals::ALL, Engine::MergeTree);
        assert_eq!(one.revision(), one.clone().revision());
        assert_eq!(one.revision().len(), 12);
        let mut other = one.clone();
        other.logs = other.logs.map(|logs| TableOptions { ttl: Ttl::from_seconds(60), ..logs });
        assert_ne!(one.revision(), other.revision());
    }

    /// Scenario: names as installations have them, and ones that try to leave their literal.
    /// Guarantee: the first are taken, the second refused.
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
        /// Guarantee: whatever is accepted holds nothing that a string literal would have to
        /// escape.
        #[test]
        fn accepted_names_need_no_escaping(text in "\\PC{0,40}") {
            let harmless = |text: &str| !text.contains(['\'', '\\', '`', '"', ' ', ';', '\n']);
            if text.parse::<ClusterName>().is_ok() || text.parse::<KeeperPath>().is_ok() {
                prop_assert!(harmless(&text));
            }
        }
    }
}
