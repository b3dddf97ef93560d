//! Explains a declared set: for each table its keys, and for each column, codec and index the
//! reason that accompanies its definition. Pure.

use serde::Serialize;

use crate::declared::{Declared, DeclaredTable};
use crate::render;

/// One part of a table and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The table, as `database.table`.
    pub object: String,
    /// `column`, `index`, `key`, `engine` or `retention`.
    pub part: &'static str,
    /// The part's name and definition.
    pub what: String,
    /// Why it exists, or what it stores.
    pub why: String,
}

/// Returns every part of every table, with its reason.
#[must_use]
pub fn explain_tables(declared: &Declared) -> Vec<Explanation> {
    declared.tables().iter().flat_map(of_table).collect()
}

fn of_table(declared: &DeclaredTable) -> Vec<Explanation> {
    let DeclaredTable { name, table, options } = declared;
    let reason =
        |part, what: String, why: String| Explanation { object: name.to_string(), part, what, why };
    let mut all = Vec::new();
    for column in &table.columns {
        let what = format!("{} {}", column.name, declared.column_type(column));
        let why = format!("{}. {}", column.reason, column.codec.reason());
        all.push(reason("column", what, why));
    }
    for own in declared.computed_columns() {
        let what = format!("{} {}", own.name, own.ty.type_name());
        all.push(reason("column", what, format!("computed from attribute {} at insert", own.path)));
    }
    if !options.engine.stores_rows() {
        let why = "accepts rows and stores none: to measure delivery alone";
        all.push(reason("engine", options.engine.as_str().to_owned(), why.to_owned()));
        return all;
    }
    for index in &table.indexes {
        let what = render::canonical_index(index);
        all.push(reason("index", what, index.reason().to_owned()));
    }
    let partition = render::canonical_list(&[table.partition_by]);
    let why = "an insert of one day falls into one partition, and expires at once";
    all.push(reason("key", format!("partition by {partition}"), why.to_owned()));
    let order = render::canonical_list(&table.order_by);
    let why = "rows that are queried together are stored together, and compress";
    all.push(reason("key", format!("order by {order}"), why.to_owned()));
    let (setting, value) = render::MERGED_BY_COLUMN;
    let why = "merges go column by column: the first ones cost half as much";
    all.push(reason("engine", format!("{setting} = {value}"), why.to_owned()));
    for (setting, value) in render::deduplication_settings(options) {
        let why = "an insert sent again under its token is dropped while it is remembered";
        all.push(reason("engine", format!("{setting} = {value}"), why.to_owned()));
    }
    if let Some(rules) = render::canonical_ttl(table.ttl_from, options) {
        let why = "rows expire by their own time";
        all.push(reason("retention", rules, why.to_owned()));
    }
    for (setting, value) in render::retention_settings(declared.has_day_partitions()) {
        let why = match setting {
            "ttl_only_drop_parts" if value == 1 => {
                "parts of an expired day are unlinked, not written again"
            }
            "ttl_only_drop_parts" => "merges remove expired rows of longer partitions",
            _ => "another time to live is computed for old parts, which aren't written again",
        };
        all.push(reason("retention", format!("{setting} = {value}"), why.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::options::{Signals, TableOptions};

    /// Guarantee: every column and index of every table has a reason that is not empty.
    #[test]
    fn everything_is_explained() {
        let name = || "otel".parse().unwrap();
        let declared = Declared::uniform(name(), name(), Signals::ALL, &TableOptions::default());
        let all = explain_tables(&declared);
        assert!(all.iter().all(|each| !each.why.is_empty() && !each.why.starts_with('.')));
        let wanted: usize =
            declared.tables().iter().map(|t| t.table.columns.len() + t.table.indexes.len()).sum();
        let given = all.iter().filter(|each| matches!(each.part, "column" | "index")).count();
        assert_eq!(given, wanted);
    }
}
