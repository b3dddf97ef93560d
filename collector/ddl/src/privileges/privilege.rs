//! A privilege, by ClickHouse's name, and its object. Pure.

use std::fmt;

use millrace_schema::Identifier;
use serde::{Serialize, Serializer};

use crate::declared::names::TableName;

/// The object of a privilege.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrivilegeScope {
    /// The complete server.
    Server,
    /// A database, and every table in it.
    Database(Identifier),
    /// One table or view.
    Table(TableName),
}

/// One privilege, by ClickHouse's name, and its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Privilege {
    /// The name, such as `ALTER ADD COLUMN`.
    pub name: &'static str,
    /// The object.
    pub on: PrivilegeScope,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match &self.on {
            PrivilegeScope::Server => write!(f, "{name} on the server"),
            PrivilegeScope::Database(database) => write!(f, "{name} on {database}"),
            PrivilegeScope::Table(table) => write!(f, "{name} on {table}"),
        }
    }
}

impl Serialize for Privilege {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
