//! Renders the companions of tables: roll-ups of attributes with their views, and tables over all
//! shards. Every statement may run again without effect.

use millrace_schema::AttributeStorage;

use super::engine::{engine_of, table_settings};
use super::expression::render_interval;
use crate::declared::names::ClusterName;
use crate::declared::{DeclaredDistributed, DeclaredRollup};
use crate::render::{Statement, ddl_statement, literal, on_cluster, qualified_name, quote};

/// Creates the table of a roll-up. Merges sum the counts; readers sum the remaining rows.
pub(crate) fn create_rollup(rollup: &DeclaredRollup, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredRollup { name, view: _, source: _, time: _, columns: _, options } = rollup;
    let spelled = match options.engine.replication() {
        Some(_) => "ReplicatedAggregatingMergeTree",
        None => "AggregatingMergeTree",
    };
    let ttl = rollup_ttl(rollup).map_or_else(String::new, |rule| format!("\nTTL {rule}"));
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    \
         `Timestamp` DateTime CODEC(Delta(4), ZSTD(1)),\n    \
         `ColumnIdentifier` LowCardinality(String) CODEC(ZSTD(1)),\n    \
         `Key` LowCardinality(String) CODEC(ZSTD(1)),\n    \
         `Value` String CODEC(ZSTD(1)),\n    \
         `count` SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1))\n)\nENGINE = {}\n\
         PARTITION BY toDate(`Timestamp`)\n\
         ORDER BY (`ColumnIdentifier`, `Key`, `Timestamp`, `Value`){ttl}\nSETTINGS {}",
        qualified_name(name),
        on_cluster(cluster),
        engine_of(&options.engine, spelled, name, None),
        table_settings(options, true),
    );
    ddl_statement(sql, cluster)
}

/// Returns when a row of a roll-up expires, in the form that we send; `None`: never.
pub(crate) fn rollup_ttl(rollup: &DeclaredRollup) -> Option<String> {
    Some(format!("`Timestamp` + {}", render_interval(rollup.options.ttl?)))
}

/// Returns the same in the spelling of `system.tables`.
pub(crate) fn canonical_rollup_ttl(rollup: &DeclaredRollup) -> Option<String> {
    Some(rollup_ttl(rollup)?.replace('`', ""))
}

/// Creates the view that fills it. It truncates a value to 256 characters: a person would not
/// choose a longer one from a list.
pub(crate) fn create_rollup_view(
    rollup: &DeclaredRollup,
    cluster: Option<&ClusterName>,
) -> Statement {
    let DeclaredRollup { name, view, source, time, columns, options } = rollup;
    let pairs: Vec<String> = columns
        .iter()
        .map(|column| {
            let (label, column) = (literal(column), quote(column));
            match options.attributes {
                AttributeStorage::Map => format!(
                    "arrayMap((k, v) -> ({label}, CAST(k, 'String'), substringUTF8(v, 1, 256)), \
                     mapKeys({column}), mapValues({column}))"
                ),
                AttributeStorage::Json => {
                    format!("arrayMap(k -> ({label}, k, ''), JSONAllPaths({column}))")
                }
            }
        })
        .collect();
    let sql = format!(
        "CREATE MATERIALIZED VIEW IF NOT EXISTS {}{} TO {}\nAS SELECT\n    \
         toStartOfFifteenMinutes(toDateTime({})) AS `Timestamp`,\n    \
         pair.1 AS `ColumnIdentifier`,\n    pair.2 AS `Key`,\n    pair.3 AS `Value`,\n    \
         count() AS `count`\nFROM {}\nARRAY JOIN arrayConcat({}) AS pair\n\
         GROUP BY `Timestamp`, `ColumnIdentifier`, `Key`, `Value`",
        qualified_name(view),
        on_cluster(cluster),
        qualified_name(name),
        quote(time),
        qualified_name(source),
        pairs.join(", "),
    );
    ddl_statement(sql, cluster)
}

/// Creates a table over all shards.
pub(crate) fn create_distributed(
    table: &DeclaredDistributed,
    cluster: Option<&ClusterName>,
) -> Statement {
    let DeclaredDistributed { name, local, cluster: over, shard_by } = table;
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{} AS {}\n\
         ENGINE = Distributed({}, {}, {}, cityHash64({}))",
        qualified_name(name),
        on_cluster(cluster),
        qualified_name(local),
        literal(&over.to_string()),
        literal(local.database().as_str()),
        literal(local.table()),
        quote(shard_by),
    );
    ddl_statement(sql, cluster)
}
