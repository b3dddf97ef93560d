//! Checks the user's privileges before anything runs, each by its name and object, and returns the
//! one statement that grants the missing ones. A server without `CHECK GRANT` (before some release
//! of 2024) gets no further query: the statement itself then fails, with the privilege in the
//! server's words.
//!
//! Limit: it never reports a missing privilege that the server did not report.

pub(crate) mod needs;
pub(crate) mod privilege;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clickhouse::Row;
use serde::{Deserialize, Serialize};

use crate::client::{ClientError, DdlClient};
use crate::declared::names::TableName;
use crate::privileges::privilege::{Privilege, PrivilegeScope};
use crate::render;

/// The server's code for text that it cannot parse: it has no `CHECK GRANT`.
const SYNTAX_ERROR: u32 = 62;

/// Privileges that a server reports as missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The user who lacks them.
    pub user: String,
    /// The missing privileges, sorted; at least one.
    pub privileges: Vec<Privilege>,
    /// The statement that grants them all, for an administrator to run.
    pub grant: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.privileges.iter().map(ToString::to_string).collect();
        write!(
            f,
            "user {:?} lacks {}; have an administrator run: {}",
            self.user,
            names.join(", "),
            self.grant
        )
    }
}

/// Returns the privileges needed to see these tables. Without them a server hides a table, which
/// then appears not to exist.
pub(crate) fn of_seeing(tables: &[TableName]) -> BTreeSet<Privilege> {
    let each = |table: &TableName| {
        ["SHOW TABLES", "SHOW COLUMNS"]
            .map(|name| Privilege { name, on: PrivilegeScope::Table(table.clone()) })
    };
    tables.iter().flat_map(each).collect()
}

#[derive(Row, Serialize, Deserialize)]
struct GrantRow {
    result: u8,
}

#[derive(Row, Serialize, Deserialize)]
struct ReadonlyRow {
    readonly: u8,
}

/// Returns the part of `needed` that the user lacks on the client's server; `None`: no part, or the
/// server can't report it. It takes one query if nothing is missing.
///
/// # Errors
/// The server cannot be queried, or the user may only read.
pub async fn missing_privileges(
    client: &DdlClient,
    needed: &BTreeSet<Privilege>,
) -> Result<Option<Missing>, ClientError> {
    let all: Vec<&Privilege> = needed.iter().collect();
    if all.is_empty() || are_granted(client, &all).await? != Some(false) {
        return Ok(None);
    }
    // A read-only session is refused everything else, whatever is granted.
    let modes: Vec<ReadonlyRow> = client.fetch(&render::readonly_mode()).await?;
    if modes.iter().any(|mode| mode.readonly != 0) {
        return Err(ClientError::ReadOnly {
            endpoint: client.endpoint().clone(),
            code: 164,
            message: format!(
                "user {:?} may only read: set readonly to 0 in its settings profile",
                client.user()
            ),
        });
    }
    let mut by_name: BTreeMap<&'static str, Vec<&Privilege>> = BTreeMap::new();
    for privilege in all {
        by_name.entry(privilege.name).or_default().push(privilege);
    }
    let mut privileges = Vec::new();
    for group in by_name.into_values() {
        if are_granted(client, &group).await? != Some(false) {
            continue;
        }
        for each in group {
            if are_granted(client, &[each]).await? == Some(false) {
                privileges.push(each.clone());
            }
        }
    }
    if privileges.is_empty() {
        return Ok(None);
    }
    let user = client.user().to_owned();
    let grant = render::grant_statement(&privileges, &user);
    Ok(Some(Missing { user, privileges, grant }))
}

/// Returns whether all are granted; `None`: the server can't report it.
async fn are_granted(
    client: &DdlClient,
    privileges: &[&Privilege],
) -> Result<Option<bool>, ClientError> {
    let query = render::check_grant(privileges);
    match client.fetch::<GrantRow>(&query).await {
        Ok(rows) => Ok(rows.first().map(|row| row.result != 0)),
        Err(ClientError::Server { code: SYNTAX_ERROR, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
