//! Checks the conditions for any statement that changes something: a known version with the
//! features that the tables need and, for replicated tables, a Keeper that answers and replicas
//! that accept writes. It only reads.

use std::fmt;
use std::str::FromStr;

use clickhouse::Row;
use serde::{Deserialize, Serialize};

use crate::client::{Category, ClientError, DdlClient};
use crate::declared::Declared;
use crate::live::coordination::needs_coordination;
use crate::privileges::Missing;
use crate::render;
use millrace_schema::{AttributeIndex, AttributeStorage, BodyIndex};

/// The oldest server that gets Map tables; Rotel and the Collector require the same.
const OLDEST: ServerVersion = ServerVersion { year: 23, minor: 3 };
/// The first server that reads JSON in the flattened form that gateways write (ClickHouse#80499).
/// The type is no longer experimental since 25.3, but 25.3 to 25.5 refuse each insert.
const FIRST_JSON: ServerVersion = ServerVersion { year: 25, minor: 6 };
/// The first server whose inverted indexes need no setting.
const FIRST_TEXT_INDEX: ServerVersion = ServerVersion { year: 26, minor: 2 };

/// The part of a server's version that decides features: `26.9` of `26.9.2.1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ServerVersion {
    /// Year of the release, less 2000.
    pub year: u16,
    /// Number within the year.
    pub minor: u16,
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.year, self.minor)
    }
}

impl FromStr for ServerVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split('.').map(|part| part.parse::<u16>().map_err(drop));
        match (parts.next(), parts.next()) {
            (Some(year), Some(minor)) => Ok(Self { year: year?, minor: minor? }),
            _ => Err(()),
        }
    }
}

/// Facts about a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFacts {
    /// The server's version.
    pub version: ServerVersion,
    /// The host name that it reports.
    pub host: String,
    /// Live sessions with its Keeper; `None`: nothing here needs one, so it was not queried.
    pub keeper_sessions: Option<u64>,
}

/// Why nothing runs on a server.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    /// It cannot be queried.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Its version is not a ClickHouse version.
    #[error(
        "the server reports version {0:?}, which is not one of ClickHouse's; check the endpoint"
    )]
    UnknownVersion(String),
    /// It is too old for the declaration.
    #[error("the server is {found}; {what} needs {needed} or later: {advice}")]
    TooOld {
        /// The server's version.
        found: ServerVersion,
        /// The feature that it lacks.
        what: &'static str,
        /// The first version with that feature.
        needed: ServerVersion,
        /// What to do instead.
        advice: &'static str,
    },
    /// The declaration has replicated tables or a cluster, and the server's configuration has no
    /// Keeper.
    #[error(
        "replicated tables or ON CLUSTER are declared, and this server has no Keeper configured; \
         configure one, or declare MergeTree without a cluster"
    )]
    NoKeeper,
    /// The user lacks privileges for the pending steps.
    #[error("{0}; nothing was run")]
    Privileges(Missing),
    /// It has lost its Keeper, or Keeper its quorum.
    #[error(
        "the server has no live session with its Keeper: {0}; nothing was run. Check Keeper's \
         quorum; the next attempt continues automatically"
    )]
    KeeperLost(String),
    /// A replica of ours accepts no writes.
    #[error(
        "table {table} is a read-only replica ({active} of {total} replicas are active); nothing \
         was run. Check the server's session with Keeper, or restore the replica"
    )]
    ReadOnlyReplica {
        /// The table.
        table: String,
        /// Replicas that are active.
        active: u64,
        /// Replicas in all.
        total: u64,
    },
}

#[derive(Row, Serialize, Deserialize)]
struct ServerRow {
    version: String,
    host: String,
}

#[derive(Row, Serialize, Deserialize)]
struct KeeperRow {
    alive: u64,
}

#[derive(Row, Serialize, Deserialize)]
struct ReplicaRow {
    table: String,
    is_readonly: u8,
    total: u64,
    active: u64,
}

/// Checks the client's server.
///
/// # Errors
/// The reason why nothing may run.
pub async fn run_preflight(
    client: &DdlClient,
    declared: &Declared,
) -> Result<ServerFacts, PreflightError> {
    let found: Vec<ServerRow> = client.fetch(&render::select_server()).await?;
    let Some(ServerRow { version: text, host }) = found.into_iter().next() else {
        return Err(PreflightError::UnknownVersion(String::new()));
    };
    let version = text.parse().map_err(|()| PreflightError::UnknownVersion(text))?;
    check_version(version, declared)?;
    let keeper_sessions = match needs_coordination(declared) {
        true => Some(check_keeper(client, declared).await?),
        false => None,
    };
    Ok(ServerFacts { version, host, keeper_sessions })
}

fn check_version(found: ServerVersion, declared: &Declared) -> Result<(), PreflightError> {
    let too_old = |what, needed, advice| match found < needed {
        true => Err(PreflightError::TooOld { found, what, needed, advice }),
        false => Ok(()),
    };
    too_old("the table set", OLDEST, "upgrade it")?;
    for options in [&declared.traces, &declared.logs, &declared.metrics].into_iter().flatten() {
        if options.attributes == AttributeStorage::Json {
            too_old("JSON", FIRST_JSON, "upgrade it, or store attributes as Map")?;
        }
        let layout = &options.layout;
        let has_text =
            layout.body_index == BodyIndex::Text || layout.attribute_index == AttributeIndex::Text;
        if has_text {
            too_old("a text index", FIRST_TEXT_INDEX, "upgrade it, or use bloom filters")?;
        }
    }
    Ok(())
}

/// Checks the Keeper. A server without Keeper in its configuration has no table of sessions; one
/// that lost its Keeper has the table, without a live session.
async fn check_keeper(client: &DdlClient, declared: &Declared) -> Result<u64, PreflightError> {
    let sessions = match client.fetch::<KeeperRow>(&render::select_keepers()).await {
        Ok(rows) => rows.first().map_or(0, |row| row.alive),
        Err(error) if error.category() == Category::UnknownTable => {
            return Err(PreflightError::NoKeeper);
        }
        Err(error) if error.category() == Category::KeeperLost => {
            return Err(PreflightError::KeeperLost(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    if sessions == 0 {
        return Err(PreflightError::KeeperLost("none of its sessions is alive".to_owned()));
    }
    let ours: Vec<String> =
        declared.tables().into_iter().map(|table| table.name.table().to_owned()).collect();
    let replicas =
        match client.fetch::<ReplicaRow>(&render::select_replicas(&declared.database)).await {
            Err(error) if error.category() == Category::KeeperLost => {
                return Err(PreflightError::KeeperLost(error.to_string()));
            }
            other => other?,
        };
    for ReplicaRow { table, is_readonly, total, active } in replicas {
        if is_readonly != 0 && ours.contains(&table) {
            return Err(PreflightError::ReadOnlyReplica { table, active, total });
        }
    }
    Ok(sessions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declared::options::{Signals, TableOptions};

    fn declared(attributes: AttributeStorage) -> Declared {
        let options = TableOptions { attributes, ..TableOptions::default() };
        let name = || "otel".parse().unwrap();
        Declared::uniform(name(), name(), Signals::ALL, &options)
    }

    /// Scenario: versions in servers' and clouds' spelling, and other words. Guarantee: each is
    /// parsed or refused, never guessed.
    #[test]
    fn versions_are_read_or_refused() {
        for (text, year, minor) in [("26.9.2.1", 26, 9), ("25.8.1.8344", 25, 8), ("24.3", 24, 3)] {
            assert_eq!(text.parse(), Ok(ServerVersion { year, minor }));
        }
        for text in ["", "26", "v26.9", "mysql", "x.y"] {
            assert!(text.parse::<ServerVersion>().is_err(), "{text}");
        }
    }

    /// Scenario: a server older than JSON. Guarantee: JSON tables are refused with the alternative,
    /// Map tables are not; a server older than every known version is refused for both.
    #[test]
    fn a_server_too_old_is_refused_with_the_way_out() {
        let old = ServerVersion { year: 24, minor: 8 };
        let message =
            check_version(old, &declared(AttributeStorage::Json)).unwrap_err().to_string();
        assert!(message.contains("25.6") && message.contains("Map"), "{message}");
        assert!(check_version(old, &declared(AttributeStorage::Map)).is_ok());
        let ancient = ServerVersion { year: 22, minor: 8 };
        assert!(check_version(ancient, &declared(AttributeStorage::Map)).is_err());
    }
}
