//! The journal of migrations as values: what its rows mean, whether they tell one unbroken story,
//! and who is at work. Pure: no client, no clock; the server's own time comes with the rows.
//!
//! A migration is numbered from 1, and its checksum covers its number, its parent's checksum, its
//! phase, its revision and its statements: a row that was changed, or one that is missing, breaks
//! the chain and is refused.
//!
//! Two runners keep out of each other's way by claims (rows, too): a runner first claims, then
//! reads, and works only if no other claim is alive; otherwise it takes its claim back and waits.
//! Both may give way, never both go on: of two claims the later one's reader sees the earlier one.
//! A claim that its runner no longer renews dies with its lease.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use clickhouse::Row as ClickHouseRow;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::Phase;

/// One row of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ClickHouseRow)]
pub struct Row {
    /// Number of the migration, from 1; 0 for rows of a claim, or of who holds the tables.
    pub number: u32,
    /// What it says, as a word.
    pub event: String,
    /// Statements that were done when the row was written.
    pub position: u32,
    /// When it was written, milliseconds since 1970, by the server's clock.
    pub at_millis: i64,
    /// The run that wrote it; unique.
    pub runner: String,
    /// Who ran it.
    pub author: String,
    /// With which release of which tool.
    pub tool: String,
    /// `expand`, `contract` or `adopt`.
    pub phase: String,
    /// Who made the tables before.
    pub origin: String,
    /// The declaration's revision that it leads to.
    pub revision: String,
    /// Checksum of the migration before it; empty for the first.
    pub parent: String,
    /// Its own checksum.
    pub checksum: String,
    /// What it runs, in order.
    pub statements: Vec<String>,
    /// How long the statement, or the whole migration, took.
    pub duration_millis: u64,
    /// Why it failed.
    pub detail: String,
    /// When it was read, by the server's clock.
    pub now_millis: i64,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A run wants to work.
    Claimed,
    /// It does not, any more.
    Released,
    /// A migration begins; this row holds all of it.
    Planned,
    /// A statement of it was done.
    Done,
    /// All of it was done.
    Finished,
    /// A statement failed.
    Failed,
    /// It was found unfinished, with nobody at work; another migration goes on from what is there.
    Interrupted,
    /// Somebody holds the tables of some signals; no part of any migration.
    Holds,
}

impl Event {
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

    /// The name in the journal.
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

/// One migration as the journal tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Its number, from 1.
    pub number: u32,
    /// `expand`, `contract` or `adopt`.
    pub phase: String,
    /// Who made the tables before it, for the first one.
    pub origin: String,
    /// The revision it leads to.
    pub revision: String,
    /// Its checksum.
    pub checksum: String,
    /// Who ran it.
    pub author: String,
    /// With what.
    pub tool: String,
    /// When it began, milliseconds since 1970.
    pub began_millis: i64,
    /// How long it took in all; `None` while it is not finished.
    pub duration_millis: Option<u64>,
    /// Statements that are known to be done.
    pub done: u32,
    /// What it runs.
    pub statements: Vec<String>,
    /// How it stands.
    pub standing: Standing,
    /// Why it failed, if it did.
    pub detail: String,
}

/// How a migration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Under way, or left by a run that ended without a word.
    Open,
    /// All statements done.
    Finished,
    /// A statement failed.
    Failed,
    /// Given up; a later one goes on.
    Interrupted,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Why a journal is refused. Nothing is run until a person has looked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// A migration's rows do not give its checksum, or there are two of one number.
    #[error(
        "migration {number} was changed after it ran: its rows give checksum {given}, recorded is \
         {recorded}; restore the journal, or rename it and the tables are adopted as they are"
    )]
    Changed {
        /// The migration.
        number: u32,
        /// What its rows give.
        given: String,
        /// What stands there.
        recorded: String,
    },
    /// A number is not there.
    #[error(
        "migration {number} is missing from the journal; restore it, or rename the journal and the \
         tables are adopted as they are"
    )]
    Missing {
        /// The migration.
        number: u32,
    },
    /// A word this release does not know.
    #[error(
        "the journal has an event {event:?} that this release does not know: a newer one was at \
         work; use that, or a newer one"
    )]
    Newer {
        /// The word.
        event: String,
    },
}

/// The journal, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Migrations by number, without gaps.
    pub migrations: Vec<Migration>,
    /// Runs that claim to be at work, with the milliseconds since each last wrote.
    pub claims: Vec<Claim>,
}

/// A run that has claimed and not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub runner: String,
    /// Who started it.
    pub author: String,
    /// Time since it last wrote a row, by the server's clock.
    pub silent: Duration,
}

/// 16 hexadecimal digits that cover everything a migration is.
#[must_use]
pub(crate) fn checksum(
    number: u32,
    parent: &str,
    phase: &str,
    revision: &str,
    statements: &[String],
) -> String {
    let mut hash = Sha256::new();
    let number = number.to_string();
    let parts = [number.as_str(), parent, phase, revision];
    for part in parts.into_iter().chain(statements.iter().map(String::as_str)) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl History {
    /// Reads the rows, in the order written.
    ///
    /// # Errors
    /// The rows do not tell one unbroken story.
    pub fn read(rows: &[Row]) -> Result<Self, JournalError> {
        let mut migrations: BTreeMap<u32, Migration> = BTreeMap::new();
        let mut parents: BTreeMap<u32, String> = BTreeMap::new();
        let mut claims: BTreeMap<&str, Claim> = BTreeMap::new();
        for row in rows {
            let Some(event) = Event::parse(&row.event) else {
                return Err(JournalError::Newer { event: row.event.clone() });
            };
            match event {
                Event::Claimed => {
                    let claim = Claim {
                        runner: row.runner.clone(),
                        author: row.author.clone(),
                        silent: Duration::ZERO,
                    };
                    claims.insert(&row.runner, claim);
                }
                Event::Released => drop(claims.remove(row.runner.as_str())),
                Event::Holds => {}
                Event::Planned => {
                    let before = migrations.insert(row.number, planned(row));
                    parents.insert(row.number, row.parent.clone());
                    if let Some(before) = before.filter(|before| before.checksum != row.checksum) {
                        return Err(JournalError::Changed {
                            number: row.number,
                            given: row.checksum.clone(),
                            recorded: before.checksum,
                        });
                    }
                }
                Event::Done | Event::Finished | Event::Failed | Event::Interrupted => {
                    let Some(migration) = migrations.get_mut(&row.number) else {
                        return Err(JournalError::Missing { number: row.number });
                    };
                    follow(migration, event, row);
                }
            }
            if let Some(claim) = claims.get_mut(row.runner.as_str()) {
                let millis = row.now_millis.saturating_sub(row.at_millis);
                claim.silent = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
            }
        }
        check(&migrations, &parents)?;
        Ok(Self {
            migrations: migrations.into_values().collect(),
            claims: claims.into_values().collect(),
        })
    }

    /// The number of the next migration, and the checksum it follows.
    #[must_use]
    pub fn next(&self) -> (u32, &str) {
        let last = self.migrations.last();
        last.map_or((1, ""), |last| (last.number.saturating_add(1), last.checksum.as_str()))
    }

    /// Migrations that were begun and neither finished nor given up.
    pub fn open(&self) -> impl Iterator<Item = &Migration> {
        let is_open = |each: &&Migration| each.standing == Standing::Open;
        self.migrations.iter().filter(is_open)
    }

    /// A run other than `runner` that wrote within `lease`.
    #[must_use]
    pub fn other_at_work(&self, runner: &str, lease: Duration) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.runner != runner && claim.silent < lease)
    }
}

fn planned(row: &Row) -> Migration {
    Migration {
        number: row.number,
        phase: row.phase.clone(),
        origin: row.origin.clone(),
        revision: row.revision.clone(),
        checksum: row.checksum.clone(),
        author: row.author.clone(),
        tool: row.tool.clone(),
        began_millis: row.at_millis,
        duration_millis: None,
        done: 0,
        statements: row.statements.clone(),
        standing: Standing::Open,
        detail: String::new(),
    }
}

fn follow(migration: &mut Migration, event: Event, row: &Row) {
    migration.done = migration.done.max(row.position);
    migration.standing = match event {
        Event::Finished => {
            migration.duration_millis = Some(row.duration_millis);
            Standing::Finished
        }
        Event::Failed => Standing::Failed,
        // One that was taken for dead and finished all the same is finished.
        Event::Interrupted if migration.standing == Standing::Open => Standing::Interrupted,
        _ => migration.standing,
    };
    if !row.detail.is_empty() {
        migration.detail.clone_from(&row.detail);
    }
}

fn check(
    migrations: &BTreeMap<u32, Migration>,
    parents: &BTreeMap<u32, String>,
) -> Result<(), JournalError> {
    let numbers: BTreeSet<u32> = migrations.keys().copied().collect();
    let last = numbers.last().copied().unwrap_or(0);
    if let Some(number) = (1..=last).find(|number| !numbers.contains(number)) {
        return Err(JournalError::Missing { number });
    }
    let mut before = "";
    for (number, migration) in migrations {
        let Migration { phase, revision, statements, checksum: recorded, .. } = migration;
        let given = checksum(*number, before, phase, revision, statements);
        let is_in_chain = parents.get(number).is_some_and(|parent| parent == before);
        if given != *recorded || !is_in_chain {
            let (number, recorded) = (*number, recorded.clone());
            return Err(JournalError::Changed { number, given, recorded });
        }
        before = recorded;
    }
    Ok(())
}

/// The name of a phase in the journal.
pub(crate) const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Expand => "expand",
        Phase::Contract => "contract",
    }
}

#[cfg(test)]
#[path = "../tests/unit/journal.rs"]
mod tests;
