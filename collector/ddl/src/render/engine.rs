//! A table's engine with its arguments, and its settings, as `CREATE TABLE` and comparisons need
//! them.

use super::{literal, quote};
use crate::names::TableName;
use crate::options::{Engine, Replication, TableOptions, Window};

/// An engine with its Keeper path and version column, where it has them.
pub(super) fn engine_of(
    engine: &Engine,
    spelled: &str,
    table: &TableName,
    version: Option<&str>,
) -> String {
    let mut arguments = Vec::new();
    if let Some(Replication { path, replica }) = engine.replication() {
        let path = format!("{path}/{}/{}", table.database(), table.table());
        arguments.extend([literal(&path), literal(&replica.to_string())]);
    }
    arguments.extend(version.map(quote));
    match arguments.is_empty() {
        true => spelled.to_owned(),
        false => format!("{spelled}({})", arguments.join(", ")),
    }
}

/// Merges go column by column however few rows they have: with the server's own bound of 131,072
/// rows the first merges of most inserts cost it twice as much (`docs/schema.md`).
pub(crate) const MERGED_BY_COLUMN: (&str, &str) =
    ("vertical_merge_algorithm_min_rows_to_activate", "1");

/// Every table setting, between commas.
pub(super) fn settings(options: &TableOptions) -> String {
    let (by_column, rows) = MERGED_BY_COLUMN;
    let mut settings = vec![("index_granularity", "8192".to_owned()), (by_column, rows.to_owned())];
    if let Some(policy) = &options.storage.policy {
        settings.push(("storage_policy", literal(&policy.to_string())));
    }
    if options.ttl.is_some() {
        // Days are partitions: whole parts expire together and are unlinked, never rewritten.
        settings.push(("ttl_only_drop_parts", "1".to_owned()));
    }
    let windows = deduplication_settings(options);
    settings.extend(windows.into_iter().map(|(name, value)| (name, value.to_string())));
    let settings: Vec<String> =
        settings.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
    settings.join(", ")
}

/// The settings that let a table drop an insert it has already taken, and their values.
pub(crate) fn deduplication_settings(options: &TableOptions) -> Vec<(&'static str, u64)> {
    let Window { inserts, seconds } = options.window;
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
