//! Tests of what `tables.rs` keeps to itself.

use super::*;
use crate::table::{Expr, Origin};
use crate::types::ColumnType;
use std::collections::HashSet;

fn named(expr: Expr) -> &'static str {
    match expr {
        Expr::Whole => "ServiceName",
        Expr::JsonAllPaths(name)
        | Expr::Lower(name)
        | Expr::CityHash64(name)
        | Expr::ToStartOfFiveMinutes(name)
        | Expr::ToStartOfHour(name)
        | Expr::ToMonday(name)
        | Expr::ToYearMonth(name)
        | Expr::Column(name)
        | Expr::ToDate(name)
        | Expr::ToDateTime(name)
        | Expr::ToUnixTimestamp64Nano(name)
        | Expr::MapKeys(name)
        | Expr::MapValues(name) => name,
    }
}

/// Keys, indexes, defaults and TTLs only name columns their table has.
#[test]
fn every_expression_names_a_column_of_its_table() {
    for attributes in [Attributes::Json, Attributes::Map] {
        for table in tables(attributes) {
            let exprs = [table.partition_by, table.ttl_from]
                .into_iter()
                .chain(table.primary_key.iter().copied())
                .chain(table.order_by.iter().copied())
                .chain(table.indexes.iter().map(|index| index.expr))
                .chain(table.columns.iter().filter_map(|column| match column.origin {
                    Origin::Insert => None,
                    Origin::Default(expr) => Some(expr),
                }));
            for expr in exprs {
                assert!(table.column(named(expr)).is_some(), "{} has no {expr:?}", table.kind);
            }
            assert!(table.order_by.starts_with(&table.primary_key));
        }
    }
}

/// Names are unique, and the attribute variant is the only difference between the variants
/// but for the log table's column of whole seconds.
#[test]
fn columns_are_unique_and_variants_agree() {
    for kind in TableKind::ALL {
        let names = |attributes| -> Vec<&str> {
            table(kind, attributes).insert_columns().map(|column| column.name).collect()
        };
        let json = names(Attributes::Json);
        assert_eq!(json, names(Attributes::Map), "{kind}");
        assert_eq!(json.iter().collect::<HashSet<_>>().len(), json.len(), "{kind}");
    }
    assert!(table(TableKind::Logs, Attributes::Map).column("TimestampTime").is_some());
    assert!(table(TableKind::Logs, Attributes::Json).column("TimestampTime").is_none());
}

/// Essential columns are inserted ones, and the time of the partition is among them.
#[test]
fn essential_columns_are_inserted() {
    for table in tables(Attributes::Map) {
        let essential = table.kind.essential_columns();
        for name in essential {
            let column = table.column(name).unwrap();
            assert_eq!(column.origin, Origin::Insert, "{} {name}", table.kind);
        }
        // Some days are computed from the column of whole seconds, which is made of the time.
        let day = named(table.partition_by);
        let made_of = match table.column(day).unwrap().origin {
            Origin::Insert => day,
            Origin::Default(expr) => named(expr),
        };
        assert!(essential.contains(&made_of), "{}", table.kind);
    }
}

/// The parts of a Nested column are arrays.
#[test]
fn nested_parts_are_arrays() {
    for table in tables(Attributes::Json) {
        for column in table.columns.iter().filter(|column| column.name.contains('.')) {
            assert!(matches!(column.ty, ColumnType::Array(_)), "{}", column.name);
        }
    }
}

/// A suffix names its table, there and back.
#[test]
fn suffixes_round_trip() {
    for kind in TableKind::ALL {
        assert_eq!(kind.suffix().parse(), Ok(kind));
    }
    assert!("nope".parse::<TableKind>().is_err());
}
