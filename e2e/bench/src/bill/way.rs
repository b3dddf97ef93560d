//! Ways of storing, as data: what is asked of `clickhouse-ddl`, and settings of the tables.

use anyhow::{Result, bail};

use crate::dataset::Dataset;

/// A way of storing.
#[derive(Debug)]
pub(super) struct Way {
    /// Its name in results.
    pub(super) name: &'static str,
    /// `JSON` or `Map`.
    pub(super) attributes: &'static str,
    /// Flags of `clickhouse-ddl create`.
    pub(super) flags: &'static [&'static str],
    /// Settings of each table.
    pub(super) settings: &'static [&'static str],
    /// Statements that change each table before anything is inserted. `{table}` is the table with
    /// its database, `{own}` the column of a record's own attributes.
    pub(super) statements: &'static [&'static str],
    /// How readers spell a condition on an attribute's value.
    pub(super) conditions: Conditions,
    /// Kinds of records that it isn't for.
    not_for: &'static [Dataset],
}

/// How a reader asks for records with an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditions {
    /// Compares the value under a key.
    Values,
    /// Looks for a text `key=value` in a column of such texts.
    Items,
}

const fn map(name: &'static str, flags: &'static [&'static str]) -> Way {
    let conditions = Conditions::Values;
    Way { name, attributes: "Map", flags, settings: &[], statements: &[], conditions, not_for: &[] }
}

const fn json(name: &'static str, flags: &'static [&'static str]) -> Way {
    Way { attributes: "JSON", ..map(name, flags) }
}

/// Buckets for parts that merges make; inserts write the usual form.
const BUCKETS: &[&str] = &[
    "map_serialization_version = 'with_buckets'",
    "map_serialization_version_for_zero_level_parts = 'basic'",
];

/// Each attribute as a text `key=value`, computed when it is read, with an index of these texts.
const ITEMS: &[&str] = &[
    "ALTER TABLE {table} ADD COLUMN ResourceItems Array(String) ALIAS arrayMap((k, v) -> \
     concat(k, '=', v), mapKeys(ResourceAttributes), mapValues(ResourceAttributes))",
    "ALTER TABLE {table} ADD COLUMN OwnItems Array(String) ALIAS arrayMap((k, v) -> \
     concat(k, '=', v), mapKeys({own}), mapValues({own}))",
    "ALTER TABLE {table} ADD INDEX idx_resource_items ResourceItems TYPE text(tokenizer = 'array')",
    "ALTER TABLE {table} ADD INDEX idx_own_items OwnItems TYPE text(tokenizer = 'array')",
];

/// Values of attributes in dictionaries. Gateways write plain texts, which the server casts.
const DICTIONARIES: &[&str] = &[
    "ALTER TABLE {table} MODIFY COLUMN ResourceAttributes \
     Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1))",
    "ALTER TABLE {table} MODIFY COLUMN {own} \
     Map(LowCardinality(String), LowCardinality(String)) CODEC(ZSTD(1))",
];

/// Values of points as texts, as in tables from before dictionaries.
const PLAIN_VALUES: &[&str] = &[
    "ALTER TABLE {table} MODIFY COLUMN ResourceAttributes \
     Map(LowCardinality(String), String) CODEC(ZSTD(1))",
    "ALTER TABLE {table} MODIFY COLUMN {own} \
     Map(LowCardinality(String), String) CODEC(ZSTD(1))",
];

const TRACE_TEXT: &[&str] =
    &["ALTER TABLE {table} ADD INDEX idx_trace_text TraceId TYPE text(tokenizer = 'array')"];

const LOOK_UP_WITHOUT_BLOOM: &[&str] = &["ALTER TABLE {table}_trace_id_ts DROP INDEX idx_trace_id"];

/// The look-up as one row of a trace, in small granules: it is found by its key.
const LOOK_UP_BY_TRACE: &[&str] = &[
    "DROP TABLE {table}_trace_id_ts SYNC",
    "CREATE TABLE {table}_trace_id_ts (TraceId String CODEC(ZSTD(1)), \
     Start SimpleAggregateFunction(min, DateTime) CODEC(Delta(4), ZSTD(1)), \
     End SimpleAggregateFunction(max, DateTime) CODEC(Delta(4), ZSTD(1))) \
     ENGINE = AggregatingMergeTree ORDER BY TraceId SETTINGS index_granularity = 1024, \
     non_replicated_deduplication_window = 10000",
];

/// What dashboards ask most, by the minute.
const MINUTES: &[&str] = &[
    "CREATE TABLE {table}_minutes (Minute DateTime CODEC(Delta(4), ZSTD(1)), \
     ServiceName LowCardinality(String), SpanName LowCardinality(String), \
     SpanKind LowCardinality(String), StatusCode LowCardinality(String), \
     Spans SimpleAggregateFunction(sum, UInt64), \
     TotalDuration SimpleAggregateFunction(sum, UInt64), \
     Quantiles AggregateFunction(quantilesDD(0.02, 0.5, 0.9, 0.99), UInt64)) \
     ENGINE = AggregatingMergeTree PARTITION BY toDate(Minute) \
     ORDER BY (ServiceName, SpanName, SpanKind, StatusCode, Minute) \
     SETTINGS non_replicated_deduplication_window = 10000",
    "CREATE MATERIALIZED VIEW {table}_minutes_mv TO {table}_minutes AS SELECT \
     toStartOfMinute(toDateTime(Timestamp)) AS Minute, ServiceName, SpanName, SpanKind, \
     StatusCode, count() AS Spans, sum(Duration) AS TotalDuration, \
     quantilesDDState(0.02, 0.5, 0.9, 0.99)(Duration) AS Quantiles FROM {table} \
     GROUP BY Minute, ServiceName, SpanName, SpanKind, StatusCode",
];

const SPANS: &[Dataset] = &[Dataset::Lean, Dataset::Rich];
const NO_SPANS: &[Dataset] = &[Dataset::Logs, Dataset::Metrics];
const NO_LOGS: &[Dataset] = &[Dataset::Lean, Dataset::Rich, Dataset::Metrics];
const NO_METRICS: &[Dataset] = &[Dataset::Metrics];
const NO_POINTS: &[Dataset] = &[Dataset::Lean, Dataset::Rich, Dataset::Logs];

/// All of them. The first is what the others are compared with.
const ALL: &[Way] = &[
    map("map", &[]),
    map("map, no attribute index", &["--attribute-index", "none"]),
    map("map, text index", &["--attribute-index", "text"]),
    Way { settings: BUCKETS, ..map("map, buckets", &[]) },
    Way {
        settings: BUCKETS,
        ..map("map, buckets, no attribute index", &["--attribute-index", "none"])
    },
    map("map, host as a column", &["--materialize", "HostName=resource:host.name:name"]),
    map("map, roll-up", &["--rollup"]),
    Way { not_for: NO_SPANS, ..map("map, no trace look-up", &["--no-trace-lookup"]) },
    Way { not_for: NO_LOGS, ..map("map, body text index", &["--body-index", "text"]) },
    Way { not_for: NO_LOGS, ..map("map, no body index", &["--body-index", "none"]) },
    Way { not_for: SPANS, ..map("map, otel151", &["--compatibility", "otel151"]) },
    Way {
        statements: ITEMS,
        conditions: Conditions::Items,
        ..map("map, items", &["--attribute-index", "none"])
    },
    Way { statements: DICTIONARIES, not_for: NO_METRICS, ..map("map, dictionaries", &[]) },
    Way { statements: PLAIN_VALUES, not_for: NO_POINTS, ..map("map, plain values", &[]) },
    Way {
        statements: TRACE_TEXT,
        not_for: NO_METRICS,
        ..map("map, trace text index", &["--no-trace-id-index", "--no-trace-lookup"])
    },
    Way {
        statements: LOOK_UP_WITHOUT_BLOOM,
        not_for: NO_SPANS,
        ..map("map, look-up without bloom", &[])
    },
    Way { statements: LOOK_UP_BY_TRACE, not_for: NO_SPANS, ..map("map, look-up by trace", &[]) },
    Way { statements: MINUTES, not_for: NO_SPANS, ..map("map, minutes", &[]) },
    json("json", &[]),
    Way { not_for: NO_LOGS, ..json("json, body text index", &["--body-index", "text"]) },
    Way { statements: MINUTES, not_for: NO_SPANS, ..json("json, minutes", &[]) },
    json("json, text index", &["--attribute-index", "text"]),
    json("json, host typed", &["--typed-path", "resource:host.name"]),
];

/// Those for a kind of records; of these the named ones, if there are names.
///
/// # Errors
/// When a name is none of theirs.
pub(super) fn of(dataset: Dataset, names: &[&str]) -> Result<Vec<&'static Way>> {
    if let Some(wrong) = names.iter().find(|name| ALL.iter().all(|way| way.name != **name)) {
        let all: Vec<&str> = ALL.iter().map(|way| way.name).collect();
        bail!("there is no way {wrong}; there are: {}", all.join("; "));
    }
    let is_asked = |way: &&Way| names.is_empty() || names.contains(&way.name);
    let fits = ALL.iter().filter(|way| !way.not_for.contains(&dataset));
    Ok(fits.filter(is_asked).collect())
}

/// Where a way stands among all.
pub(super) fn place(name: &str) -> usize {
    ALL.iter().position(|way| way.name == name).unwrap_or(ALL.len())
}
