//! Runs pending steps as numbered migrations, each recorded in the journal before its first
//! statement and after each one. A run that stops anywhere leaves its migration open; the next run
//! finds it, plans again from the live tables and continues. Claims exclude concurrent runs (see
//! [`crate::migrate::journal`]).
//!
//! Without pending steps nothing is written, not even the journal. SQL text in the journal is never
//! run.

pub(crate) mod apply;
pub(crate) mod journal;
pub(crate) mod plan;
pub(crate) mod preflight;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::client::{ClientError, DdlClient, STATEMENT_TIMEOUT};
use crate::declared::Declared;
use crate::live::drift::{Drift, find_drift};
use crate::live::observe::{Observed, observe_declared};
use crate::live::origin::{TableOrigin, detect_origin};
use crate::migrate::journal::{History, JournalError, JournalEvent, Row, phase_name};
use crate::migrate::plan::{
    Blocked, MigrationPlan, Permit, Phase, PlanStep, needed_privileges, plan_migration,
};
use crate::migrate::preflight::{PreflightError, ServerFacts, run_preflight};
use crate::privileges;
use crate::render::{self, Statement};

/// The result of running a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// Steps that ran, in order.
    pub done: Vec<PlanStep>,
    /// Steps that the permit did not allow; they did not run.
    pub refused: Vec<PlanStep>,
}

/// A plan that stopped half-way. Earlier steps remain applied; a new plan continues from there.
#[derive(Debug, thiserror::Error)]
#[error("{object}: cannot {what} (after {done} of {all} statements): {source}")]
pub struct ApplyError {
    /// The failed step's table or database.
    pub object: String,
    /// The failed step's purpose.
    pub what: String,
    /// Steps that ran before it.
    pub done: usize,
    /// Steps of the complete plan.
    pub all: usize,
    /// Why it failed.
    pub source: ClientError,
}

impl From<ApplyError> for ClientError {
    /// Returns the cause, for callers that only classify it.
    fn from(error: ApplyError) -> Self {
        error.source
    }
}

/// How long a silent run counts as alive: a run writes a row after each statement, and a statement
/// takes [`STATEMENT_TIMEOUT`] at most; half of that is added for a slow row.
pub const LEASE: Duration = Duration::from_secs(STATEMENT_TIMEOUT.as_secs() * 3 / 2);

/// The pause before the first retry of a failed statement; it doubles each time: 0.5, 1, 2 s.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The shortest and longest pause of a run that gives way to another.
const YIELD_MILLIS: std::ops::Range<u64> = 50..400;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct MigrateOptions {
    /// The author in the journal: a user and host, or an object's name.
    pub author: String,
    /// The tool and its release.
    pub tool: String,
    /// The steps that may run.
    pub permit: Permit,
    /// How long a silent run counts as alive.
    pub lease: Duration,
    /// How long to wait for another run to finish.
    pub patience: Duration,
    /// The number of retries of a statement that fails for a transient reason.
    pub retries: u32,
}

impl MigrateOptions {
    /// Permits additive changes by `author`, with three retries and without waiting for other runs.
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

/// The result of a run on one server.
#[derive(Debug)]
pub struct MigrationReport {
    /// The server's facts.
    pub server: ServerFacts,
    /// The origin of the existing tables, where this was the first run with a journal.
    pub adopted: Option<TableOrigin>,
    /// Migrations that this run finished, by number.
    pub migrations: Vec<u32>,
    /// Steps that ran, and steps that the permit refused.
    pub applied: ApplyReport,
    /// Differences that no statement repairs.
    pub blocked: Vec<Blocked>,
    /// What differed before anything ran.
    pub before: Vec<Drift>,
    /// What still differs, notices included.
    pub drift: Vec<Drift>,
}

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// A preflight check refuses to run anything.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The tables or the journal cannot be read.
    #[error("cannot read the tables: {0}")]
    Read(#[source] ClientError),
    /// The journal cannot be written; no statement runs that is not recorded.
    #[error("cannot write to the journal of migrations: {0}")]
    Record(#[source] ClientError),
    /// A newer release is at work.
    #[error("the journal of migrations is refused: {0}")]
    Journal(#[from] JournalError),
    /// Another run is in progress.
    #[error(
        "another run, by {author}, is in progress (it last wrote {silent_seconds} s ago); nothing \
         was run. Wait for it; if it is dead, its claim expires after {lease_seconds} s"
    )]
    Busy {
        /// Who started it.
        author: String,
        /// Whole seconds since it last wrote.
        silent_seconds: u64,
        /// Whole seconds after which a silent run counts as dead.
        lease_seconds: u64,
    },
    /// The lease expired: another run may have taken over.
    #[error("{object}: the claim expired before it was complete; the next run continues there")]
    LeaseLost {
        /// The step's object.
        object: String,
    },
    /// A statement failed.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl MigrateError {
    /// Returns the client's error underneath, where one exists.
    #[must_use]
    pub fn client_error(&self) -> Option<&ClientError> {
        match self {
            Self::Preflight(PreflightError::Client(cause))
            | Self::Read(cause)
            | Self::Record(cause)
            | Self::Apply(ApplyError { source: cause, .. }) => Some(cause),
            _ => None,
        }
    }
}

/// Brings the client's server to its declaration, as far as the permit allows.
///
/// # Errors
/// The first obstacle; steps that ran before it remain applied and recorded.
pub async fn migrate_server(
    client: &DdlClient,
    declared: &Declared,
    options: &MigrateOptions,
) -> Result<MigrationReport, MigrateError> {
    let server = run_preflight(client, declared).await?;
    let observed = observe_declared(client, declared).await.map_err(MigrateError::Read)?;
    let mut run = MigrationRun::new(client, declared, options);
    let has_journal = observed.tables.contains_key(declared.journal().table());
    let history = match has_journal {
        true => run.read().await?,
        false => History::default(),
    };
    let first = plan_migration(declared, &observed);
    // The journal may exist only for the record of the tables' holder.
    let is_adopted =
        !history.migrations.is_empty() || detect_origin(declared, &observed) == TableOrigin::Nobody;
    if !run.is_due(&first) && history.open_migrations().next().is_none() && is_adopted {
        let refused = first.steps;
        let before = find_drift(declared, &observed);
        return Ok(MigrationReport {
            server,
            adopted: None,
            migrations: Vec::new(),
            applied: ApplyReport { done: Vec::new(), refused },
            blocked: first.blocked,
            drift: before.clone(),
            before,
        });
    }
    let due = first.steps.iter().filter(|step| options.permit.allows(step));
    let needed = needed_privileges(declared, &observed, due);
    let lacked = privileges::missing_privileges(client, &needed).await;
    if let Some(lacked) = lacked.map_err(PreflightError::Client)? {
        return Err(PreflightError::Privileges(lacked).into());
    }
    run.open_journal(&observed).await?;
    let outcome = run.run_due(server).await;
    // A claim that remains ends with its lease; the result matters more.
    let _ = run.write(run.journal_row(JournalEvent::Released)).await;
    outcome
}

/// One run at work on one server.
struct MigrationRun<'a> {
    client: &'a DdlClient,
    declared: &'a Declared,
    options: &'a MigrateOptions,
    runner: String,
    last_written: Instant,
}

impl<'a> MigrationRun<'a> {
    fn new(client: &'a DdlClient, declared: &'a Declared, options: &'a MigrateOptions) -> Self {
        Self { client, declared, options, runner: unique_runner(), last_written: Instant::now() }
    }

    fn is_due(&self, plan: &MigrationPlan) -> bool {
        plan.steps.iter().any(|step| self.options.permit.allows(step))
    }

    async fn read(&self) -> Result<History, MigrateError> {
        let statement = render::read_journal(&self.declared.journal(), self.options.lease);
        let rows: Vec<Row> = self.client.fetch(&statement).await.map_err(MigrateError::Read)?;
        Ok(History::read(&rows)?)
    }

    fn journal_row(&self, event: JournalEvent) -> Row {
        Row {
            event: event.as_str().to_owned(),
            runner: self.runner.clone(),
            author: self.options.author.clone(),
            tool: self.options.tool.clone(),
            ..Row::default()
        }
    }

    async fn write(&mut self, row: Row) -> Result<(), MigrateError> {
        let statement = render::insert_journal_row(&self.declared.journal(), &row);
        // Measured from before the request: the server's clock stamps the row later.
        let sent = Instant::now();
        self.execute_with_retry(&statement).await.map_err(MigrateError::Record)?;
        self.last_written = sent;
        Ok(())
    }

    /// Runs a statement and retries it where that may help. Every statement may run twice.
    async fn execute_with_retry(&self, statement: &Statement) -> Result<(), ClientError> {
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

    /// Creates a missing journal, and claims the work.
    async fn open_journal(&mut self, observed: &Observed) -> Result<(), MigrateError> {
        if !observed.database {
            let cluster = self.declared.cluster.as_ref();
            let database = render::create_database(&self.declared.database, cluster);
            self.execute_with_retry(&database).await.map_err(MigrateError::Record)?;
        }
        if !observed.tables.contains_key(self.declared.journal().table()) {
            let mut journal = render::create_journal(&self.declared.journal());
            if observed.replicates_itself {
                journal = journal.with_replica_timeout();
            }
            self.execute_with_retry(&journal).await.map_err(MigrateError::Record)?;
        }
        let began = Instant::now();
        let mut seed = u64::from_str_radix(&self.runner[..8], 16).unwrap_or(1);
        loop {
            self.write(self.journal_row(JournalEvent::Claimed)).await?;
            let history = self.read().await;
            let other = match &history {
                Ok(history) => history.other_at_work(&self.runner, self.options.lease).cloned(),
                Err(_) => None,
            };
            let Some(other) = other else {
                return match history {
                    Ok(_) => Ok(()),
                    Err(error) => {
                        let _ = self.write(self.journal_row(JournalEvent::Released)).await;
                        Err(error)
                    }
                };
            };
            self.write(self.journal_row(JournalEvent::Released)).await?;
            if began.elapsed() >= self.options.patience {
                return Err(MigrateError::Busy {
                    author: other.author,
                    silent_seconds: other.silent.as_secs(),
                    lease_seconds: self.options.lease.as_secs(),
                });
            }
            // Runs that gave way to each other must not return at the same time.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let span = YIELD_MILLIS.end - YIELD_MILLIS.start;
            let pause = YIELD_MILLIS.start + (seed >> 33) % span;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    /// Works under the claim: closes open migrations, plans from the live tables, runs the pending
    /// steps.
    async fn run_due(&mut self, server: ServerFacts) -> Result<MigrationReport, MigrateError> {
        let history = self.read().await?;
        for open in history.open_migrations() {
            let row = Row {
                number: open.number,
                position: open.done,
                detail: "the run ended without a result".to_owned(),
                ..self.journal_row(JournalEvent::Interrupted)
            };
            self.write(row).await?;
        }
        let observed =
            observe_declared(self.client, self.declared).await.map_err(MigrateError::Read)?;
        let mut number = history.next();
        let found = detect_origin(self.declared, &observed);
        let adopted = (number == 1 && found != TableOrigin::Nobody).then_some(found);
        if let Some(origin) = adopted {
            self.record_adoption(number, origin).await?;
            number += 1;
        }
        let MigrationPlan { steps, blocked } = plan_migration(self.declared, &observed);
        let (due, refused): (Vec<PlanStep>, Vec<PlanStep>) =
            steps.into_iter().partition(|step| self.options.permit.allows(step));
        let mut applied = ApplyReport { done: Vec::new(), refused };
        let mut migrations = Vec::new();
        for phase in [Phase::Expand, Phase::Contract] {
            let steps: Vec<PlanStep> =
                due.iter().filter(|step| step.phase == phase).cloned().collect();
            if !steps.is_empty() {
                let done = self.run_migration(&history, number, phase, &steps).await?;
                migrations.push(done);
                number = number.max(done + 1);
                applied.done.extend(steps);
            }
        }
        let before = find_drift(self.declared, &observed);
        let after =
            observe_declared(self.client, self.declared).await.map_err(MigrateError::Read)?;
        let drift = find_drift(self.declared, &after);
        Ok(MigrationReport { server, adopted, migrations, applied, blocked, before, drift })
    }

    /// Records that existing tables of another origin were adopted unchanged.
    async fn record_adoption(
        &mut self,
        number: u32,
        origin: TableOrigin,
    ) -> Result<(), MigrateError> {
        let row = Row {
            number,
            phase: "adopt".to_owned(),
            origin: origin.to_string(),
            ..self.journal_row(JournalEvent::Planned)
        };
        self.write(row).await?;
        self.write(Row { number, ..self.journal_row(JournalEvent::Finished) }).await
    }

    /// Runs one migration: records it, runs each statement, finishes it. Returns its number:
    /// `number`, or the last migration's if that one failed at exactly this and is retried.
    async fn run_migration(
        &mut self,
        history: &History,
        number: u32,
        phase: Phase,
        steps: &[PlanStep],
    ) -> Result<u32, MigrateError> {
        let statements: Vec<String> =
            steps.iter().map(|step| step.statement.sql().to_owned()).collect();
        let (phase, revision) = (phase_name(phase), self.declared.revision());
        let before = history.failed_before(phase, &revision, &statements);
        let number = before.map_or(number, |before| before.number);
        if before.is_none() {
            let phase = phase.to_owned();
            let row = Row {
                number,
                phase,
                revision,
                statements,
                ..self.journal_row(JournalEvent::Planned)
            };
            // Reading the tables may have outlived the claim: then another run works.
            let object = steps.first().map_or_else(String::new, |step| step.object.clone());
            self.write_under_claim(row, &object).await?;
        }
        let began = Instant::now();
        for (position, step) in (1_u32..).zip(steps) {
            let started = Instant::now();
            match self.execute_step(step).await? {
                Ok(()) => {}
                Err(source) => {
                    let detail = format!("{}: cannot {}: {source}", step.object, step.what);
                    let is_known =
                        before.is_some_and(|before| before.has_failed_so(position - 1, &detail));
                    if !is_known {
                        let failed = Row {
                            number,
                            position: position - 1,
                            duration_millis: elapsed_millis(started),
                            detail,
                            ..self.journal_row(JournalEvent::Failed)
                        };
                        // Without this row the next run finds the migration open and closes it.
                        let _ = self.write(failed).await;
                    }
                    return Err(MigrateError::Apply(ApplyError {
                        object: step.object.clone(),
                        what: step.what.clone(),
                        done: position as usize - 1,
                        all: steps.len(),
                        source,
                    }));
                }
            }
            let duration_millis = elapsed_millis(started);
            let done =
                Row { number, position, duration_millis, ..self.journal_row(JournalEvent::Done) };
            self.write_under_claim(done, &step.object).await?;
        }
        let position = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let duration_millis = elapsed_millis(began);
        self.write(Row {
            number,
            position,
            duration_millis,
            ..self.journal_row(JournalEvent::Finished)
        })
        .await?;
        Ok(number)
    }

    /// Runs a step. Where another server of the cluster lacks the database, which the queried one
    /// has, it is created on all of them first.
    async fn execute_step(
        &mut self,
        step: &PlanStep,
    ) -> Result<Result<(), ClientError>, MigrateError> {
        let outcome = self.execute_under_claim(&step.statement, &step.object).await?;
        let cluster = self.declared.cluster.as_ref();
        if cluster.is_none() || !matches!(outcome, Err(ClientError::UnknownDatabase { .. })) {
            return Ok(outcome);
        }
        let database = render::create_database(&self.declared.database, cluster);
        match self.execute_under_claim(&database, &step.object).await? {
            Ok(()) => self.execute_under_claim(&step.statement, &step.object).await,
            refused => Ok(refused),
        }
    }

    /// Runs a statement, with retries where they may help. Each attempt starts with enough of the
    /// lease left to finish within it, so no other run can work at the same time.
    async fn execute_under_claim(
        &mut self,
        statement: &Statement,
        object: &str,
    ) -> Result<Result<(), ClientError>, MigrateError> {
        let mut pause = RETRY_PAUSE;
        let mut retries = self.options.retries;
        loop {
            // A statement takes two thirds of the lease at most, as `LEASE` states.
            if self.last_written.elapsed() >= self.options.lease / 3 {
                self.write_under_claim(self.journal_row(JournalEvent::Claimed), object).await?;
                // A renewal that took so long leaves too little of the lease for the statement.
                if self.last_written.elapsed() >= self.options.lease / 3 {
                    return Err(MigrateError::LeaseLost { object: object.to_owned() });
                }
            }
            match self.client.execute(statement).await {
                Err(error) if error.category().is_transient() && retries > 0 => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    retries -= 1;
                }
                other => return Ok(other),
            }
        }
    }

    /// Writes a row, which renews the claim, if the claim was alive until the row was stored.
    async fn write_under_claim(&mut self, row: Row, object: &str) -> Result<(), MigrateError> {
        let renewed = self.last_written;
        self.write(row).await?;
        match renewed.elapsed() < self.options.lease {
            true => Ok(()),
            false => Err(MigrateError::LeaseLost { object: object.to_owned() }),
        }
    }
}

/// Returns the history in one server's journal; `None`: no journal exists.
///
/// # Errors
/// The server cannot be queried, or the journal is invalid.
pub async fn read_history(
    client: &DdlClient,
    declared: &Declared,
) -> Result<Option<History>, MigrateError> {
    let statement = render::read_journal(&declared.journal(), LEASE);
    match client.fetch::<Row>(&statement).await {
        Ok(rows) => Ok(Some(History::read(&rows)?)),
        Err(ClientError::UnknownTable { .. } | ClientError::UnknownDatabase { .. }) => Ok(None),
        Err(error) => Err(MigrateError::Read(error)),
    }
}

fn elapsed_millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns a name that no other run has, from the time, the process and an address in this run's
/// memory.
fn unique_runner() -> String {
    let here = 0_u8;
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
    let mut hash = Sha256::new();
    hash.update(nanos.to_le_bytes());
    hash.update(std::process::id().to_le_bytes());
    hash.update((&raw const here as usize).to_le_bytes());
    hash.update(format!("{:?}", std::thread::current().id()));
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
