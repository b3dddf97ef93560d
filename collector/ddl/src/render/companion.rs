//! Tables beside the tables: roll-ups of attributes with their views, and tables over all shards.
//! Every statement may be run again without effect.

use millrace_schema::Attributes;

use super::engine::{engine_of, settings};
use super::{Statement, change, full, literal, on_cluster, quote};
use crate::declared::{DeclaredDistributed, DeclaredRollup};
use crate::names::ClusterName;

/// The table of a roll-up. Counts are summed when parts are merged; readers sum what is left.
pub(crate) fn create_rollup(rollup: &DeclaredRollup, cluster: Option<&ClusterName>) -> Statement {
    let DeclaredRollup { name, view: _, source: _, time: _, columns: _, options } = rollup;
    let spelled = match options.engine.replication() {
        Some(_) => "ReplicatedAggregatingMergeTree",
        None => "AggregatingMergeTree",
    };
    let ttl = options.ttl.map_or_else(String::new, |kept| {
        format!("\nTTL `Timestamp` + toIntervalSecond({})", kept.seconds())
    });
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{}\n(\n    \
         `Timestamp` DateTime CODEC(Delta(4), ZSTD(1)),\n    \
         `ColumnIdentifier` LowCardinality(String) CODEC(ZSTD(1)),\n    \
         `Key` LowCardinality(String) CODEC(ZSTD(1)),\n    \
         `Value` String CODEC(ZSTD(1)),\n    \
         `count` SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1))\n)\nENGINE = {}\n\
         PARTITION BY toDate(`Timestamp`)\n\
         ORDER BY (`ColumnIdentifier`, `Key`, `Timestamp`, `Value`){ttl}\nSETTINGS {}",
        full(name),
        on_cluster(cluster),
        engine_of(&options.engine, spelled, name, None),
        settings(options),
    );
    change(sql, cluster)
}

/// The view that fills it. A value longer than 256 characters is cut: it identifies nothing that a
/// person would choose from a list.
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
                Attributes::Map => format!(
                    "arrayMap((k, v) -> ({label}, CAST(k, 'String'), substringUTF8(v, 1, 256)), \
                     mapKeys({column}), mapValues({column}))"
                ),
                Attributes::Json => {
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
        full(view),
        on_cluster(cluster),
        full(name),
        quote(time),
        full(source),
        pairs.join(", "),
    );
    change(sql, cluster)
}

/// A table over all shards.
pub(crate) fn create_distributed(
    table: &DeclaredDistributed,
    cluster: Option<&ClusterName>,
) -> Statement {
    let DeclaredDistributed { name, local, cluster: over, shard_by } = table;
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {}{} AS {}\n\
         ENGINE = Distributed({}, {}, {}, cityHash64({}))",
        full(name),
        on_cluster(cluster),
        full(local),
        literal(&over.to_string()),
        literal(local.database().as_str()),
        literal(local.table()),
        quote(shard_by),
    );
    change(sql, cluster)
}
