//! How a ClickHouse server sees its Keeper or ZooKeeper: sessions, replicas, counters, what tables
//! ask. Only reads.
//!
//! A right that is missing hides a part and is named with its `GRANT`; it is never taken for an
//! outage. Nor is a server that keeps no record of parts, or an older one without their counters.
//! Limits: `system.replicas` asks Keeper itself, some requests for each table.

use std::collections::BTreeSet;

use clickhouse::Row;
use millrace_coordination::observation::{Blindness, Counters, Replica, Session, Sight, TableLoad};
use serde::{Deserialize, Serialize};

use crate::client::{Category, Client, ClientError};
use crate::declared::Declared;
use crate::render::{self, EVENTS, PARTS, REPLICAS, SESSIONS, Statement};

#[derive(Row, Serialize, Deserialize)]
struct SessionRow {
    name: String,
    host: String,
    port: u16,
    is_expired: u8,
    age_seconds: u64,
}

#[derive(Row, Serialize, Deserialize)]
struct StateRow {
    table: String,
    is_readonly: u8,
    is_session_expired: u8,
    exception: String,
    queue_entries: u64,
    delay_seconds: u64,
    total: u64,
    active: u64,
}

#[derive(Row, Serialize, Deserialize)]
struct CountersRow {
    requests: u64,
    multi_requests: u64,
    wait_microseconds: u64,
    broken: u64,
    rows: u64,
}

#[derive(Row, Serialize, Deserialize)]
struct LoadRow {
    table: String,
    parts: u64,
    inserted_rows: u64,
    requests: u64,
}

/// Whether what is declared needs Keeper or ZooKeeper: replicated tables, or a cluster's.
#[must_use]
pub fn needs_coordination(declared: &Declared) -> bool {
    let options = [&declared.traces, &declared.logs, &declared.metrics];
    declared.cluster.is_some()
        || options.into_iter().flatten().any(|options| options.engine.replication().is_some())
}

/// Coordination as the server sees it that the client asks.
///
/// # Errors
/// Why it can't say: no Keeper, no session, no right, no answer.
pub async fn coordination(client: &Client, declared: &Declared) -> Result<Sight, Blindness> {
    let mut refused = BTreeSet::new();
    let sessions = match client.fetch::<SessionRow>(&render::sessions()).await {
        Ok(rows) => rows.into_iter().map(session).collect(),
        Err(error) => return Err(blindness(client, error)),
    };
    let tables = declared.tables();
    let names: Vec<&str> = tables.iter().map(|table| table.name.table()).collect();
    let states = render::replica_states(&declared.database, &names);
    let states = asked::<StateRow>(client, &states, REPLICAS, &mut refused).await?;
    let counters = render::keeper_counters();
    let counters = asked::<CountersRow>(client, &counters, EVENTS, &mut refused).await?;
    let loads = render::table_loads(&declared.database, &names);
    // A figure, no sign of health: whatever else it fails with, there is none.
    let loads = asked::<LoadRow>(client, &loads, PARTS, &mut refused).await.unwrap_or_default();
    Ok(Sight {
        sessions,
        replicas: states.into_iter().map(replica).collect(),
        counters: counters.into_iter().next().map(counted),
        tables: loads.into_iter().map(load).collect(),
        grant: (!refused.is_empty()).then(|| {
            let refused: Vec<&str> = refused.into_iter().collect();
            render::grant_reading(&refused, client.user())
        }),
    })
}

/// The rows of a question; none, and the table noted, where the user may not ask it.
async fn asked<T>(
    client: &Client,
    question: &Statement,
    table: &'static str,
    refused: &mut BTreeSet<&'static str>,
) -> Result<Vec<T>, Blindness>
where
    T: clickhouse::RowOwned + clickhouse::RowRead,
{
    match client.fetch(question).await {
        Ok(rows) => Ok(rows),
        Err(error) if error.category() == Category::Privilege => {
            refused.insert(table);
            Ok(Vec::new())
        }
        Err(error) => Err(blindness(client, error)),
    }
}

fn blindness(client: &Client, error: ClientError) -> Blindness {
    match error.category() {
        Category::UnknownTable => Blindness::NoKeeper,
        Category::KeeperLost => Blindness::SessionLost(without_query(&error)),
        Category::Privilege => {
            let tables = [SESSIONS, REPLICAS, EVENTS, PARTS];
            Blindness::NotAllowed { grant: render::grant_reading(&tables, client.user()) }
        }
        _ => Blindness::Unreachable(without_query(&error)),
    }
}

/// The error without what differs from one time to the next.
fn without_query(error: &ClientError) -> String {
    let text = error.to_string();
    text.split(" (version ").next().unwrap_or(&text).trim_end().to_owned()
}

fn session(row: SessionRow) -> Session {
    let SessionRow { name, host, port, is_expired, age_seconds } = row;
    Session { name, server: format!("{host}:{port}"), is_expired: is_expired != 0, age_seconds }
}

fn replica(row: StateRow) -> Replica {
    let StateRow {
        table,
        is_readonly,
        is_session_expired,
        exception,
        queue_entries,
        delay_seconds,
        total,
        active,
    } = row;
    Replica {
        table,
        is_readonly: is_readonly != 0,
        is_session_expired: is_session_expired != 0,
        exception,
        queue_entries,
        delay_seconds,
        total,
        active,
    }
}

fn counted(row: CountersRow) -> Counters {
    let CountersRow { requests, multi_requests, wait_microseconds, broken, rows } = row;
    Counters { requests, multi_requests, wait_microseconds, broken, rows }
}

fn load(row: LoadRow) -> TableLoad {
    let LoadRow { table, parts, inserted_rows, requests } = row;
    TableLoad { table, parts, rows: inserted_rows, requests }
}
