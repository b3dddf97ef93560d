//! The workloads that come with the program.

/// Their names.
pub(crate) const NAMES: [&str; 7] = [
    "clickhouse-load",
    "described-load",
    "published-load",
    "merge",
    "deduplication-log",
    "read-heavy",
    "session-storm",
];

/// The text of one.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    match name {
        "clickhouse-load" => Some(include_str!("ready/clickhouse-load.yaml")),
        "described-load" => Some(include_str!("ready/described-load.yaml")),
        "published-load" => Some(include_str!("ready/published-load.yaml")),
        "merge" => Some(include_str!("ready/merge.yaml")),
        "deduplication-log" => Some(include_str!("ready/deduplication-log.yaml")),
        "read-heavy" => Some(include_str!("ready/read-heavy.yaml")),
        "session-storm" => Some(include_str!("ready/session-storm.yaml")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
