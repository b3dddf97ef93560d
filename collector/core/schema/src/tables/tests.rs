//! Tests of the private functions of `tables.rs`.

use super::*;
use crate::table::{Expr, ValueOrigin};
use crate::types::ColumnType;
use std::collections::HashSet;

fn named(expr: Expr) -> &'static str {
    match expr {
        Expr::JsonAllPaths(name)
        | Expr::Lower(name)
        | Expr::CityHash64(name)
        | Expr::ToStartOfFiveMinutes(name)
        | Expr::ToStartOfHour(name)
        | Expr::ToYearMonth(name)
        | Expr::Column(name)
        | Expr::ToDate(name)
        | Expr::ToDateTime(name)
        | Expr::ToUnixTimestamp64Nano(name)
        | Expr::MapKeys(name)
        | Expr::MapValues(name) => name,
    }
}

/// Guarantee: keys, indexes, defaults and TTLs only name columns of their table.
#[test]
fn every_expression_names_a_column_of_its_table() {
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        for table in all_tables(attributes) {
            let exprs = [table.partition_by, table.ttl_from]
                .into_iter()
                .chain(table.primary_key.iter().copied())
                .chain(table.order_by.iter().copied())
                .chain(table.indexes.iter().map(|index| index.expr))
                .chain(table.columns.iter().filter_map(|column| match column.origin {
                    ValueOrigin::Insert => None,
                    ValueOrigin::Default(expr) => Some(expr),
                }));
            for expr in exprs {
                assert!(table.column(named(expr)).is_some(), "{} has no {expr:?}", table.kind);
            }
            assert!(table.order_by.starts_with(&table.primary_key));
        }
    }
}

/// Guarantee: every column states what it stores.
#[test]
fn every_column_has_its_reason() {
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        for table in all_tables(attributes) {
            for column in &table.columns {
                assert!(!column.reason.is_empty(), "{}.{}", table.kind, column.name);
            }
        }
    }
}

/// Guarantee: names are unique, and the variants differ only in their attributes and in the log
/// table's column of whole seconds.
#[test]
fn columns_are_unique_and_variants_agree() {
    for kind in TableKind::ALL {
        let names = |attributes| -> Vec<&str> {
            build_table(kind, attributes).insert_columns().map(|column| column.name).collect()
        };
        let json = names(AttributeStorage::Json);
        assert_eq!(json, names(AttributeStorage::Map), "{kind}");
        assert_eq!(json.iter().collect::<HashSet<_>>().len(), json.len(), "{kind}");
    }
    assert!(build_table(TableKind::Logs, AttributeStorage::Map).column("TimestampTime").is_some());
    assert!(build_table(TableKind::Logs, AttributeStorage::Json).column("TimestampTime").is_none());
}

/// Guarantee: essential columns are inserted, and include the time of the partition.
#[test]
fn essential_columns_are_inserted() {
    for table in all_tables(AttributeStorage::Map) {
        let essential = table.kind.essential_columns();
        for name in essential {
            let column = table.column(name).unwrap();
            assert_eq!(column.origin, ValueOrigin::Insert, "{} {name}", table.kind);
        }
        // Some days are computed from the column of whole seconds, which is computed from the time.
        let day = named(table.partition_by);
        let made_of = match table.column(day).unwrap().origin {
            ValueOrigin::Insert => day,
            ValueOrigin::Default(expr) => named(expr),
        };
        assert!(essential.contains(&made_of), "{}", table.kind);
    }
}

/// Guarantee: the parts of a Nested column are arrays.
#[test]
fn nested_parts_are_arrays() {
    for table in all_tables(AttributeStorage::Json) {
        for column in table.columns.iter().filter(|column| column.name.contains('.')) {
            assert!(matches!(column.ty, ColumnType::Array(_)), "{}", column.name);
        }
    }
}

/// Guarantee: a suffix maps to its table and back.
#[test]
fn suffixes_round_trip() {
    for kind in TableKind::ALL {
        assert_eq!(kind.suffix().parse(), Ok(kind));
    }
    assert!("nope".parse::<TableKind>().is_err());
}
