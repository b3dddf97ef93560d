//! Runs what is due as numbered migrations, each written to the journal before its first statement
//! and after each one. A run that was cut anywhere is found open by the next, which plans anew from
//! what is there and goes on; two runs at once are kept apart by claims (see [`crate::journal`]).
//!
//! Nothing is written, the journal neither, where nothing is due. SQL text that stands in the
//! journal is never run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::client::{Client, ClientError, STATEMENT_TIMEOUT};
use crate::declared::Declared;
use crate::drift::{Drift, diff};
use crate::journal::{Event, History, JournalError, Row, checksum, phase_name};
use crate::observe::{Observed, observe};
use crate::origin::{Origin, origin};
use crate::plan::{Blocked, Permit, Phase, Plan, Step, needed, plan};
use crate::preflight::{PreflightError, ServerFacts, preflight};
use crate::privileges;
use crate::render::{self, Statement};

/// What running a plan came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Steps that ran, in order.
    pub done: Vec<Step>,
    /// Steps the permit did not allow, left alone.
    pub refused: Vec<Step>,
}

/// A plan stopped half-way. What ran before stands; running a new plan goes on from there.
#[derive(Debug, thiserror::Error)]
#[error("{object}: cannot {what} (after {done} of {all} statements): {source}")]
pub struct ApplyError {
    /// The table or database of the failed step.
    pub object: String,
    /// What the failed step was to do.
    pub what: String,
    /// Steps that ran before it.
    pub done: usize,
    /// Steps of the whole plan.
    pub all: usize,
    /// Why it failed.
    pub source: ClientError,
}

impl From<ApplyError> for ClientError {
    /// The cause, for callers that only class it.
    fn from(error: ApplyError) -> Self {
        error.source
    }
}

/// How long a silent run counts as alive: it writes a row after each statement, and a statement
/// takes [`STATEMENT_TIMEOUT`] at most; half of that again for a slow row.
pub const LEASE: Duration = Duration::from_secs(STATEMENT_TIMEOUT.as_secs() * 3 / 2);

/// Pause before a failed statement is tried again; doubles each time: 0.5, 1, 2 s.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Shortest and longest pause of a run that gave way to another.
const GIVE_WAY_MILLIS: std::ops::Range<u64> = 50..400;

/// How to run.
#[derive(Clone, Debug)]
pub struct MigrateOptions {
    /// Who runs, for the journal: a user and host, or an object's name.
    pub author: String,
    /// With which tool and release.
    pub tool: String,
    /// What may run.
    pub permit: Permit,
    /// How long a silent run counts as alive.
    pub lease: Duration,
    /// How long to wait for another run to end.
    pub patience: Duration,
    /// How often a statement is tried again that failed for a passing reason.
    pub retries: u32,
}

impl MigrateOptions {
    /// Additive changes by `author`, three retries, no waiting for others.
    #[must_use]
    pub fn new(author: impl Into<String>) -> Self {
        Self {
            author: author.into(),
            tool: concat!("millrace-ddl ", env!("CARGO_PKG_VERSION")).to_owned(),
            permit: Permit::ADDITIVE,
            lease: LEASE,
            patience: Duration::ZERO,
            retries: 3,
        }
    }
}

/// What a run came to on one server.
#[derive(Debug)]
pub struct Migrated {
    /// What the server is.
    pub server: ServerFacts,
    /// Whose tables were taken over, where this run was the first with a journal.
    pub adopted: Option<Origin>,
    /// Migrations this run finished, by number.
    pub migrations: Vec<u32>,
    /// Steps that ran, and steps that may not.
    pub applied: Applied,
    /// Differences no statement mends.
    pub blocked: Vec<Blocked>,
    /// What differed before anything ran.
    pub before: Vec<Drift>,
    /// What still differs, notices included.
    pub drift: Vec<Drift>,
}

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Something stands against running anything.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The tables or the journal cannot be read.
    #[error("cannot read the tables: {0}")]
    Read(#[source] ClientError),
    /// The journal cannot be written; nothing runs that is not on record.
    #[error("cannot write to the journal of migrations: {0}")]
    Record(#[source] ClientError),
    /// The journal does not tell one unbroken story.
    #[error("the journal of migrations is refused: {0}")]
    Journal(#[from] JournalError),
    /// Another run is at work.
    #[error(
        "another run, by {author}, is at work (it last wrote {silent_seconds} s ago); nothing was \
         run. Wait for it; if it is dead, its claim ends by itself after {lease_seconds} s"
    )]
    Busy {
        /// Who started it.
        author: String,
        /// Whole seconds since it last wrote.
        silent_seconds: u64,
        /// Whole seconds after which a silent run counts as dead.
        lease_seconds: u64,
    },
    /// Too much time went by: another run may have taken over.
    #[error("{object}: stopped before it, for the claim ran out; the next run goes on from here")]
    LeaseLost {
        /// The next step's object.
        object: String,
    },
    /// A statement failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl MigrateError {
    /// The client's error underneath, where there is one.
    #[must_use]
    pub fn client(&self) -> Option<&ClientError> {
        match self {
            Self::Preflight(PreflightError::Client(cause))
            | Self::Read(cause)
            | Self::Record(cause)
            | Self::Apply(ApplyError { source: cause, .. }) => Some(cause),
            _ => None,
        }
    }
}

/// Brings the server that the client asks to its declaration, as far as the permit goes.
///
/// # Errors
/// The first thing that stood in the way; what ran before it stands and is on record.
pub async fn migrate(
    client: &Client,
    declared: &Declared,
    options: &MigrateOptions,
) -> Result<Migrated, MigrateError> {
    let server = preflight(client, declared).await?;
    let observed = observe(client, declared).await.map_err(MigrateError::Read)?;
    let mut run = Run::new(client, declared, options);
    let has_journal = observed.tables.contains_key(declared.journal().table());
    let history = match has_journal {
        true => run.read().await?,
        false => History::default(),
    };
    let first = plan(declared, &observed);
    // A journal may be there for the record of who holds the tables alone.
    let is_adopted =
        !history.migrations.is_empty() || origin(declared, &observed) == Origin::Nobody;
    if !run.is_due(&first) && history.open().next().is_none() && is_adopted {
        let refused = first.steps;
        let before = diff(declared, &observed);
        return Ok(Migrated {
            server,
            adopted: None,
            migrations: Vec::new(),
            applied: Applied { done: Vec::new(), refused },
            blocked: first.blocked,
            drift: before.clone(),
            before,
        });
    }
    let due = first.steps.iter().filter(|step| options.permit.allows(step));
    let needed = needed(declared, &observed, due);
    let lacked = privileges::missing(client, &needed).await;
    if let Some(lacked) = lacked.map_err(PreflightError::Client)? {
        return Err(PreflightError::Privileges(lacked).into());
    }
    run.open(&observed).await?;
    let outcome = run.work(server).await;
    // A claim that stays behind ends with its lease; the outcome matters more.
    let _ = run.write(run.row(Event::Released)).await;
    outcome
}

/// One run at work on one server.
struct Run<'a> {
    client: &'a Client,
    declared: &'a Declared,
    options: &'a MigrateOptions,
    runner: String,
    last_written: Instant,
}

impl<'a> Run<'a> {
    fn new(client: &'a Client, declared: &'a Declared, options: &'a MigrateOptions) -> Self {
        Self { client, declared, options, runner: unique(), last_written: Instant::now() }
    }

    fn is_due(&self, plan: &Plan) -> bool {
        plan.steps.iter().any(|step| self.options.permit.allows(step))
    }

    async fn read(&self) -> Result<History, MigrateError> {
        let statement = render::read_journal(&self.declared.journal());
        let rows: Vec<Row> = self.client.fetch(&statement).await.map_err(MigrateError::Read)?;
        Ok(History::read(&rows)?)
    }

    fn row(&self, event: Event) -> Row {
        Row {
            event: event.as_str().to_owned(),
            runner: self.runner.clone(),
            author: self.options.author.clone(),
            tool: self.options.tool.clone(),
            ..Row::default()
        }
    }

    async fn write(&mut self, row: Row) -> Result<(), MigrateError> {
        let statement = render::record(&self.declared.journal(), &row);
        // Counted from before it was sent: the server's clock stamps it later.
        let sent = Instant::now();
        self.execute(&statement).await.map_err(MigrateError::Record)?;
        self.last_written = sent;
        Ok(())
    }

    /// Runs a statement; tries it again where that may help. Every statement may run twice.
    async fn execute(&self, statement: &Statement) -> Result<(), ClientError> {
        let mut pause = RETRY_PAUSE;
        for _ in 0..self.options.retries {
            match self.client.execute(statement).await {
                Err(error) if error.category().is_transient() => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                other => return other,
            }
        }
        self.client.execute(statement).await
    }

    /// Makes the journal where there is none, and claims the work.
    async fn open(&mut self, observed: &Observed) -> Result<(), MigrateError> {
        if !observed.database {
            let database = render::create_database(&self.declared.database, None);
            self.execute(&database).await.map_err(MigrateError::Record)?;
        }
        if !observed.tables.contains_key(self.declared.journal().table()) {
            let journal = render::create_journal(&self.declared.journal());
            self.execute(&journal).await.map_err(MigrateError::Record)?;
        }
        let began = Instant::now();
        let mut seed = u64::from_str_radix(&self.runner[..8], 16).unwrap_or(1);
        loop {
            self.write(self.row(Event::Claimed)).await?;
            let history = self.read().await;
            let other = match &history {
                Ok(history) => history.other_at_work(&self.runner, self.options.lease).cloned(),
                Err(_) => None,
            };
            let Some(other) = other else {
                return match history {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        let _ = self.write(self.row(Event::Released)).await;
                        Err(error)
                    }
                };
            };
            self.write(self.row(Event::Released)).await?;
            if began.elapsed() >= self.options.patience {
                return Err(MigrateError::Busy {
                    author: other.author,
                    silent_seconds: other.silent.as_secs(),
                    lease_seconds: self.options.lease.as_secs(),
                });
            }
            // Runs that gave way to each other must not come back together.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let span = GIVE_WAY_MILLIS.end - GIVE_WAY_MILLIS.start;
            let pause = GIVE_WAY_MILLIS.start + (seed >> 33) % span;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Under the claim: closes what was left open, plans from what is there, runs what is due.
    async fn work(&mut self, server: ServerFacts) -> Result<Migrated, MigrateError> {
        let history = self.read().await?;
        for open in history.open() {
            let row = Row {
                number: open.number,
                position: open.done,
                detail: "the run ended without a word".to_owned(),
                ..self.row(Event::Interrupted)
            };
            self.write(row).await?;
        }
        let observed = observe(self.client, self.declared).await.map_err(MigrateError::Read)?;
        let (mut number, parent) = history.next();
        let mut parent = parent.to_owned();
        let found = origin(self.declared, &observed);
        let adopted = (number == 1 && found != Origin::Nobody).then_some(found);
        if let Some(origin) = adopted {
            parent = self.adopt(number, origin).await?;
            number += 1;
        }
        let Plan { steps, blocked } = plan(self.declared, &observed);
        let (due, refused): (Vec<Step>, Vec<Step>) =
            steps.into_iter().partition(|step| self.options.permit.allows(step));
        let mut applied = Applied { done: Vec::new(), refused };
        let mut migrations = Vec::new();
        for phase in [Phase::Expand, Phase::Contract] {
            let steps: Vec<Step> = due.iter().filter(|step| step.phase == phase).cloned().collect();
            if !steps.is_empty() {
                parent = self.one(number, &parent, phase, &steps).await?;
                migrations.push(number);
                number += 1;
                applied.done.extend(steps);
            }
        }
        let before = diff(self.declared, &observed);
        let after = observe(self.client, self.declared).await.map_err(MigrateError::Read)?;
        let drift = diff(self.declared, &after);
        Ok(Migrated { server, adopted, migrations, applied, blocked, before, drift })
    }

    /// Puts on record that tables of someone's were taken over as they are.
    async fn adopt(&mut self, number: u32, origin: Origin) -> Result<String, MigrateError> {
        let sum = checksum(number, "", "adopt", "", &[]);
        let row = Row {
            number,
            phase: "adopt".to_owned(),
            origin: origin.to_string(),
            checksum: sum.clone(),
            ..self.row(Event::Planned)
        };
        self.write(row).await?;
        self.write(Row { number, ..self.row(Event::Finished) }).await?;
        Ok(sum)
    }

    /// One migration: on record, statement by statement, finished. Gives its checksum.
    async fn one(
        &mut self,
        number: u32,
        parent: &str,
        phase: Phase,
        steps: &[Step],
    ) -> Result<String, MigrateError> {
        let statements: Vec<String> =
            steps.iter().map(|step| step.statement.sql().to_owned()).collect();
        let revision = self.declared.revision();
        let sum = checksum(number, parent, phase_name(phase), &revision, &statements);
        let row = Row {
            number,
            phase: phase_name(phase).to_owned(),
            revision,
            parent: parent.to_owned(),
            checksum: sum.clone(),
            statements,
            ..self.row(Event::Planned)
        };
        self.write(row).await?;
        let began = Instant::now();
        for (position, step) in (1_u32..).zip(steps) {
            if self.last_written.elapsed() >= self.options.lease {
                return Err(MigrateError::LeaseLost { object: step.object.clone() });
            }
            let started = Instant::now();
            if let Err(source) = self.execute(&step.statement).await {
                let failed = Row {
                    number,
                    position: position - 1,
                    duration_millis: millis(started),
                    detail: format!("{}: cannot {}: {source}", step.object, step.what),
                    ..self.row(Event::Failed)
                };
                // Without it the next run finds the migration open and closes it.
                let _ = self.write(failed).await;
                return Err(MigrateError::Apply(ApplyError {
                    object: step.object.clone(),
                    what: step.what.clone(),
                    done: position as usize - 1,
                    all: steps.len(),
                    source,
                }));
            }
            let duration_millis = millis(started);
            self.write(Row { number, position, duration_millis, ..self.row(Event::Done) }).await?;
        }
        let position = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let duration_millis = millis(began);
        self.write(Row { number, position, duration_millis, ..self.row(Event::Finished) }).await?;
        Ok(sum)
    }
}

/// What the journal of one server tells; `None`: there is no journal yet.
///
/// # Errors
/// The server cannot be asked, or the journal is broken.
pub async fn history(
    client: &Client,
    declared: &Declared,
) -> Result<Option<History>, MigrateError> {
    let statement = render::read_journal(&declared.journal());
    match client.fetch::<Row>(&statement).await {
        Ok(rows) => Ok(Some(History::read(&rows)?)),
        Err(ClientError::UnknownTable { .. } | ClientError::UnknownDatabase { .. }) => Ok(None),
        Err(error) => Err(MigrateError::Read(error)),
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A name no other run has: of the time, the process, and where this run's memory lies.
fn unique() -> String {
    let here = 0_u8;
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mut hash = Sha256::new();
    hash.update(nanos.to_le_bytes());
    hash.update(std::process::id().to_le_bytes());
    hash.update((&raw const here as usize).to_le_bytes());
    hash.update(format!("{:?}", std::thread::current().id()));
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
