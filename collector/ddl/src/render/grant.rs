//! Privileges: checks whether they are granted, and renders the statement that grants them, which
//! people read and no code runs.

use std::collections::BTreeMap;

use millrace_schema::Identifier;

use super::{Statement, qualified_name, quote};
use crate::privileges::privilege::{Privilege, PrivilegeScope};

/// The privilege to create a table.
pub(crate) const CREATE_TABLE: &str = "CREATE TABLE";

/// The privilege to create a database.
pub(crate) const CREATE_DATABASE: &str = "CREATE DATABASE";

/// Returns one row: 1 if all of them are granted to the querying user.
pub(crate) fn check_grant(privileges: &[&Privilege]) -> Statement {
    let each: Vec<String> = privileges
        .iter()
        .map(|Privilege { name, on }| match on {
            PrivilegeScope::Server => format!("{name} ON *.*"),
            PrivilegeScope::Database(database) => {
                format!("{name} ON {}.*", quote(database.as_str()))
            }
            PrivilegeScope::Table(table) => format!("{name} ON {}", qualified_name(table)),
        })
        .collect();
    Statement::new(format!("CHECK GRANT {}", each.join(", ")))
}

/// Returns one row: 0 if the session may do more than read.
pub(crate) fn readonly_mode() -> Statement {
    Statement::new("SELECT toUInt8(getSetting('readonly')) AS readonly".to_owned())
}

/// Returns the statement for an administrator: on the one table, or on the database where several
/// tables lack the same privilege.
pub(crate) fn grant_statement(privileges: &[Privilege], user: &str) -> String {
    let all_of = |database: &Identifier| format!("{}.*", quote(database.as_str()));
    // Maps each name to the one object that lacks it, or to the database of several.
    let mut scopes: BTreeMap<&str, String> = BTreeMap::new();
    for Privilege { name, on } in privileges {
        let (scope, wider) = match on {
            PrivilegeScope::Server => ("*.*".to_owned(), "*.*".to_owned()),
            PrivilegeScope::Database(database) => (all_of(database), all_of(database)),
            PrivilegeScope::Table(table) => (qualified_name(table), all_of(table.database())),
        };
        scopes.entry(name).and_modify(|known| *known = wider).or_insert(scope);
    }
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, scope) in scopes {
        names.entry(scope).or_default().push(name);
    }
    let parts: Vec<String> = names
        .into_iter()
        .map(|(scope, names)| format!("{} ON {scope}", names.join(", ")))
        .collect();
    format!("GRANT {} TO {}", parts.join(", "), quote(user))
}
