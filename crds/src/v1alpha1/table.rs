//! How a signal's tables are made: engine, retention, storage, layout. `docs/schema.md` has the
//! measured cost of each choice.
//!
//! Rules for one signal only are in [`signal_table_rules`], which kinds apply where they know the
//! signal.
//!
//! Limits: 32 typed paths and 32 computed columns a signal.

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use super::rules;
use crate::amounts::Period;
use crate::names::{AttributePath, ColumnName, KeeperPath, ReplicaName, StorageName};

/// How a signal's tables are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = table_rules)]
pub struct TableSettings {
    /// How attributes are stored: Map (texts, as Grafana's plugin and HyperDX read them) or JSON
    /// (typed sub-columns, read fast one by one). Can't be changed afterwards. Default: in a
    /// pipeline Map, or what its tables were made with; in a TelemetrySchema JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// MergeTree (one host), ReplicatedMergeTree (replicas through Keeper), ReplacingMergeTree or
    /// ReplicatedReplacingMergeTree (traces only: spans sent twice become one when parts are
    /// merged) or Null (keeps nothing: for measuring). Can't be changed afterwards.
    #[serde(default)]
    pub engine: Engine,
    /// How long rows are kept, by their own time, for example 30d. Default: forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Period>,
    /// Path of replicated tables in Keeper. Only with a replicated engine. Default: path
    /// /clickhouse/tables/{shard} and replica {replica}.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replication: Option<Replication>,
    /// The disks rows lie on. Default: the server's default policy, rows stay where they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// How rows are partitioned, sorted, compressed and indexed, and which tables exist beside
    /// them. None of it changes an insert's columns.
    #[serde(default)]
    pub layout: Layout,
}

/// How attributes are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Attributes {
    /// ClickHouse's JSON type.
    #[default]
    #[serde(rename = "JSON")]
    Json,
    /// A map from string to string.
    Map,
}

impl Attributes {
    /// As specs spell it.
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
    /// One host; keeps one of several spans with the same key.
    ReplacingMergeTree,
    /// The same, with replicas through Keeper.
    ReplicatedReplacingMergeTree,
    /// Stores nothing.
    Null,
}

/// Path of a table's replicas in Keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    /// Keeper path of the tables, for example /clickhouse/tables/{shard}; the names of database and
    /// table follow it.
    pub path: KeeperPath,
    /// This replica's name, usually the macro {replica}.
    pub replica: ReplicaName,
}

/// The disks that rows lie on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = storage_rules)]
pub struct Storage {
    /// Storage policy of the server's configuration. A new one must have the volumes of the old
    /// one. Default: the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<StorageName>,
    /// Age, by a row's own time, at which it moves to moveTo; less than ttl. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_after: Option<Period>,
    /// Volume of the policy that older rows move to, for example cold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub move_to: Option<StorageName>,
}

/// How rows are laid out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    /// For whose queries the tables are: Otel (the Collector's exporter up to 0.150, and what reads
    /// its tables), Otel-0.151 (the same from 0.151 on) or ClickStack (HyperDX). Columns and
    /// indexes of existing tables follow a change; their order stays.
    #[serde(default)]
    pub reader: Reader,
    /// Partitions by Day, Week (from Monday), Month, or Whole (not at all). Whole partitions expire
    /// at once, as files unlinked. Can't be changed afterwards.
    #[serde(default)]
    pub partition_by: PartitionBy,
    /// ServiceFirst sorts rows by service, then time: smallest, and best for the most frequent
    /// queries. TimeFirst sorts by hour, then service: for searches over all services in a short
    /// time. Can't be changed afterwards.
    #[serde(default)]
    pub order_by: OrderBy,
    /// ZSTD (level 1), ZSTDHigher (level 3: 6 % smaller) or LZ4 (twice the size). A change applies
    /// to new parts; older ones follow when they are merged.
    #[serde(default)]
    pub compression: Compression,
    /// Indexes; each costs time in every insert. One that is left out later stays until
    /// spec.consent names it.
    #[serde(default)]
    pub indexes: Indexes,
    /// Keep a table of trace ids and their times, filled by a view, to find a trace without a time
    /// range. Default: true. Traces only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_lookup: Option<bool>,
    /// Keep a roll-up of attribute names (and a Map's values) per 15 minutes beside each table, for
    /// suggestions. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollup: Option<bool>,
    /// Attributes stored as typed texts inside JSON, which are read several times as fast. Gateways
    /// write them as the table has them; of other writers' inserts ClickHouse casts whole columns,
    /// at several times the cost. Adding one to a table with rows rewrites them, and waits for
    /// approval. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["from", "path"])
    )]
    pub typed_paths: Vec<TypedPath>,
    /// Columns that ClickHouse computes from attributes at insert; rows written before compute them
    /// when read. At most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub materialized: Vec<Materialized>,
}

/// For whose queries tables are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reader {
    /// The Collector's exporter up to 0.150.
    #[default]
    Otel,
    /// The Collector's exporter from 0.151 on.
    #[serde(rename = "Otel-0.151")]
    Otel151,
    /// HyperDX.
    ClickStack,
}

/// How rows are partitioned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PartitionBy {
    /// By day.
    #[default]
    Day,
    /// By week.
    Week,
    /// By month.
    Month,
    /// Not at all.
    Whole,
}

/// How rows are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OrderBy {
    /// By service, then time.
    #[default]
    ServiceFirst,
    /// By hour, then service.
    TimeFirst,
}

/// How columns are compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Compression {
    /// ZSTD, level 1.
    #[default]
    #[serde(rename = "ZSTD")]
    Zstd,
    /// ZSTD, level 3.
    #[serde(rename = "ZSTDHigher")]
    ZstdHigher,
    /// LZ4.
    #[serde(rename = "LZ4")]
    Lz4,
}

/// Data-skipping indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Indexes {
    /// Of log bodies: Tokens (a bloom filter of words; a fifth of the insert's cost), Text (an
    /// inverted index; ClickHouse 26.2 or later) or LeftOut.
    #[serde(default)]
    pub body: BodyIndex,
    /// Of attributes: Usual (Map: bloom filters of keys and values; JSON: none), Keys (bloom
    /// filters of keys alone), Text (inverted indexes; ClickHouse 26.2 or later) or LeftOut.
    #[serde(default)]
    pub attributes: AttributeIndex,
    /// Of trace ids, in spans and logs. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<bool>,
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
    LeftOut,
}

/// Indexes of attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttributeIndex {
    /// As Rotel and the Collector have them.
    #[default]
    Usual,
    /// Bloom filters of keys.
    Keys,
    /// Inverted indexes.
    Text,
    /// None.
    LeftOut,
}

/// Whose attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttributeOf {
    /// Of the resource.
    Resource,
    /// Of the instrumentation scope.
    Scope,
    /// Of the span, log record or metric point itself.
    Record,
}

/// An attribute stored as text of its own inside its JSON column. Only texts: with a number type,
/// one record with a word there would have its whole insert refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TypedPath {
    /// Whose attribute: Resource, Scope (not of spans) or Record.
    pub from: AttributeOf,
    /// Its name, for example k8s.pod.name.
    pub path: AttributePath,
    /// Whether its values repeat and go into a dictionary. Default: true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeating: Option<bool>,
}

/// A column that ClickHouse computes from an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Materialized {
    /// Name of the column, for example PodName.
    pub name: ColumnName,
    /// Whose attribute: Resource, Scope (not of spans) or Record.
    pub from: AttributeOf,
    /// The attribute's name, for example k8s.pod.name.
    pub path: AttributePath,
    /// Name (text in a dictionary), Text, Integer or Float; empty or 0 where the attribute is
    /// missing or no number.
    #[serde(rename = "type")]
    pub type_: MaterializedType,
}

/// The type of a computed column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MaterializedType {
    /// `LowCardinality(String)`.
    Name,
    /// `String`.
    Text,
    /// `Int64`.
    Integer,
    /// `Float64`.
    Float,
}

fn storage_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "has(self.moveAfter) == has(self.moveTo)",
        "write moveAfter and moveTo together, for example moveAfter: 7d and moveTo: cold",
    );
}

fn table_rules(schema: &mut Schema) {
    rules::rule(
        schema,
        "!has(self.replication) || (has(self.engine) && self.engine.startsWith('Replicated'))",
        "replication needs engine: ReplicatedMergeTree or ReplicatedReplacingMergeTree",
    );
    rules::rule(
        schema,
        "!has(self.engine) || self.engine != 'Null' || (!has(self.storage) \
         && !(has(self.layout) && has(self.layout.rollup) && self.layout.rollup))",
        "engine: Null keeps no rows: leave out storage and layout.rollup, or choose another engine",
    );
    rules::rule(
        schema,
        "!has(self.attributes) || self.attributes != 'Map' || !has(self.layout) \
         || !has(self.layout.typedPaths)",
        "layout.typedPaths needs attributes: JSON; write layout.materialized instead",
    );
}

/// Rules for some signals only. `path` leads from the schema's value, which holds the three
/// signals, to a signal's table settings, for example `["table"]`.
pub(crate) fn signal_table_rules(schema: &mut Schema, path: &[&str]) {
    for name in ["logs", "metrics"] {
        let (engine, guard) = rules::deep("self", &[&[name], path, &["engine"]].concat());
        let message = format!(
            "{name}: a Replacing engine would lose rows that merely look alike; use it for traces \
             only"
        );
        rules::rule(schema, &format!("!({guard}) || !{engine}.contains('Replacing')"), &message);
    }
    for list in ["typedPaths", "materialized"] {
        let (entries, guard) =
            rules::deep("self", &[&["traces"], path, &["layout", list]].concat());
        let message = format!(
            "traces.layout.{list}: spans have no scope attributes stored; write from: Resource or \
             Record"
        );
        let rule = format!("!({guard}) || {entries}.all(entry, entry.from != 'Scope')");
        rules::rule(schema, &rule, &message);
    }
}

/// The rule that a table's engine, attributes and keys stay: `path` leads from a value to the
/// table's settings, for example `.table`, empty when the value is the settings. Where `attributes`
/// has no default of the API's, it may be written or left out: the operator compares.
pub(crate) fn table_stays(
    owner: &str,
    old: &str,
    steps: &[&str],
    attributes: Option<&str>,
) -> Vec<(String, String)> {
    let fields: [(&[&str], Option<&str>); 4] = [
        (&["engine"], Some("MergeTree")),
        (&["attributes"], attributes),
        (&["layout", "partitionBy"], Some("Day")),
        (&["layout", "orderBy"], Some("ServiceFirst")),
    ];
    fields
        .into_iter()
        .map(|(field, default)| {
            let path = [steps, field].concat();
            let rule = match default {
                Some(default) => {
                    let value = |of| rules::deep_or_default(of, &path, default);
                    format!("{} == {}", value(owner), value(old))
                }
                None => {
                    let (now, is_there) = rules::deep(owner, &path);
                    let (before, was_there) = rules::deep(old, &path);
                    format!("!({is_there}) || !({was_there}) || {now} == {before}")
                }
            };
            let message = format!(
                "{} can't be changed: existing tables would have to be rewritten. Keep it, or make \
                 a second object with another tablePrefix",
                field.join(".")
            );
            (rule, message)
        })
        .collect()
}
