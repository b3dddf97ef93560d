//! Why a declared set is as it is: for each table its keys, and for each column, codec and index
//! the sentence that stands beside its definition. Pure.

use serde::Serialize;

use crate::declared::{Declared, DeclaredTable};
use crate::render;
use millrace_schema::{codec_reason, column_reason, index_reason};

/// One thing and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// `database.table`.
    pub object: String,
    /// `column`, `index`, `key`, `engine` or `retention`.
    pub part: &'static str,
    /// Its name and definition.
    pub what: String,
    /// Why it is there, or what it holds.
    pub why: String,
}

/// Every part of every table, with its reason.
#[must_use]
pub fn explain(declared: &Declared) -> Vec<Reason> {
    declared.tables().iter().flat_map(of_table).collect()
}

fn of_table(declared: &DeclaredTable) -> Vec<Reason> {
    let DeclaredTable { name, table, options } = declared;
    let reason =
        |part, what: String, why: String| Reason { object: name.to_string(), part, what, why };
    let mut all = Vec::new();
    for column in &table.columns {
        let what = format!("{} {}", column.name, declared.column_type(column));
        let why =
            format!("{}. {}", column_reason(table.kind, column.name), codec_reason(column.codec));
        all.push(reason("column", what, why));
    }
    for own in declared.own_columns() {
        let what = format!("{} {}", own.name, own.ty.type_name());
        all.push(reason("column", what, format!("computed from attribute {} at insert", own.path)));
    }
    if !options.engine.keeps_rows() {
        let why = "takes rows and keeps none: for measuring the way there";
        all.push(reason("engine", options.engine.name().to_owned(), why.to_owned()));
        return all;
    }
    for index in &table.indexes {
        let what = render::canonical_index(index);
        all.push(reason("index", what, index_reason(index).to_owned()));
    }
    let partition = render::canonical_list(&[table.partition_by]);
    let why = "an insert of one day falls into one partition, and expires as a whole";
    all.push(reason("key", format!("partition by {partition}"), why.to_owned()));
    let order = render::canonical_list(&table.order_by);
    let why = "what is asked for together lies together, and compresses";
    all.push(reason("key", format!("order by {order}"), why.to_owned()));
    let (setting, value) = render::MERGED_BY_COLUMN;
    let why = "merges go column by column: the first ones cost half as much";
    all.push(reason("engine", format!("{setting} = {value}"), why.to_owned()));
    for (setting, value) in render::deduplication_settings(options) {
        let why = "an insert sent again under its token is dropped while it is remembered";
        all.push(reason("engine", format!("{setting} = {value}"), why.to_owned()));
    }
    if let Some(rules) = render::canonical_ttl(table.ttl_from, options) {
        let why = "rows go by their own time, whole parts at once";
        all.push(reason("retention", rules, why.to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Signals, TableOptions};

    /// Guarantee: every column and index of every table is explained, none with an empty sentence.
    #[test]
    fn everything_is_explained() {
        let name = || "otel".parse().unwrap();
        let declared = Declared::uniform(name(), name(), Signals::ALL, &TableOptions::default());
        let all = explain(&declared);
        assert!(all.iter().all(|each| !each.why.is_empty() && !each.why.starts_with('.')));
        let wanted: usize =
            declared.tables().iter().map(|t| t.table.columns.len() + t.table.indexes.len()).sum();
        let given = all.iter().filter(|each| matches!(each.part, "column" | "index")).count();
        assert_eq!(given, wanted);
    }
}
