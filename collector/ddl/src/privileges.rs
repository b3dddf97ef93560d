//! What the user must be allowed to do, asked before anything runs: each privilege by its name, on
//! the object it is needed on, and the one statement that grants what is missing. A server that
//! can't tell (before `CHECK GRANT`, some of 2024) is not asked twice: there the statement itself
//! fails, with the privilege in the server's words.
//!
//! Limits: never says that a privilege is missing when the server did not say so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clickhouse::Row;
use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientError};
use crate::names::TableName;
use crate::privilege::{Privilege, Scope};
use crate::render;

/// The server's code for text it cannot parse: its `CHECK GRANT` is not there yet.
const SYNTAX_ERROR: u32 = 62;

/// Privileges that a server said are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The user who lacks them.
    pub user: String,
    /// Which, sorted; at least one.
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

/// What seeing these tables needs: a server shows nobody what they may not see, so that a table
/// without these looks like one that is not there.
pub(crate) fn of_seeing(tables: &[TableName]) -> BTreeSet<Privilege> {
    let each = |table: &TableName| {
        ["SHOW TABLES", "SHOW COLUMNS"]
            .map(|name| Privilege { name, on: Scope::Table(table.clone()) })
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

/// What of `needed` the user lacks on the server the client asks; `None`: nothing, or the server
/// can't tell. One question where nothing is missing.
///
/// # Errors
/// The server cannot be asked, or takes nothing but reading from this user.
pub async fn missing(
    client: &Client,
    needed: &BTreeSet<Privilege>,
) -> Result<Option<Missing>, ClientError> {
    let all: Vec<&Privilege> = needed.iter().collect();
    if all.is_empty() || are_granted(client, &all).await? != Some(false) {
        return Ok(None);
    }
    // A session that may only read is refused everything else, whatever was granted.
    let modes: Vec<ReadonlyRow> = client.fetch(&render::readonly_mode()).await?;
    if modes.iter().any(|mode| mode.readonly != 0) {
        return Err(ClientError::ReadOnly {
            endpoint: client.endpoint().clone(),
            code: 164,
            message: format!(
                "user {:?} may only read: its setting readonly is not 0",
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
    let grant = render::grant(&privileges, &user);
    Ok(Some(Missing { user, privileges, grant }))
}

/// Whether all are granted; `None`: the server can't tell.
async fn are_granted(
    client: &Client,
    privileges: &[&Privilege],
) -> Result<Option<bool>, ClientError> {
    let asked = render::check_grant(privileges);
    match client.fetch::<GrantRow>(&asked).await {
        Ok(rows) => Ok(rows.first().map(|row| row.result != 0)),
        Err(ClientError::Server { code: SYNTAX_ERROR, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
