//! Rows of a table as text, cell by cell, and in what those of two writers may differ. No two
//! records of a load share a time, so time orders them.
#![allow(dead_code)]

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use millrace_e2e::lab::Variant;
use millrace_schema::{AttributeStorage, Column, ColumnType, Table, TableKind, build_table};
use millrace_stack::clickhouse::Engine;

/// A row: its cells in the order of [`names`].
pub(crate) type Row = Vec<String>;

/// The tables compared in a variant. The Collector's exporter has no JSON for metrics.
pub(crate) fn tables(variant: Variant) -> Vec<Table> {
    let attributes = match variant {
        Variant::Json => AttributeStorage::Json,
        Variant::Map => AttributeStorage::Map,
    };
    let kinds = TableKind::ALL.into_iter().filter(|kind| match kind {
        TableKind::TraceIdTs => false,
        TableKind::Traces | TableKind::Logs => true,
        _ => variant == Variant::Map,
    });
    kinds.map(|kind| build_table(kind, attributes)).collect()
}

/// Columns in which rows of regular data differ, each as `table.column`; why is in
/// docs/internals/conformance.md.
pub(crate) fn known(variant: Variant) -> BTreeSet<String> {
    let json = ["traces.SpanAttributes (types)"];
    let ids = ["Exemplars.SpanId", "Exemplars.TraceId"];
    let exemplars = ["gauge", "sum", "histogram", "exponential_histogram"];
    let exemplars =
        exemplars.iter().flat_map(|kind| ids.map(|column| format!("metrics_{kind}.{column}")));
    let maps = tables(variant).into_iter().flat_map(|table| {
        let name = |column: &Column| format!("{}.{}", table.kind, column.name);
        let maps: Vec<_> = table.insert_columns().filter(|column| is_sorted(column)).collect();
        maps.into_iter().map(name).collect::<Vec<_>>()
    });
    match variant {
        Variant::Json => json.map(str::to_owned).into(),
        Variant::Map => exemplars.chain(maps).collect(),
    }
}

/// Maps whose pairs the Collector's exporter sorts, and which have several in the loads.
fn is_sorted(column: &Column) -> bool {
    column.ty == ColumnType::Map && column.name != "ScopeAttributes"
}

/// The cells of a row by name.
pub(crate) fn names(table: &Table) -> Vec<String> {
    forms(table).into_iter().map(|(name, ..)| name).collect()
}

/// All rows of a table, by time.
pub(crate) fn read(engine: &Engine, database: &str, table: &Table) -> Result<Vec<Row>> {
    let cells: Vec<String> = forms(table).into_iter().map(|(_, form, _)| form).collect();
    let (kind, time) = (table.kind, time(table));
    let answer = engine.query(&format!(
        "SELECT {} FROM {database}.otel_{kind} ORDER BY `{time}` FORMAT JSONCompactEachRow",
        cells.join(", ")
    ))?;
    parse(&answer)
}

/// Rows written one to a line, as JSON.
pub(crate) fn parse(text: &str) -> Result<Vec<Row>> {
    let row = |line| serde_json::from_str(line).with_context(|| format!("no row: {line}"));
    text.lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// The columns in which rows differ as [`Rule`]s say, each as `table.column`.
///
/// # Errors
/// When there are more rows on one side, or a cell differs in another way.
pub(crate) fn differing(table: &Table, ours: &[Row], theirs: &[Row]) -> Result<BTreeSet<String>> {
    let kind = table.kind;
    if ours.is_empty() || ours.len() != theirs.len() {
        bail!("{kind}: {} rows of ours, {} of theirs", ours.len(), theirs.len());
    }
    let mut differing = BTreeSet::new();
    for (ours, theirs) in ours.iter().zip(theirs) {
        for ((name, _, rule), (ours, theirs)) in forms(table).iter().zip(ours.iter().zip(theirs)) {
            if ours == theirs {
                continue;
            }
            if !rule.explains(ours, theirs) {
                bail!("{kind}.{name}: ours {ours}\ntheirs {theirs}");
            }
            differing.insert(format!("{kind}.{name}"));
        }
    }
    Ok(differing)
}

fn time(table: &Table) -> &'static str {
    match table.kind {
        TableKind::Traces | TableKind::Logs => "Timestamp",
        _ => "TimeUnix",
    }
}

/// How a cell may differ.
enum Rule {
    /// Not at all.
    Equal,
    /// Ids outside of any trace: ours are empty, theirs zeros.
    EmptyIds,
    /// Doubles without a fraction: theirs are integers, since JSON text doesn't tell.
    WholeDoubles,
    /// Pairs of a map: theirs are sorted by key.
    SortedPairs,
}

impl Rule {
    fn explains(&self, ours: &str, theirs: &str) -> bool {
        match self {
            Self::Equal => false,
            Self::EmptyIds => {
                let zeros = ["0".repeat(32), "0".repeat(16)];
                let emptied = zeros
                    .iter()
                    .fold(theirs.to_owned(), |text, id| text.replace(&format!("'{id}'"), "''"));
                emptied == ours
            }
            Self::WholeDoubles => {
                let (ours, theirs) = (ours.split('\''), theirs.split('\''));
                let is_equal =
                    |(ours, theirs)| ours == theirs || (ours, theirs) == ("Float64", "Int64");
                ours.clone().count() == theirs.clone().count() && ours.zip(theirs).all(is_equal)
            }
            Self::SortedPairs => match (pairs(ours), pairs(theirs)) {
                (Some(mut ours), Some(theirs)) => {
                    ours.sort();
                    ours == theirs
                }
                _ => false,
            },
        }
    }
}

fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    serde_json::from_str(text).ok()
}

/// Each cell: its name, how it is selected, and how it may differ. JSON by its text, and by the
/// types of its paths too; maps by their pairs in order.
fn forms(table: &Table) -> Vec<(String, String, Rule)> {
    table.insert_columns().flat_map(forms_of).collect()
}

fn forms_of(column: &Column) -> Vec<(String, String, Rule)> {
    let name = column.name;
    let form = |suffix: &str, form: &str, rule| {
        (format!("{name}{suffix}"), form.replace('@', &format!("`{name}`")), rule)
    };
    const TYPES: &str = " (types)";
    match column.ty {
        ColumnType::Json => vec![
            form("", "toJSONString(@)", Rule::Equal),
            form(TYPES, "toString(JSONAllPathsWithTypes(@))", Rule::WholeDoubles),
        ],
        ColumnType::Array(ColumnType::Json) => {
            let types = "toString(arrayMap(set -> JSONAllPathsWithTypes(set), @))";
            vec![form("", "toJSONString(@)", Rule::Equal), form(TYPES, types, Rule::WholeDoubles)]
        }
        ColumnType::Map => {
            let pairs = "toJSONString(CAST(@, 'Array(Tuple(String, String))'))";
            vec![form("", pairs, Rule::SortedPairs)]
        }
        ColumnType::Array(ColumnType::Map) => {
            let pairs = "toJSONString(CAST(@, 'Array(Array(Tuple(String, String)))'))";
            vec![form("", pairs, Rule::Equal)]
        }
        _ if matches!(name, "Exemplars.TraceId" | "Exemplars.SpanId") => {
            vec![form("", "toString(@)", Rule::EmptyIds)]
        }
        _ => vec![form("", "toString(@)", Rule::Equal)],
    }
}
