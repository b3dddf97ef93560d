//! Privileges: asking whether they are granted, and the statement that grants them, which is shown
//! to people and never run.

use std::collections::BTreeMap;

use super::{Statement, full, quote};
use crate::declared::Declared;
use crate::privileges::{Privilege, Scope};

/// One row: 1 if every one of them is granted to the user who asks.
pub(crate) fn check_grant(privileges: &[&Privilege], declared: &Declared) -> Statement {
    let each: Vec<String> = privileges
        .iter()
        .map(|Privilege { name, on }| match on {
            Scope::Server => format!("{name} ON *.*"),
            Scope::Database => format!("{name} ON {}.*", quote(declared.database.as_str())),
            Scope::Table(table) => format!("{name} ON {}", full(table)),
        })
        .collect();
    Statement::new(format!("CHECK GRANT {}", each.join(", ")))
}

/// One row: 1 where the session may only read.
pub(crate) fn readonly_mode() -> Statement {
    Statement::new("SELECT toUInt8(getSetting('readonly')) AS readonly".to_owned())
}

/// What an administrator runs: on the one table, or on the database where several lack the same.
pub(crate) fn grant(privileges: &[Privilege], declared: &Declared, user: &str) -> String {
    let everything = "*.*".to_owned();
    let database = format!("{}.*", quote(declared.database.as_str()));
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Privilege { name, on } in privileges {
        places.entry(name).or_default().push(match on {
            Scope::Server => everything.clone(),
            Scope::Database => database.clone(),
            Scope::Table(table) => full(table),
        });
    }
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, mut on) in places {
        let place = if on.len() == 1 { on.swap_remove(0) } else { database.clone() };
        names.entry(place).or_default().push(name);
    }
    let parts: Vec<String> = names
        .into_iter()
        .map(|(place, names)| format!("{} ON {place}", names.join(", ")))
        .collect();
    format!("GRANT {} TO {}", parts.join(", "), quote(user))
}
