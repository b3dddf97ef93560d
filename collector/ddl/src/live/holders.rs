//! Records and reads who holds the tables of a database and prefix: for each signal, the last
//! holder in the journal. Callers interpret the record. Its rows belong to no migration.

use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use serde::Deserialize;

use crate::client::{ClientError, DdlClient};
use crate::declared::Declared;
use crate::migrate::journal::{JournalEvent, Row};
use crate::render;

/// The recorded holder of a signal's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedHolder {
    /// The signal.
    pub signal: String,
    /// The recorded text.
    pub holder: String,
    /// The time since the record was written, by the server's clock.
    pub age: Duration,
}

#[derive(Debug, Deserialize, ClickHouseRow)]
struct HolderRow {
    signal: String,
    holder: String,
    age_millis: i64,
}

/// Returns the recorded holders of the declared signals.
///
/// # Errors
/// The server can't be queried.
pub async fn fetch_holders(
    client: &DdlClient,
    declared: &Declared,
) -> Result<Vec<RecordedHolder>, ClientError> {
    let found: Vec<HolderRow> = match client.fetch(&render::read_holders(&declared.journal())).await
    {
        Ok(found) => found,
        // Without a journal there is no record.
        Err(ClientError::UnknownTable { .. } | ClientError::UnknownDatabase { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let signals = declared_signals(declared);
    let found = found.into_iter().filter(|it| signals.contains(&it.signal));
    Ok(found
        .map(|HolderRow { signal, holder, age_millis }| RecordedHolder {
            signal,
            holder,
            age: Duration::from_millis(u64::try_from(age_millis).unwrap_or(0)),
        })
        .collect())
}

/// Records the holder of the declared signals' tables. It creates a missing journal, but not a
/// missing database.
///
/// # Errors
/// The server can't be queried, or refuses.
pub async fn record_holder(
    client: &DdlClient,
    declared: &Declared,
    holder: &str,
) -> Result<(), ClientError> {
    let row = Row {
        event: JournalEvent::Holds.as_str().to_owned(),
        author: holder.to_owned(),
        tool: concat!("millrace-ddl ", env!("CARGO_PKG_VERSION")).to_owned(),
        statements: declared_signals(declared),
        ..Row::default()
    };
    let journal = declared.journal();
    let record = render::insert_journal_row(&journal, &row);
    match client.execute(&record).await {
        Err(ClientError::UnknownTable { .. }) => {
            client.execute(&render::create_journal(&journal)).await?;
            client.execute(&record).await
        }
        other => other,
    }
}

fn declared_signals(declared: &Declared) -> Vec<String> {
    let all =
        [("traces", &declared.traces), ("logs", &declared.logs), ("metrics", &declared.metrics)];
    let declared = all.into_iter().filter(|(_, tables)| tables.is_some());
    declared.map(|(signal, _)| signal.to_owned()).collect()
}
