//! Renders a table's engine with its arguments, and its settings, for `CREATE TABLE` and
//! comparisons.

use crate::declared::deduplication_window::DeduplicationWindow;
use crate::declared::names::TableName;
use crate::declared::options::{Engine, Replication, TableOptions};
use crate::render::{literal, quote};

/// Returns an engine with its Keeper path and version column, where it has them. Without a path and
/// a replica the server uses its defaults.
pub(super) fn engine_of(
    engine: &Engine,
    spelled: &str,
    table: &TableName,
    version: Option<&str>,
) -> String {
    let mut arguments = Vec::new();
    if let Some(Replication::Explicit { path, replica }) = engine.replication() {
        let path = format!("{path}/{}/{}", table.database(), table.table());
        arguments.extend([literal(&path), literal(&replica.to_string())]);
    }
    arguments.extend(version.map(quote));
    match arguments.is_empty() {
        true => spelled.to_owned(),
        false => format!("{spelled}({})", arguments.join(", ")),
    }
}

/// Merges work column by column even with few rows: with the server's own bound of 131,072 rows the
/// first merges of most inserts cost twice as much (`docs/internals/performance/tables.md`).
pub(crate) const MERGED_BY_COLUMN: (&str, &str) =
    ("vertical_merge_algorithm_min_rows_to_activate", "1");

/// Returns every setting of a table with these options, by days or by longer partitions, separated
/// by commas.
pub(super) fn table_settings(options: &TableOptions, is_by_day: bool) -> String {
    let (by_column, rows) = MERGED_BY_COLUMN;
    let mut settings = vec![("index_granularity", "8192".to_owned()), (by_column, rows.to_owned())];
    if let Some(policy) = &options.storage.policy {
        settings.push(("storage_policy", literal(&policy.to_string())));
    }
    // These also apply without retention: a later rule then rewrites nothing.
    let retention = retention_settings(is_by_day).into_iter();
    let numbers = retention.chain(deduplication_settings(options));
    settings.extend(numbers.map(|(name, value)| (name, value.to_string())));
    let settings: Vec<String> =
        settings.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
    settings.join(", ")
}

/// Returns the settings by which rows expire, with their values. A new rule is only computed for
/// existing parts; by default the server would rewrite each of them, also for a move. Parts of a
/// day expire together and are unlinked. Parts of longer partitions would outlive the rule by a
/// month or for ever, so merges remove their rows.
pub(crate) fn retention_settings(is_by_day: bool) -> [(&'static str, u64); 2] {
    [("materialize_ttl_recalculate_only", 1), ("ttl_only_drop_parts", u64::from(is_by_day))]
}

/// Returns the settings that let a table drop an insert that it has already stored, with their
/// values.
pub(crate) fn deduplication_settings(options: &TableOptions) -> Vec<(&'static str, u64)> {
    let DeduplicationWindow { inserts, seconds } = options.window;
    match &options.engine {
        Engine::MergeTree | Engine::ReplacingMergeTree => {
            vec![("non_replicated_deduplication_window", inserts)]
        }
        Engine::ReplicatedMergeTree(_) | Engine::ReplicatedReplacingMergeTree(_) => vec![
            ("replicated_deduplication_window", inserts),
            ("replicated_deduplication_window_seconds", seconds),
        ],
        Engine::Null => Vec::new(),
    }
}
