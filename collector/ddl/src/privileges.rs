//! What the user must be allowed to do, asked before anything runs: each privilege by its name, on
//! the object it is needed on, and the one statement that grants what is missing. A server that
//! can't tell (before `CHECK GRANT`, some of 2024) is not asked twice: there the statement itself
//! fails, with the privilege in the server's words.
//!
//! Limits: never says that a privilege is missing when the server did not say so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clickhouse::Row;
use millrace_schema::Identifier;
use serde::{Deserialize, Serialize, Serializer};

use crate::client::{Client, ClientError};
use crate::declared::{Declared, TableName};
use crate::drift::{Drift, DriftKind};
use crate::observe::Observed;
use crate::plan::Step;
use crate::render::{self, CREATE_DATABASE, CREATE_TABLE};

/// The server's code for text it cannot parse: its `CHECK GRANT` is not there yet.
const SYNTAX_ERROR: u32 = 62;

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

/// What mending one difference needs.
pub(crate) fn of_drift(declared: &Declared, drift: &Drift) -> BTreeSet<Privilege> {
    let mut needed = BTreeSet::new();
    let on = |name, on| Privilege { name, on };
    let tables = declared.tables();
    let table = tables.iter().find(|table| table.name.to_string() == drift.object);
    let mut add =
        |name| needed.extend(table.map(|table| on(name, Scope::Table(table.name.clone()))));
    match &drift.kind {
        DriftKind::MissingTable if table.is_some() => add(CREATE_TABLE),
        DriftKind::MissingColumn { .. } => add("ALTER ADD COLUMN"),
        DriftKind::ColumnType { .. } | DriftKind::Compression { .. } => add("ALTER MODIFY COLUMN"),
        DriftKind::MissingIndex { .. } => add("ALTER ADD INDEX"),
        DriftKind::Setting { .. } | DriftKind::StoragePolicy { .. } => add("ALTER SETTINGS"),
        DriftKind::Ttl { .. } => add("ALTER TTL"),
        DriftKind::ExtraColumn { .. } => add("ALTER DROP COLUMN"),
        DriftKind::ExtraIndex { .. } => add("ALTER DROP INDEX"),
        DriftKind::MissingDatabase => {
            needed.insert(on(CREATE_DATABASE, Scope::Database(declared.database.clone())));
        }
        DriftKind::MissingTable => needed.extend(of_companion(declared, &drift.object)),
        DriftKind::MissingView => needed.extend(of_view(declared, &drift.object)),
        DriftKind::Engine { .. }
        | DriftKind::PartitionKey { .. }
        | DriftKind::SortingKey { .. }
        | DriftKind::ViewTarget { .. } => {}
    }
    if declared.cluster.is_some() && !needed.is_empty() {
        needed.insert(on("CLUSTER", Scope::Server));
    }
    needed
}

/// A roll-up, or a table over all shards, which also reaches out to other servers.
fn of_companion(declared: &Declared, object: &str) -> Vec<Privilege> {
    let rollup = declared.rollups().into_iter().find(|each| each.name.to_string() == object);
    if let Some(rollup) = rollup {
        return vec![Privilege { name: CREATE_TABLE, on: Scope::Table(rollup.name) }];
    }
    let all = declared.distributed_tables();
    let table = all.into_iter().find(|each| each.name.to_string() == object);
    table.map_or_else(Vec::new, |table| {
        vec![
            Privilege { name: CREATE_TABLE, on: Scope::Table(table.name) },
            Privilege { name: "REMOTE", on: Scope::Server },
        ]
    })
}

/// A view reads its source and fills its target with its maker's rights.
fn of_view(declared: &Declared, object: &str) -> Vec<Privilege> {
    let of = |view: TableName, source: TableName, target: TableName| {
        let on = |name, table: &TableName| Privilege { name, on: Scope::Table(table.clone()) };
        vec![
            on("CREATE VIEW", &view),
            on("SELECT", &source),
            on("SELECT", &target),
            on("INSERT", &target),
        ]
    };
    if let Some(view) = declared.view().filter(|view| view.name.to_string() == object) {
        return of(view.name, view.source, view.target);
    }
    let rollup = declared.rollups().into_iter().find(|each| each.view.to_string() == object);
    rollup.map_or_else(Vec::new, |rollup| of(rollup.view, rollup.source, rollup.name))
}

/// What running these steps needs, their journal included.
#[must_use]
pub fn needed<'a>(
    declared: &Declared,
    observed: &Observed,
    steps: impl IntoIterator<Item = &'a Step>,
) -> BTreeSet<Privilege> {
    let mut all: BTreeSet<Privilege> =
        steps.into_iter().flat_map(|step| step.privileges.iter().cloned()).collect();
    let journal = declared.journal();
    if !observed.tables.contains_key(journal.table()) {
        all.insert(Privilege { name: CREATE_TABLE, on: Scope::Table(journal.clone()) });
    }
    for name in ["SELECT", "INSERT"] {
        all.insert(Privilege { name, on: Scope::Table(journal.clone()) });
    }
    all
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
