//! A privilege by ClickHouse's name of it, and what it is needed on. Pure.

use std::fmt;

use millrace_schema::Identifier;
use serde::{Serialize, Serializer};

use crate::names::TableName;

/// What a privilege is needed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The whole server.
    Server,
    /// A database, and every table in it.
    Database(Identifier),
    /// One table or view.
    Table(TableName),
}

/// One privilege, by ClickHouse's name of it, and what it is needed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Privilege {
    /// Such as `ALTER ADD COLUMN`.
    pub name: &'static str,
    /// Where.
    pub on: Scope,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.on {
            Scope::Server => write!(f, "{name} on the server"),
            Scope::Database(database) => write!(f, "{name} on {database}"),
            Scope::Table(table) => write!(f, "{name} on {table}"),
        }
    }
}

impl Serialize for Privilege {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
