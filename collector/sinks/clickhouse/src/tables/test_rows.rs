//! Finds the rows of a test run, with the sink's endpoints and log-in. It only reads: one narrow
//! query per shard, whose text `millrace_ddl::render` generates.
//!
//! Limits: those of this client's queries (10 s, a mebibyte), and
//! [`millrace_ddl::TEST_RECORDS_MAX`] records.

use std::collections::BTreeMap;

use millrace_config::{ClickHouseExporter, Credentials};
use millrace_coordination::error_codes::Concern;
use millrace_ddl::render::{test_rows, test_rows_grant};
use millrace_ddl::{TableName, TestRun, TestTable};
use millrace_wire::Signal;
use serde::Deserialize;

use crate::insert::response::InsertResponse;
use crate::servers::client::HttpClient;
use crate::settings::{SinkError, SinkSettings};
use crate::tables::table_check::parse_rows;

/// The maximum number of missing records that are named.
const NAMED_MAX: usize = 10;
/// How messages name the user of a token.
const TOKEN_USER: &str = "(of the token)";
/// The user without a log-in.
const DEFAULT_USER: &str = "default";

/// Why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum TestRowsError {
    /// The user has no right to read the table: waiting doesn't help.
    #[error("{endpoint}: user {user:?} may not read {table}; have an administrator run: {grant}")]
    Denied {
        /// The server.
        endpoint: String,
        /// The log-in's user.
        user: String,
        /// The table.
        table: String,
        /// The statement that grants the right.
        grant: String,
    },
    /// The log-in is invalid or the table can't be used: waiting doesn't help.
    #[error("{endpoint}: {cause}; see the conditions of the TelemetrySchema")]
    Refused {
        /// The server.
        endpoint: String,
        /// Its own message.
        cause: String,
    },
    /// No server of a shard gave a usable answer: it may later.
    #[error("{endpoint}: {cause}")]
    Unanswered {
        /// The server that was queried last.
        endpoint: String,
        /// The cause.
        cause: String,
    },
}

impl TestRowsError {
    /// Returns whether another query may succeed.
    #[must_use]
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::Unanswered { .. })
    }
}

/// The table of one signal's test records.
pub struct TestRows {
    client: HttpClient,
    table: TestTable,
    name: TableName,
    user: String,
}

impl TestRows {
    /// Reads the secret files now, and queries nothing yet.
    ///
    /// # Errors
    /// A setting, secret or certificate can't be used.
    pub fn new(exporter: &ClickHouseExporter, signal: Signal) -> Result<Self, SinkError> {
        let settings = SinkSettings::new(exporter)?;
        let table = match signal {
            Signal::Traces => TestTable::Traces,
            Signal::Logs => TestTable::Logs,
            Signal::Metrics => TestTable::Gauge,
        };
        let name = TableName::new(&settings.database, &settings.table_prefix, table.kind());
        let user = match &settings.credentials {
            Some(Credentials { username_file: Some(file), .. }) => file.read()?.expose().to_owned(),
            Some(Credentials { username: Some(user), .. }) => user.clone(),
            Some(_) => TOKEN_USER.to_owned(),
            None => DEFAULT_USER.to_owned(),
        };
        Ok(Self { client: HttpClient::new(settings)?, table, name, user })
    }

    /// Returns the table's name.
    #[must_use]
    pub const fn table_name(&self) -> &TableName {
        &self.name
    }

    /// Returns what is stored of the records 1 to `expected` of a run, over all shards.
    ///
    /// # Errors
    /// A shard can't be queried: a partial result would appear as a loss.
    pub async fn find_rows(
        &self,
        run: &TestRun,
        expected: u32,
    ) -> Result<TestRowCounts, TestRowsError> {
        let mut copies = BTreeMap::new();
        let replicas = self.client.replica_count();
        for first in (0..self.client.endpoint_count()).step_by(replicas) {
            let answer = self.query_shard(first..first + replicas, run).await?;
            for CopiesRow { id, copies: more } in answer {
                // No record has the number 0, so an invalid id is counted there.
                let number = u64::from_str_radix(&id, 16).unwrap_or(0);
                *copies.entry(number).or_insert(0) += u64::from(more);
            }
        }
        Ok(TestRowCounts::from_copies(&copies, expected))
    }

    /// Queries one shard: the first of its replicas that answers. A replica that lags has the rows
    /// at a later query.
    async fn query_shard(
        &self,
        replicas: std::ops::Range<usize>,
        run: &TestRun,
    ) -> Result<Vec<CopiesRow>, TestRowsError> {
        let statement = test_rows(&self.name, self.table, run);
        let mut last = (String::new(), "no such endpoint".to_owned());
        for at in replicas {
            let endpoint = self.client.endpoint_name(at).to_owned();
            let verdict = match self.client.run_query(at, &statement).await {
                Ok(answer) => match parse_rows(&answer) {
                    Ok(rows) => return Ok(rows),
                    Err(cause) => {
                        last = (endpoint, cause);
                        continue;
                    }
                },
                Err(verdict) => verdict,
            };
            if let Some(error) = self.is_final(&endpoint, &verdict) {
                return Err(error);
            }
            last = (endpoint, verdict.to_string());
        }
        let (endpoint, cause) = last;
        Err(TestRowsError::Unanswered { endpoint, cause })
    }

    fn is_final(&self, endpoint: &str, verdict: &InsertResponse) -> Option<TestRowsError> {
        let endpoint = endpoint.to_owned();
        match verdict.code? {
            // ACCESS_DENIED
            497 => Some(TestRowsError::Denied {
                endpoint,
                user: self.user.clone(),
                table: self.name.to_string(),
                grant: test_rows_grant(&self.name, &self.user),
            }),
            // UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, UNKNOWN_DATABASE
            47 | 60 | 81 => Some(TestRowsError::Refused { endpoint, cause: verdict.to_string() }),
            _ if verdict.is_about(Concern::LogIn) => {
                Some(TestRowsError::Refused { endpoint, cause: verdict.to_string() })
            }
            _ => None,
        }
    }
}

/// One stored record.
#[derive(Deserialize)]
struct CopiesRow {
    id: String,
    copies: u32,
}

/// The result of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRowCounts {
    /// The run's records that are stored, each counted once.
    pub stored: u64,
    /// The rows beyond the first of each record.
    pub repeated: u64,
    /// The rows with numbers that the run doesn't have.
    pub unexpected: u64,
    /// The first missing numbers.
    pub missing_first: Vec<u32>,
}

impl TestRowCounts {
    /// Counts from how often each number is stored.
    fn from_copies(copies: &BTreeMap<u64, u64>, expected: u32) -> Self {
        let mut counts = Self::default();
        for (&number, &rows) in copies {
            if (1..=u64::from(expected)).contains(&number) {
                counts.stored += 1;
                counts.repeated += rows.saturating_sub(1);
            } else {
                counts.unexpected += rows;
            }
        }
        let missing = (1..=expected).filter(|number| !copies.contains_key(&u64::from(*number)));
        counts.missing_first = missing.take(NAMED_MAX).collect();
        counts
    }

    /// Returns whether no record is missing.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.missing_first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: nothing stored; all once; two missing, one three times, a number beyond the run
    /// and an invalid one; more missing than are named. Guarantee: each is counted in its category.
    #[test]
    fn found_missing_repeated_and_strange_rows_are_told_apart() {
        let seen = |copies: &[(u64, u64)], expected| {
            TestRowCounts::from_copies(&copies.iter().copied().collect(), expected)
        };
        let none = seen(&[], 12);
        assert_eq!((none.stored, none.is_complete()), (0, false));
        assert_eq!(none.missing_first, (1..=10).collect::<Vec<_>>());
        let all = seen(&[(1, 1), (2, 1)], 2);
        assert_eq!(all, TestRowCounts { stored: 2, ..TestRowCounts::default() });
        assert!(all.is_complete());
        let mixed = seen(&[(0, 2), (1, 1), (3, 3), (6, 1)], 4);
        let missing_first = vec![2, 4];
        assert_eq!(mixed, TestRowCounts { stored: 2, repeated: 2, unexpected: 3, missing_first });
    }
}
