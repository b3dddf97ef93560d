//! Settings of a signal's tables: engine, retention, storage, layout. `docs/schema.md` has the
//! measured cost of each choice.
//!
//! Rules for one signal only are in [`signal_table_rules`], which kinds apply where they know the
//! signal.
//!
//! Limits: 32 typed paths and 32 computed columns a signal.

pub(super) mod ttl;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::rules;
use super::signals::Signal;
use super::table::ttl::TableTtl;
use crate::amounts::Period;
use crate::names::{AttributePath, ColumnName, KeeperPath, ReplicaName, StorageName};

/// Settings of a signal's tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TableSettings {
    /// Type of attribute columns: Map (strings, as Grafana's plugin and HyperDX read them) or JSON
    /// (typed subcolumns, fast to read one by one). In a pipeline one type applies to all signals.
    /// Cannot be changed later: existing tables would have to be rewritten. For new tables create
    /// another object with another tablePrefix. Default: Map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// Table engine: MergeTree, ReplicatedMergeTree (replicas through Keeper), ReplacingMergeTree
    /// or ReplicatedReplacingMergeTree (traces only: merges remove duplicate spans) or Null (stores
    /// nothing; for measurements). Cannot be changed later: existing tables would have to be
    /// rewritten. For new tables create another object with another tablePrefix. Default:
    /// MergeTree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Retention of rows by their own time, for example 7d, or Forever. Default: 30d in a
    /// TelemetryPipeline, Forever in a TelemetrySchema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<TableTtl>,
    /// Keeper path and replica name of replicated tables; only with a replicated engine. Default:
    /// path /clickhouse/tables/{shard} and replica {replica}; in a database with engine Replicated
    /// the server's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
    /// Storage policy and tiering. Default: the server's default policy, without tiering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Partitioning, compression, indexes and auxiliary tables. None of it changes the
    /// columns of inserts.
    #[serde(default, skip_serializing_if = "Layout::is_empty")]
    pub layout: Layout,
}

impl TableSettings {
    /// The engine, the default filled in.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine.unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The settings, with `defaults` for those that are not written.
    #[must_use]
    pub(crate) fn with_defaults(&self, defaults: &Self) -> Self {
        let Self { attributes, engine, ttl, replication, storage, layout } = self.clone();
        let defaults = defaults.clone();
        Self {
            attributes: attributes.or(defaults.attributes),
            engine: engine.or(defaults.engine),
            ttl: ttl.or(defaults.ttl),
            replication: replication.or(defaults.replication),
            storage: storage.or(defaults.storage),
            layout: layout.with_defaults(defaults.layout),
        }
    }
}

/// The type of attribute columns. The default applies to all kinds: readers of the Collector's
/// tables expect maps, and lean spans cost less as maps (docs/schema.md has the measurements).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Attributes {
    /// A map from string to string.
    #[default]
    Map,
    /// ClickHouse's JSON type.
    #[serde(rename = "JSON")]
    Json,
}

impl Attributes {
    /// The value in specs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Map => "Map",
        }
    }
}

/// A ClickHouse table engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Engine {
    /// One host.
    #[default]
    MergeTree,
    /// Replicas through Keeper.
    ReplicatedMergeTree,
    /// One host; merges retain one of several spans with the same key.
    ReplacingMergeTree,
    /// The same, with replicas through Keeper.
    ReplicatedReplacingMergeTree,
    /// Stores nothing.
    Null,
}

/// Keeper path and replica name of a replicated table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = replication_rules)]
pub struct Replication {
    /// Explicit (path and replica, as written here) or ServerDefault (the server's
    /// default_replica_path and default_replica_name).
    #[serde(default)]
    pub mode: ReplicationMode,
    /// Keeper path of the tables, for example /clickhouse/tables/{shard}; the names of database and
    /// table follow it. Required with mode: Explicit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<KeeperPath>,
    /// This replica's name, usually the macro {replica}. Required with mode: Explicit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaName>,
}

/// Who says where a table's replicas are in Keeper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ReplicationMode {
    /// The spec.
    #[default]
    Explicit,
    /// The server.
    ServerDefault,
}

/// Storage policy and tiering.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = storage_rules)]
pub struct Storage {
    /// Storage policy in the server's configuration. A new policy must contain the volumes of the
    /// old one. Default: the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<StorageName>,
    /// Age, by a row's own time, at which it moves to the volume moveTo; less than ttl. Default:
    /// never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_after: Option<Period>,
    /// Volume of the policy for rows older than moveAfter, for example cold. Required with
    /// moveAfter. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to: Option<StorageName>,
}

/// Partitioning, compression, indexes and auxiliary tables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    /// Compatibility: Otel (tables of the Collector's exporter up to 0.150, and their readers),
    /// Otel151 (the same from 0.151 on) or ClickStack (HyperDX). A change adapts columns and
    /// indexes of existing tables, but not their sorting key. Default: Otel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compatibility: Option<Compatibility>,
    /// Partitioning by Day or Month (for small volumes with long retention). Expired partitions are
    /// dropped as files, without merges. Cannot be changed later: existing tables would have to be
    /// rewritten. For new tables create another object with another tablePrefix. Default: Day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_by: Option<PartitionBy>,
    /// Codec: Zstd1 (ZSTD, level 1) or Zstd3 (level 3; 6 % smaller). A change applies to new parts,
    /// and to older ones when they are merged. Default: Zstd1 in new tables; existing columns
    /// are not changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
    /// Data-skipping indexes; each adds cost to every insert. A removed index stays until
    /// consent lists it.
    #[serde(default, skip_serializing_if = "Indexes::is_empty")]
    pub indexes: Indexes,
    /// Whether a materialized view fills a table of trace ids and times, to find a trace without a
    /// time range. Traces only. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_lookup: Option<bool>,
    /// Whether a roll-up of attribute names (with Map also values) per 15 minutes exists for each
    /// table, for suggestions. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollup: Option<bool>,
    /// Attributes stored as typed strings inside JSON, which are several times faster to read.
    /// ClickHouse casts complete columns in inserts of other writers, at several times the cost.
    /// Adding one to a table with rows rewrites them and waits for approval. At most 32. Default:
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["from", "path"])
    )]
    pub typed_paths: Vec<TypedPath>,
    /// Materialized columns, computed from attributes at insert, and for older rows when read. At
    /// most 32. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub materialized: Vec<Materialized>,
}

impl Layout {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn with_defaults(self, defaults: Self) -> Self {
        let Self {
            compatibility,
            partition_by,
            compression,
            indexes: Indexes { body, attributes, trace_id },
            trace_lookup,
            rollup,
            typed_paths,
            materialized,
        } = self;
        Self {
            compatibility: compatibility.or(defaults.compatibility),
            partition_by: partition_by.or(defaults.partition_by),
            compression: compression.or(defaults.compression),
            indexes: Indexes {
                body: body.or(defaults.indexes.body),
                attributes: attributes.or(defaults.indexes.attributes),
                trace_id: trace_id.or(defaults.indexes.trace_id),
            },
            trace_lookup: trace_lookup.or(defaults.trace_lookup),
            rollup: rollup.or(defaults.rollup),
            typed_paths: if typed_paths.is_empty() { defaults.typed_paths } else { typed_paths },
            materialized: if materialized.is_empty() {
                defaults.materialized
            } else {
                materialized
            },
        }
    }
}

/// The compatibility of tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compatibility {
    /// The Collector's exporter up to 0.150.
    #[default]
    Otel,
    /// The Collector's exporter from 0.151 on.
    Otel151,
    /// HyperDX.
    ClickStack,
}

/// The partitioning of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PartitionBy {
    /// By day.
    #[default]
    Day,
    /// By month.
    Month,
}

/// The codec of columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// ZSTD, level 1.
    #[default]
    Zstd1,
    /// ZSTD, level 3.
    Zstd3,
}

/// Data-skipping indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Indexes {
    /// Index of log bodies: Tokens (a bloom filter of words; a fifth of the insert's cost), Text
    /// (an inverted index; ClickHouse 26.2 or later) or None (none). Default: Tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyIndex>,
    /// Index of attributes: Default (Map: bloom filters of the values of resources and records;
    /// JSON: none), Text (inverted indexes; ClickHouse 26.2 or later) or None (none). Default:
    /// Default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<AttributeIndex>,
    /// Whether trace ids of spans and logs have an index. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<bool>,
}

impl Indexes {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Index of log bodies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BodyIndex {
    /// A bloom filter of words.
    #[default]
    Tokens,
    /// An inverted index of words.
    Text,
    /// None.
    None,
}

/// Indexes of attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttributeIndex {
    /// Of a Map, bloom filters of the values of resources and records.
    #[default]
    Default,
    /// Inverted indexes.
    Text,
    /// None.
    None,
}

/// The owner of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttributeOf {
    /// Of the resource.
    Resource,
    /// Of the instrumentation scope.
    Scope,
    /// Of the span, log record or metric point itself.
    Record,
}

/// An attribute stored as a typed string inside its JSON column. Only strings: with a number type,
/// one record with a word would make ClickHouse reject the complete insert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypedPath {
    /// Owner of the attribute: Resource, Scope (not of spans) or Record.
    pub from: AttributeOf,
    /// Name of the attribute, for example k8s.pod.name.
    pub path: AttributePath,
    /// Whether values repeat and are stored in a dictionary. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeating: Option<bool>,
}

/// A materialized column, computed from an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Materialized {
    /// Name of the column, for example PodName.
    pub name: ColumnName,
    /// Owner of the attribute: Resource, Scope (not of spans) or Record.
    pub from: AttributeOf,
    /// Name of the attribute, for example k8s.pod.name.
    pub path: AttributePath,
    /// ClickHouse type: LowCardinalityString (a string in a dictionary), String, Int64 or Float64;
    /// empty or 0 if the attribute is missing or not a number.
    #[serde(rename = "type")]
    pub type_: MaterializedType,
}

/// The type of a materialized column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaterializedType {
    /// `LowCardinality(String)`.
    LowCardinalityString,
    /// `String`.
    String,
    /// `Int64`.
    Int64,
    /// `Float64`.
    Float64,
}

fn storage_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.moveAfter) == has(self.moveTo)",
        "write moveAfter and moveTo together, for example moveAfter: 7d and moveTo: cold",
    );
}

fn replication_rules(schema: &mut Schema) {
    rules::add_rule(
        schema,
        "has(self.path) == has(self.replica) && has(self.path) != \
         (has(self.mode) && self.mode == 'ServerDefault')",
        "write path and replica, for example /clickhouse/tables/{shard} and {replica}, or mode: \
         ServerDefault alone",
    );
}

/// The rules of one signal's tables. `paths` lead from the schema's value, which holds the
/// signals, to the signal's table settings and to their defaults; `attributes` is the type of
/// attribute columns, as a CEL expression.
pub(crate) fn signal_table_rules(
    schema: &mut Schema,
    signal: Signal,
    paths: &[&[&str]],
    attributes: &str,
) {
    let name = signal.as_str();
    let engine = rules::first_of("self", paths, &["engine"], "'MergeTree'");
    let has = |field: &[&str]| rules::is_in_any("self", paths, field);
    let rollup = rules::first_of("self", paths, &["layout", "rollup"], "false");
    let mut add = |rule: &str, message: &str| {
        rules::add_rule(schema, &format!("!has(self.{name}) || {rule}"), message);
    };
    add(
        &format!(
            "!{} || {engine} == 'ReplicatedMergeTree' \
             || {engine} == 'ReplicatedReplacingMergeTree'",
            has(&["replication"])
        ),
        &format!(
            "{name}: replication needs engine: ReplicatedMergeTree or ReplicatedReplacingMergeTree"
        ),
    );
    add(
        &format!("{engine} != 'Null' || (!{} && !{rollup})", has(&["storage"])),
        &format!(
            "{name}: engine: Null stores no rows: remove storage and layout.rollup, or write \
             another engine"
        ),
    );
    add(
        &format!("!{} || {attributes} == 'JSON'", has(&["layout", "typedPaths"])),
        &format!(
            "{name}: layout.typedPaths needs attributes: JSON; for Map write layout.materialized \
             instead"
        ),
    );
    if signal == Signal::Traces {
        for list in ["typedPaths", "materialized"] {
            for path in paths {
                let (entries, guard) =
                    rules::nested_field("self", &[path, &["layout", list][..]].concat());
                add(
                    &format!("!({guard}) || {entries}.all(entry, entry.from != 'Scope')"),
                    &format!(
                        "{}.layout.{list}: scope attributes of spans are not stored; write from: \
                         Resource or Record",
                        path.join(".")
                    ),
                );
            }
        }
    } else {
        add(
            &format!(
                "({engine} != 'ReplacingMergeTree' && {engine} != 'ReplicatedReplacingMergeTree')"
            ),
            &format!(
                "{name}: a Replacing engine would lose rows that merely have equal values; use it \
                 for traces only"
            ),
        );
    }
}

/// The rules that a table's engine and keys stay, as CEL expressions with messages; `paths` lead
/// from a value to the table's settings and to their defaults.
pub(crate) fn table_stays(paths: &[&[&str]]) -> [(String, String); 2] {
    let engine: (&[&str], &str) = (&["engine"], "'MergeTree'");
    let partition: (&[&str], &str) = (&["layout", "partitionBy"], "'Day'");
    [engine, partition].map(|(field, default)| {
        let value = |owner| rules::first_of(owner, paths, field, default);
        let rule = format!("{} == {}", value("self"), value("oldSelf"));
        (rule, format!("{} can't be changed: {TABLES_STAY}", field.join(".")))
    })
}

/// The type of attribute columns in the first of `paths` that has one, as a CEL expression.
pub(crate) fn attributes_expression(owner: &str, paths: &[&[&str]]) -> String {
    let default = format!("'{}'", Attributes::default().as_str());
    rules::first_of(owner, paths, &["attributes"], &default)
}

/// Why a field of existing tables is fixed, and what to do instead.
pub(crate) const TABLES_STAY: &str = "existing tables would have to be rewritten. Restore the old \
     value, or create another object with another tablePrefix";
