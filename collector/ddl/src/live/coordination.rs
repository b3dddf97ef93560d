//! Reports a ClickHouse server's view of its Keeper or ZooKeeper: sessions, replicas, counters, the
//! requests of its tables. It only reads.
//!
//! A missing right hides one part of the report and is named with its `GRANT`; it never counts as
//! an outage. Nor does a server without a part log, or an older one without those counters. Limit:
//! `system.replicas` queries Keeper, with some requests for each table.

use std::collections::BTreeSet;

use clickhouse::Row;
use millrace_coordination::observation::{
    CoordinationView, Counters, KeeperSession, Replica, TableLoad, ViewError,
};
use serde::{Deserialize, Serialize};

use crate::client::{Category, ClientError, DdlClient};
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

/// Returns whether the declaration needs Keeper or ZooKeeper: it has replicated tables or a
/// cluster.
#[must_use]
pub fn needs_coordination(declared: &Declared) -> bool {
    let options = [&declared.traces, &declared.logs, &declared.metrics];
    declared.cluster.is_some()
        || options.into_iter().flatten().any(|options| options.engine.replication().is_some())
}

/// Returns the coordination state that the client's server reports.
///
/// # Errors
/// The server cannot report it: no Keeper, no session, no right, no answer.
pub async fn observe_coordination(
    client: &DdlClient,
    declared: &Declared,
) -> Result<CoordinationView, ViewError> {
    let mut refused = BTreeSet::new();
    let sessions = match client.fetch::<SessionRow>(&render::select_sessions()).await {
        Ok(rows) => rows.into_iter().map(to_session).collect(),
        Err(error) => return Err(view_error(client, error)),
    };
    let tables = declared.tables();
    let names: Vec<&str> = tables.iter().map(|table| table.name.table()).collect();
    let states = render::replica_states(&declared.database, &names);
    let states = fetch_permitted::<StateRow>(client, &states, REPLICAS, &mut refused).await?;
    let counters = render::keeper_counters();
    let counters = fetch_permitted::<CountersRow>(client, &counters, EVENTS, &mut refused).await?;
    let loads = render::table_loads(&declared.database, &names);
    // The load is a figure, not a sign of health: any other error leaves it empty.
    let loads =
        fetch_permitted::<LoadRow>(client, &loads, PARTS, &mut refused).await.unwrap_or_default();
    Ok(CoordinationView {
        sessions,
        replicas: states.into_iter().map(to_replica).collect(),
        counters: counters.into_iter().next().map(to_counters),
        tables: loads.into_iter().map(to_table_load).collect(),
        grant: (!refused.is_empty()).then(|| {
            let refused: Vec<&str> = refused.into_iter().collect();
            render::grant_reading(&refused, client.user())
        }),
    })
}

/// Returns the rows of a query. Returns none, and notes the table, where the user may not query it.
async fn fetch_permitted<T>(
    client: &DdlClient,
    question: &Statement,
    table: &'static str,
    refused: &mut BTreeSet<&'static str>,
) -> Result<Vec<T>, ViewError>
where
    T: clickhouse::RowOwned + clickhouse::RowRead,
{
    match client.fetch(question).await {
        Ok(rows) => Ok(rows),
        Err(error) if error.category() == Category::Privilege => {
            refused.insert(table);
            Ok(Vec::new())
        }
        Err(error) => Err(view_error(client, error)),
    }
}

fn view_error(client: &DdlClient, error: ClientError) -> ViewError {
    match error.category() {
        Category::UnknownTable => ViewError::NoKeeper,
        Category::KeeperLost => ViewError::SessionLost(without_query(&error)),
        Category::Privilege => {
            let tables = [SESSIONS, REPLICAS, EVENTS, PARTS];
            ViewError::NotAllowed { grant: render::grant_reading(&tables, client.user()) }
        }
        _ => ViewError::Unreachable(without_query(&error)),
    }
}

/// Returns the error without the parts that change from one query to the next.
fn without_query(error: &ClientError) -> String {
    let text = error.to_string();
    text.split(" (version ").next().unwrap_or(&text).trim_end().to_owned()
}

fn to_session(row: SessionRow) -> KeeperSession {
    let SessionRow { name, host, port, is_expired, age_seconds } = row;
    KeeperSession {
        name,
        server: format!("{host}:{port}"),
        is_expired: is_expired != 0,
        age_seconds,
    }
}

fn to_replica(row: StateRow) -> Replica {
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

fn to_counters(row: CountersRow) -> Counters {
    let CountersRow { requests, multi_requests, wait_microseconds, broken, rows } = row;
    Counters { requests, multi_requests, wait_microseconds, broken, rows }
}

fn to_table_load(row: LoadRow) -> TableLoad {
    let LoadRow { table, parts, inserted_rows, requests } = row;
    TableLoad { table, parts, rows: inserted_rows, requests }
}
