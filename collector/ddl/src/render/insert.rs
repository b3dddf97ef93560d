//! `INSERT` headers: the column list of a table, in the order its blocks carry.

use millrace_schema::Table;

use super::{Statement, full, quote};
use crate::names::TableName;

/// ``INSERT INTO `db`.`table` (`a`, `b`) FORMAT Native``: what goes into the URL of an insert; the
/// body is Native blocks with exactly these columns. Settings are the caller's.
#[must_use]
pub fn insert_statement(name: &TableName, table: &Table) -> Statement {
    let columns: Vec<&str> = table.insert_columns().map(|column| column.name).collect();
    insert_columns(name, &columns)
}

/// The same for some of a table's columns, as after finding that the live table lacks one.
#[must_use]
pub fn insert_columns(name: &TableName, columns: &[&str]) -> Statement {
    let columns: Vec<String> = columns.iter().copied().map(quote).collect();
    Statement::new(format!("INSERT INTO {} ({}) FORMAT Native", full(name), columns.join(", ")))
}
