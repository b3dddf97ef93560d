//! Renders `INSERT` headers: a table's column list, in the order of its blocks.

use millrace_schema::Table;

use super::{Statement, qualified_name, quote};
use crate::declared::names::TableName;

/// ``INSERT INTO `db`.`table` (`a`, `b`) FORMAT Native``: the query in an insert's URL. The body is
/// Native blocks with exactly these columns. The caller sets the settings.
#[must_use]
pub fn insert_statement(name: &TableName, table: &Table) -> Statement {
    let columns: Vec<&str> = table.insert_columns().map(|column| column.name).collect();
    insert_columns(name, &columns)
}

/// Returns the same for some of a table's columns, for a live table that lacks others.
#[must_use]
pub fn insert_columns(name: &TableName, columns: &[&str]) -> Statement {
    let columns: Vec<String> = columns.iter().copied().map(quote).collect();
    Statement::new(format!(
        "INSERT INTO {} ({}) FORMAT Native",
        qualified_name(name),
        columns.join(", ")
    ))
}
