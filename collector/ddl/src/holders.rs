//! Who holds the tables of a database and prefix, on record in their journal: whoever wrote last
//! for a signal. What the record says is others' matter. Rows of it are no part of any migration.

use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use serde::Deserialize;

use crate::client::{Client, ClientError};
use crate::declared::Declared;
use crate::journal::{Event, Row};
use crate::render;

/// A record of who holds a signal's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The signal.
    pub signal: String,
    /// What was written.
    pub holder: String,
    /// Since it was written, by the server's clock.
    pub age: Duration,
}

#[derive(Debug, Deserialize, ClickHouseRow)]
struct Found {
    signal: String,
    holder: String,
    age_millis: i64,
}

/// What is on record of the signals that are declared.
///
/// # Errors
/// The server can't be asked.
pub async fn holders(client: &Client, declared: &Declared) -> Result<Vec<Held>, ClientError> {
    let found: Vec<Found> = match client.fetch(&render::read_holders(&declared.journal())).await {
        Ok(found) => found,
        // Without a journal nothing is on record.
        Err(ClientError::UnknownTable { .. } | ClientError::UnknownDatabase { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let signals = signals(declared);
    let found = found.into_iter().filter(|it| signals.contains(&it.signal));
    Ok(found
        .map(|Found { signal, holder, age_millis }| Held {
            signal,
            holder,
            age: Duration::from_millis(u64::try_from(age_millis).unwrap_or(0)),
        })
        .collect())
}

/// Puts on record who holds the tables of the signals that are declared; the journal is made if
/// there is none, the database is not.
///
/// # Errors
/// The server can't be asked, or refuses.
pub async fn hold(client: &Client, declared: &Declared, holder: &str) -> Result<(), ClientError> {
    let row = Row {
        event: Event::Holds.as_str().to_owned(),
        author: holder.to_owned(),
        tool: concat!("millrace-ddl ", env!("CARGO_PKG_VERSION")).to_owned(),
        statements: signals(declared),
        ..Row::default()
    };
    let journal = declared.journal();
    let record = render::record(&journal, &row);
    match client.execute(&record).await {
        Err(ClientError::UnknownTable { .. }) => {
            client.execute(&render::create_journal(&journal)).await?;
            client.execute(&record).await
        }
        other => other,
    }
}

fn signals(declared: &Declared) -> Vec<String> {
    let all =
        [("traces", &declared.traces), ("logs", &declared.logs), ("metrics", &declared.metrics)];
    let declared = all.into_iter().filter(|(_, tables)| tables.is_some());
    declared.map(|(signal, _)| signal.to_owned()).collect()
}
