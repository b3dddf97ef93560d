//! The journal of migrations as values: its rows' meaning, and which runs are at work. Pure: no
//! client, no clock; the rows carry the server's time.
//!
//! The journal is an audit log. A migration is numbered from 1 and follows from a plan of the live
//! tables, never from the journal, so changed or missing rows prevent no run.
//!
//! Claims, which are rows too, exclude concurrent runs: a run first claims, then reads, and works
//! only if no other claim is alive; otherwise it releases its claim and waits. Two runs may both
//! give way, but never both continue: the run that claims later reads the earlier claim. A claim
//! that its run no longer renews expires with its lease.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use serde::{Deserialize, Serialize};

use crate::migrate::plan::Phase;

/// One row of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ClickHouseRow)]
pub struct Row {
    /// The migration's number, from 1; 0 in rows of a claim or a holder.
    pub number: u32,
    /// The event, as a word.
    pub event: String,
    /// The number of statements done when the row was written.
    pub position: u32,
    /// When the row was written, in milliseconds since 1970, by the server's clock.
    pub at_millis: i64,
    /// The unique id of the run that wrote it.
    pub runner: String,
    /// Who ran it.
    pub author: String,
    /// The tool and its release.
    pub tool: String,
    /// `expand`, `contract` or `adopt`.
    pub phase: String,
    /// Who made the earlier tables.
    pub origin: String,
    /// The revision of the declaration that the migration leads to.
    pub revision: String,
    /// Its statements, in order.
    pub statements: Vec<String>,
    /// The duration of the statement, or of the complete migration.
    pub duration_millis: u64,
    /// Why it failed.
    pub detail: String,
    /// When the row was read, by the server's clock.
    pub now_millis: i64,
}

/// The event of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JournalEvent {
    /// A run claims the work.
    Claimed,
    /// A run releases its claim.
    Released,
    /// A migration begins; this row holds all its statements.
    Planned,
    /// A statement of it was done.
    Done,
    /// All its statements were done.
    Finished,
    /// A statement failed.
    Failed,
    /// A later run found it unfinished with no run at work; another migration continues from the
    /// live tables.
    Interrupted,
    /// A holder of some signals' tables; the row belongs to no migration.
    Holds,
}

impl JournalEvent {
    const ALL: [Self; 8] = [
        Self::Claimed,
        Self::Released,
        Self::Planned,
        Self::Done,
        Self::Finished,
        Self::Failed,
        Self::Interrupted,
        Self::Holds,
    ];

    /// Returns the name in the journal.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Released => "released",
            Self::Planned => "planned",
            Self::Done => "done",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
            Self::Holds => "holds",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|event| event.as_str() == text)
    }
}

/// One migration, read from the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// The number, from 1.
    pub number: u32,
    /// `expand`, `contract` or `adopt`.
    pub phase: String,
    /// Who made the tables before it, for the first migration.
    pub origin: String,
    /// The revision it leads to.
    pub revision: String,
    /// Who ran it.
    pub author: String,
    /// The tool and its release.
    pub tool: String,
    /// When it began, in milliseconds since 1970.
    pub began_millis: i64,
    /// Its duration; `None` until it is finished.
    pub duration_millis: Option<u64>,
    /// The number of statements known to be done.
    pub done: u32,
    /// Its statements.
    pub statements: Vec<String>,
    /// Its state.
    pub standing: MigrationState,
    /// Why it failed, if it failed.
    pub detail: String,
    /// Each failure on record: the statements done before it, and its text without figures.
    #[serde(skip)]
    failures: Vec<(u32, String)>,
}

impl Migration {
    /// Returns whether a failure after `position` statements with this text is on record, figures
    /// aside: times and sizes differ from one attempt to the next.
    pub(crate) fn has_failed_so(&self, position: u32, detail: &str) -> bool {
        self.failures.contains(&(position, without_figures(detail)))
    }
}

fn without_figures(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// The state of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MigrationState {
    /// In progress, or abandoned by a run that stopped without a final row.
    Open,
    /// All statements are done.
    Finished,
    /// A statement failed.
    Failed,
    /// Abandoned; a later one continues.
    Interrupted,
}

impl fmt::Display for MigrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Why a journal is refused. Nothing runs until a person has checked it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// This release does not know an event's word.
    #[error(
        "the journal has an event {event:?} that this release does not know: a newer one \
         wrote it; use that one, or a later one"
    )]
    Newer {
        /// The unknown word.
        event: String,
    },
}

/// The latest migrations of the journal, and the runs at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Migrations by number.
    pub migrations: Vec<Migration>,
    /// The runs that claim the work.
    pub claims: Vec<Claim>,
}

/// The claim of a run that has not released it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub runner: String,
    /// Who started it.
    pub author: String,
    /// The time since it last wrote a row, by the server's clock.
    pub silent: Duration,
}

impl History {
    /// Reads the rows, in the order written.
    ///
    /// # Errors
    /// A newer release wrote some of the rows.
    pub fn read(rows: &[Row]) -> Result<Self, JournalError> {
        let mut migrations: BTreeMap<u32, Migration> = BTreeMap::new();
        let mut claims: BTreeMap<&str, Claim> = BTreeMap::new();
        for row in rows {
            let Some(event) = JournalEvent::parse(&row.event) else {
                return Err(JournalError::Newer { event: row.event.clone() });
            };
            match event {
                JournalEvent::Claimed => {
                    let claim = Claim {
                        runner: row.runner.clone(),
                        author: row.author.clone(),
                        silent: Duration::ZERO,
                    };
                    claims.insert(&row.runner, claim);
                }
                JournalEvent::Released => drop(claims.remove(row.runner.as_str())),
                JournalEvent::Holds => {}
                JournalEvent::Planned => {
                    drop(migrations.insert(row.number, planned_migration(row)))
                }
                JournalEvent::Done
                | JournalEvent::Finished
                | JournalEvent::Failed
                | JournalEvent::Interrupted => {
                    if let Some(migration) = migrations.get_mut(&row.number) {
                        apply_event(migration, event, row);
                    }
                }
            }
            if let Some(claim) = claims.get_mut(row.runner.as_str()) {
                let millis = row.now_millis.saturating_sub(row.at_millis);
                claim.silent = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
            }
        }
        Ok(Self {
            migrations: migrations.into_values().collect(),
            claims: claims.into_values().collect(),
        })
    }

    /// Returns the number of the next migration.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.migrations.last().map_or(1, |last| last.number.saturating_add(1))
    }

    /// Returns the last migration if it failed and had exactly these statements: the run retries it
    /// under its number and does not record the same failure again.
    #[must_use]
    pub(crate) fn failed_before(
        &self,
        phase: &str,
        revision: &str,
        statements: &[String],
    ) -> Option<&Migration> {
        let is_same = |last: &&Migration| {
            let is_same_end = last.phase == phase && last.revision == revision;
            last.standing == MigrationState::Failed && is_same_end && last.statements == statements
        };
        self.migrations.last().filter(is_same)
    }

    /// Returns the statements of the last migration unless all of them are done: the run that began
    /// it was permitted to run them, and a plan of no others continues it.
    #[must_use]
    pub fn unfinished_statements(&self) -> &[String] {
        let unfinished =
            self.migrations.last().filter(|last| last.standing != MigrationState::Finished);
        unfinished.map_or(&[], |last| &last.statements)
    }

    /// Returns the migrations that began and were neither finished nor abandoned.
    pub fn open_migrations(&self) -> impl Iterator<Item = &Migration> {
        let is_open = |each: &&Migration| each.standing == MigrationState::Open;
        self.migrations.iter().filter(is_open)
    }

    /// Returns a run other than `runner` that wrote a row within `lease`.
    #[must_use]
    pub fn other_at_work(&self, runner: &str, lease: Duration) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.runner != runner && claim.silent < lease)
    }
}

fn planned_migration(row: &Row) -> Migration {
    Migration {
        number: row.number,
        phase: row.phase.clone(),
        origin: row.origin.clone(),
        revision: row.revision.clone(),
        author: row.author.clone(),
        tool: row.tool.clone(),
        began_millis: row.at_millis,
        duration_millis: None,
        done: 0,
        statements: row.statements.clone(),
        standing: MigrationState::Open,
        detail: String::new(),
        failures: Vec::new(),
    }
}

fn apply_event(migration: &mut Migration, event: JournalEvent, row: &Row) {
    migration.done = migration.done.max(row.position);
    migration.standing = match event {
        JournalEvent::Finished => {
            migration.duration_millis = Some(row.duration_millis);
            MigrationState::Finished
        }
        JournalEvent::Failed => {
            migration.failures.push((row.position, without_figures(&row.detail)));
            MigrationState::Failed
        }
        // A migration that was presumed dead and still finished counts as finished.
        JournalEvent::Interrupted if migration.standing == MigrationState::Open => {
            MigrationState::Interrupted
        }
        _ => migration.standing,
    };
    if !row.detail.is_empty() {
        migration.detail.clone_from(&row.detail);
    }
}

/// Returns the name of a phase in the journal.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Expand => "expand",
        Phase::Contract => "contract",
    }
}

#[cfg(test)]
mod tests;
