//! Samples and results as rows in ClickHouse, by Millrace's own collector: samples as points of
//! `otel_metrics_gauge`, each round's result as a record of `otel_logs`.
//!
//! Scraped points are given up when a table takes none for a while, so after each round the table
//! is asked which it has, and the others are served again. A round whose result is in its table has
//! all of its samples in theirs. What came twice counts once in every question in `sql`.

mod database;
mod exposition;
mod pipeline;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use millrace_stack::clickhouse::{Engine, EngineOptions};
use millrace_stack::service::ServiceError;
use serde_json::Value;

use self::database::{Database, DatabaseError, Login};
use self::exposition::Point;
use self::pipeline::{Pipeline, PipelineError};
use self::target::Target;
use super::record::{Records, Round};
use crate::say;

/// An engine from packages instead of a server's address.
const OWN: &str = "own";

const STORED: &str = include_str!("../sql/stored.sql");
const RESULTS: &str = include_str!("../sql/results.sql");
const ROWS: &str = include_str!("../sql/rows.sql");
const PERCENTILES: &str = include_str!("../sql/percentiles.sql");

/// Rounds on record that are stored side by side: three servers each fill a scrape.
const ROUNDS_AT_ONCE: usize = 8;
/// How often a round's missing samples are served again.
const TRIES: u32 = 5;
/// Beyond a second for each scrape: some fail on a busy machine, and come again.
const SCRAPE_PATIENCE: Duration = Duration::from_secs(30);
/// From a scrape to its rows: a batch's age, an insert, on a machine that is busy.
const INSERT_PATIENCE: Duration = Duration::from_secs(10);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// Rows can't be stored, or not be asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    #[error("cannot start the engine: {0}")]
    Engine(#[from] ServiceError),
    #[error("cannot use {}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot serve samples on loopback: {0}")]
    Target(io::Error),
    #[error(
        "{missing} of {all} samples of {cell}, repeat {repeat}, are not in the table after {TRIES} \
         tries; see {log}. The round is on record: run the same again"
    )]
    Missing { missing: usize, all: usize, cell: String, repeat: u32, log: String },
}

/// Where rows go.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Store samples and results in ClickHouse too: http://HOST:PORT, or `own` for an engine from
    /// packages that keeps them below --out.
    #[arg(long, value_name = "URL")]
    clickhouse: Option<String>,
    /// The tables' database; made if it is not there.
    #[arg(long, default_value = "keeper_bench")]
    database: String,
    /// ClickHouse's user; without it, its default user without a password.
    #[arg(long, requires = "password_file")]
    user: Option<String>,
    /// A file with the password.
    #[arg(long, requires = "user")]
    password_file: Option<PathBuf>,
    /// The folder of `millrace-collector` and `clickhouse-ddl`; without it, this program's own.
    #[arg(long)]
    programs: Option<PathBuf>,
}

/// The way into the tables. Dropping it ends what it started.
#[derive(Debug)]
pub(crate) struct Store {
    run: String,
    dir: PathBuf,
    database: Database,
    // Ended in this order.
    pipeline: Pipeline,
    target: Target,
    _engine: Option<Engine>,
}

/// What the tables say of a run.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) run: String,
    /// One row: results, samples, and rows of samples.
    pub(crate) rows: Value,
    /// One for each cell and figure.
    pub(crate) percentiles: Vec<Value>,
}

impl StoreArgs {
    /// None where nothing is to be stored.
    pub(crate) fn open(&self, out: &Path, run: &str) -> Result<Option<Store>, StoreError> {
        let Some(url) = &self.clickhouse else { return Ok(None) };
        let file = |path: &Path| {
            let path = path.to_owned();
            move |cause| StoreError::File { path, cause }
        };
        let dir = out.join("collector");
        fs::create_dir_all(&dir).map_err(file(&dir))?;
        let dir = dir.canonicalize().map_err(file(&dir))?;
        let mut engine = None;
        let database = if url == OWN {
            let dir = Some(dir.with_file_name("clickhouse"));
            let started = Engine::start(EngineOptions { dir, ..EngineOptions::default() })?;
            let login =
                Login { user: started.user().to_owned(), password: started.password().to_owned() };
            let database = Database::new(&started.url(), &self.database, Some(login))?;
            engine = Some(started);
            database
        } else {
            let login = match (&self.user, &self.password_file) {
                (Some(user), Some(path)) => {
                    let text = fs::read_to_string(path).map_err(file(path))?;
                    let password = text.trim_end_matches(['\r', '\n']).to_owned();
                    Some(Login { user: user.clone(), password })
                }
                _ => None,
            };
            Database::new(url, &self.database, login)?
        };
        let programs = match &self.programs {
            Some(dir) => dir.clone(),
            None => {
                let own = std::env::current_exe().map_err(file(Path::new("this program")))?;
                own.parent().map(Path::to_owned).unwrap_or_default()
            }
        };
        let target = Target::start().map_err(StoreError::Target)?;
        let pipeline = Pipeline::start(&programs, &dir, &database, target.address())?;
        say::progress(&format!(
            "rows go to {}, database {}, as run {run}",
            database.url(),
            database.name()
        ));
        let run = run.to_owned();
        Ok(Some(Store { run, dir, database, pipeline, target, _engine: engine }))
    }
}

impl Store {
    /// Samples that were just taken.
    pub(crate) fn offer(&self, samples: &[Value]) {
        self.target.offer(samples.iter().filter_map(|sample| Point::new(&self.run, sample)));
    }

    /// Stores every round on record that isn't.
    pub(crate) fn catch_up(&self, records: &Records) -> Result<(), StoreError> {
        let name = |row: &Value| (row["cell"].as_str().map(str::to_owned), row["repeat"].as_u64());
        let rows = self.database.rows(RESULTS, &[("run", &self.run)])?;
        let stored: BTreeSet<_> = rows.iter().map(name).collect();
        let is_left = |round: &&Round| !stored.contains(&name(&round.result));
        let left: Vec<(&Round, Vec<Point>)> = records
            .rounds()
            .iter()
            .filter(is_left)
            .map(|round| (round, self.points(&records.samples_of(&round.result))))
            .collect();
        for some in left.chunks(ROUNDS_AT_ONCE) {
            say::progress(&format!("storing {} rounds that are on record", some.len()));
            for (Round { result, .. }, points) in some {
                let stored = self.stored(result)?;
                self.target.offer(missing(points, &stored).into_iter().cloned());
            }
            for (Round { result, line }, points) in some {
                self.settle(result, line, points)?;
            }
        }
        Ok(())
    }

    /// Waits until a round's samples are in their table, and stores its result.
    pub(crate) fn keep(&self, result: &Value, samples: &[Value]) -> Result<(), StoreError> {
        let points = self.points(&samples.iter().collect::<Vec<_>>());
        self.settle(result, &result.to_string(), &points)
    }

    /// What the tables say of this run.
    pub(crate) fn told(&self) -> Result<Told, StoreError> {
        let ask = |sql: &str| self.database.rows(sql, &[("run", &self.run)]);
        let rows = ask(ROWS)?.into_iter().next().unwrap_or_default();
        Ok(Told { run: self.run.clone(), rows, percentiles: ask(PERCENTILES)? })
    }

    fn points(&self, samples: &[&Value]) -> Vec<Point> {
        samples.iter().filter_map(|sample| Point::new(&self.run, sample)).collect()
    }

    fn settle(&self, result: &Value, line: &str, points: &[Point]) -> Result<(), StoreError> {
        let cell = result["cell"].as_str().unwrap_or_default();
        let repeat = result["repeat"].as_u64().unwrap_or_default();
        for _ in 0..TRIES {
            // Those that weren't are missing in the table too.
            let _ = self.target.wait_scraped(SCRAPE_PATIENCE);
            let missing = self.wait_stored(result, points)?;
            if missing.is_empty() {
                let attributes = [
                    ("run", self.run.clone()),
                    ("cell", cell.to_owned()),
                    ("repeat", repeat.to_string()),
                ];
                let ended = result["ended_ms"].as_u64().unwrap_or_default();
                return Ok(self.pipeline.record(&attributes, ended, line)?);
            }
            say::progress(&format!("{} samples are not stored and served again", missing.len()));
            self.target.offer(missing.into_iter().cloned());
        }
        Err(StoreError::Missing {
            missing: missing(points, &self.stored(result)?).len(),
            all: points.len(),
            cell: cell.to_owned(),
            repeat: u32::try_from(repeat).unwrap_or_default(),
            log: self.dir.join("collector.log").display().to_string(),
        })
    }

    /// What the table still lacks after the time that it needs.
    fn wait_stored<'a>(
        &self,
        result: &Value,
        points: &'a [Point],
    ) -> Result<Vec<&'a Point>, StoreError> {
        let begun = Instant::now();
        loop {
            let missing = missing(points, &self.stored(result)?);
            if missing.is_empty() || begun.elapsed() > INSERT_PATIENCE {
                return Ok(missing);
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    /// How many names each sample of a round has in the table, by server and time.
    fn stored(&self, result: &Value) -> Result<BTreeMap<(String, u64), usize>, StoreError> {
        let cell = result["cell"].as_str().unwrap_or_default();
        let repeat = result["repeat"].to_string();
        let parameters = [("run", self.run.as_str()), ("cell", cell), ("repeat", &repeat)];
        let rows = self.database.rows(STORED, &parameters)?;
        let row = |row: &Value| {
            let (time_ms, names) = (row["time_ms"].as_f64()?, row["names"].as_u64()?);
            // Milliseconds since 1970 are whole, and far below 2^53.
            Some(((row["server"].as_str()?.to_owned(), time_ms as u64), names as usize))
        };
        Ok(rows.iter().filter_map(row).collect())
    }
}

fn missing<'a>(points: &'a [Point], stored: &BTreeMap<(String, u64), usize>) -> Vec<&'a Point> {
    let is_missing = |point: &&Point| {
        let (server, time_ms) = point.key();
        stored.get(&(server.to_owned(), time_ms)).copied().unwrap_or_default() < point.names()
    };
    points.iter().filter(is_missing).collect()
}
