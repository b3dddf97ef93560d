//! Privileges: asking whether they are granted, and the statement that grants them, which is shown
//! to people and never run.

use std::collections::BTreeMap;

use millrace_schema::Identifier;

use super::{Statement, full, quote};
use crate::privilege::{Privilege, Scope};

/// The privilege to make a table.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE";

/// The privilege to make a database.
pub(crate) const CREATE_DATABASE: &str = "CREATE DATABASE";

/// One row: 1 if every one of them is granted to the user who asks.
pub(crate) fn check_grant(privileges: &[&Privilege]) -> Statement {
    let each: Vec<String> = privileges
        .iter()
        .map(|Privilege { name, on }| match on {
            Scope::Server => format!("{name} ON *.*"),
            Scope::Database(database) => format!("{name} ON {}.*", quote(database.as_str())),
            Scope::Table(table) => format!("{name} ON {}", full(table)),
        })
        .collect();
    Statement::new(format!("CHECK GRANT {}", each.join(", ")))
}

/// One row: 0 where the session may do more than read.
pub(crate) fn readonly_mode() -> Statement {
    Statement::new("SELECT toUInt8(getSetting('readonly')) AS readonly".to_owned())
}

/// What an administrator runs: on the one table, or on the database where several lack the same.
pub(crate) fn grant(privileges: &[Privilege], user: &str) -> String {
    let all_of = |database: &Identifier| format!("{}.*", quote(database.as_str()));
    // By name: the one place it is missing on, or the database of several.
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for Privilege { name, on } in privileges {
        let (place, wider) = match on {
            Scope::Server => ("*.*".to_owned(), "*.*".to_owned()),
            Scope::Database(database) => (all_of(database), all_of(database)),
            Scope::Table(table) => (full(table), all_of(table.database())),
        };
        places.entry(name).and_modify(|known| *known = wider).or_insert(place);
    }
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, place) in places {
        names.entry(place).or_default().push(name);
    }
    let parts: Vec<String> = names
        .into_iter()
        .map(|(place, names)| format!("{} ON {place}", names.join(", ")))
        .collect();
    format!("GRANT {} TO {}", parts.join(", "), quote(user))
}
