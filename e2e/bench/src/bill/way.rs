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
    /// Kinds of records that it isn't for.
    not_for: &'static [Dataset],
}

const fn map(name: &'static str, flags: &'static [&'static str]) -> Way {
    Way { name, attributes: "Map", flags, settings: &[], not_for: &[] }
}

const fn json(name: &'static str, flags: &'static [&'static str]) -> Way {
    Way { name, attributes: "JSON", flags, settings: &[], not_for: &[] }
}

/// Buckets for parts that merges make; inserts write the usual form.
const BUCKETS: &[&str] = &[
    "map_serialization_version = 'with_buckets'",
    "map_serialization_version_for_zero_level_parts = 'basic'",
];

const NO_SPANS: &[Dataset] = &[Dataset::Logs, Dataset::Metrics];

/// All of them. The first is what the others are compared with.
const ALL: &[Way] = &[
    map("map", &[]),
    map("map, no attribute index", &["--attribute-index", "left-out"]),
    map("map, text index", &["--attribute-index", "text"]),
    Way { settings: BUCKETS, ..map("map, buckets", &[]) },
    Way {
        settings: BUCKETS,
        ..map("map, buckets, no attribute index", &["--attribute-index", "left-out"])
    },
    map("map, host as a column", &["--materialize", "HostName=resource:host.name:name"]),
    map("map, roll-up", &["--rollup"]),
    Way { not_for: NO_SPANS, ..map("map, no trace look-up", &["--no-trace-lookup"]) },
    json("json", &[]),
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
