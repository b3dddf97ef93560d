//! Looks for the rows of a test run, with the endpoints and the log-in that the sink has. It only
//! reads: one narrow question per shard, whose text `millrace_ddl::render` makes.
//!
//! Limits: those of a question of this client (10 s, a mebibyte), and
//! [`millrace_ddl::TEST_RECORDS_MAX`] records.

use std::collections::BTreeMap;

use millrace_config::ClickHouseExporter;
use millrace_ddl::render::{test_rows, test_rows_grant};
use millrace_ddl::{TableName, TestRun, TestTable};
use millrace_wire::Signal;
use serde::Deserialize;

use super::answer::{Verdict, is_authentication};
use super::client::HttpClient;
use super::look::rows;
use super::settings::{SinkError, SinkSettings};

/// Numbers of missing records that are named.
const NAMED_MAX: usize = 10;
/// A user that no log-in names.
const DEFAULT_USER: &str = "default";

/// Why a look told nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The user has no right to read the table: waiting doesn't help.
    #[error("{endpoint}: user {user:?} may not read {table}; have an administrator run: {grant}")]
    Denied {
        /// The server.
        endpoint: String,
        /// The log-in's user.
        user: String,
        /// The table.
        table: String,
        /// What gives the right.
        grant: String,
    },
    /// The log-in or the table is wrong: waiting doesn't help.
    #[error("{endpoint}: {cause}; see the conditions of the TelemetrySchema")]
    Refused {
        /// The server.
        endpoint: String,
        /// Its own words.
        cause: String,
    },
    /// No server of a shard answered usably: it may later.
    #[error("{endpoint}: {cause}")]
    Unanswered {
        /// The server that was asked last.
        endpoint: String,
        /// Why.
        cause: String,
    },
}

impl LookError {
    /// Whether another look may tell more.
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
    /// Secret files are read now; nothing is asked yet.
    ///
    /// # Errors
    /// When a setting, secret or certificate can't be used.
    pub fn new(exporter: &ClickHouseExporter, signal: Signal) -> Result<Self, SinkError> {
        let settings = SinkSettings::new(exporter)?;
        let table = match signal {
            Signal::Traces => TestTable::Traces,
            Signal::Logs => TestTable::Logs,
            Signal::Metrics => TestTable::Gauge,
        };
        let name = TableName::new(&settings.database, &settings.table_prefix, table.kind());
        let user = match &settings.credentials {
            Some(credentials) => credentials.username_file.read()?.expose().to_owned(),
            None => DEFAULT_USER.to_owned(),
        };
        Ok(Self { client: HttpClient::new(settings)?, table, name, user })
    }

    /// The table's name.
    #[must_use]
    pub const fn name(&self) -> &TableName {
        &self.name
    }

    /// What is stored of the records 1 to `expected` of a run, over all shards.
    ///
    /// # Errors
    /// When a shard can't be asked: a part alone would look like a loss.
    pub async fn look(&self, run: &TestRun, expected: u32) -> Result<Seen, LookError> {
        let mut copies = BTreeMap::new();
        let replicas = self.client.replicas();
        for first in (0..self.client.endpoints()).step_by(replicas) {
            let answer = self.ask(first..first + replicas, run).await?;
            for CopiesRow { id, copies: more } in answer {
                // No record has the number 0: an id that is none is counted there.
                let number = u64::from_str_radix(&id, 16).unwrap_or(0);
                *copies.entry(number).or_insert(0) += u64::from(more);
            }
        }
        Ok(Seen::of(&copies, expected))
    }

    /// Asks one shard: the first of its replicas that answers. One that is behind has the rows at
    /// a later look.
    async fn ask(
        &self,
        replicas: std::ops::Range<usize>,
        run: &TestRun,
    ) -> Result<Vec<CopiesRow>, LookError> {
        let statement = test_rows(&self.name, self.table, run);
        let mut last = (String::new(), "no such endpoint".to_owned());
        for at in replicas {
            let endpoint = self.client.endpoint_name(at).to_owned();
            let verdict = match self.client.question(at, &statement).await {
                Ok(answer) => match rows(&answer) {
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
        Err(LookError::Unanswered { endpoint, cause })
    }

    fn is_final(&self, endpoint: &str, verdict: &Verdict) -> Option<LookError> {
        let endpoint = endpoint.to_owned();
        match verdict.code? {
            // ACCESS_DENIED
            497 => Some(LookError::Denied {
                endpoint,
                user: self.user.clone(),
                table: self.name.to_string(),
                grant: test_rows_grant(&self.name, &self.user),
            }),
            // UNKNOWN_IDENTIFIER, UNKNOWN_TABLE, UNKNOWN_DATABASE
            47 | 60 | 81 => Some(LookError::Refused { endpoint, cause: verdict.to_string() }),
            code if is_authentication(code) => {
                Some(LookError::Refused { endpoint, cause: verdict.to_string() })
            }
            _ => None,
        }
    }
}

/// One record that is stored.
#[derive(Deserialize)]
struct CopiesRow {
    id: String,
    copies: u32,
}

/// What a look saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Records of the run that are stored, each counted once.
    pub found: u64,
    /// Rows beyond the first of each.
    pub repeated: u64,
    /// Rows with numbers that the run has not.
    pub unexpected: u64,
    /// The first missing numbers.
    pub missing_first: Vec<u32>,
}

impl Seen {
    /// From how often each number is stored.
    fn of(copies: &BTreeMap<u64, u64>, expected: u32) -> Self {
        let mut seen = Self::default();
        for (&number, &rows) in copies {
            if (1..=u64::from(expected)).contains(&number) {
                seen.found += 1;
                seen.repeated += rows.saturating_sub(1);
            } else {
                seen.unexpected += rows;
            }
        }
        let missing = (1..=expected).filter(|number| !copies.contains_key(&u64::from(*number)));
        seen.missing_first = missing.take(NAMED_MAX).collect();
        seen
    }

    /// Whether nothing is missing.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.missing_first.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: nothing stored; all once; two missing, one thrice, a number beyond the run and one
    /// that is none; more missing than are named. Guarantee: each is counted as what it is.
    #[test]
    fn found_missing_repeated_and_strange_rows_are_told_apart() {
        let seen =
            |copies: &[(u64, u64)], expected| Seen::of(&copies.iter().copied().collect(), expected);
        let none = seen(&[], 12);
        assert_eq!((none.found, none.is_whole()), (0, false));
        assert_eq!(none.missing_first, (1..=10).collect::<Vec<_>>());
        let all = seen(&[(1, 1), (2, 1)], 2);
        assert_eq!(all, Seen { found: 2, ..Seen::default() });
        assert!(all.is_whole());
        let mixed = seen(&[(0, 2), (1, 1), (3, 3), (6, 1)], 4);
        let missing_first = vec![2, 4];
        assert_eq!(mixed, Seen { found: 2, repeated: 2, unexpected: 3, missing_first });
    }
}
