//! What every case needs around it: a broker, an engine for those that want one, topics filled
//! once, and a folder for settings and logs.
//!
//! The servers are the stack's own, on free loopback ports and in folders of their own; they end
//! with this process, however it ends.

pub(crate) mod account;
pub(crate) mod broker;
mod fill;
pub(crate) mod pods;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_e2e::binaries;
use millrace_stack::clickhouse::{Engine, EngineOptions};
use millrace_stack::kafka::{Broker, BrokerOptions};

use crate::dataset::Dataset;
use crate::say;
use crate::world::broker::Topics;
use crate::world::fill::Filled;

/// The broker's heap: fetches of 4 partitions and the index caches of some 3 GB of segments.
const BROKER_HEAP_MIB: u32 = 768;

/// The servers and what is in them.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) topics: Topics,
    engine: Option<Engine>,
    filled: Vec<Filled>,
    folder: PathBuf,
    serial: u32,
}

impl World {
    /// Starts a broker; settings and logs go into `folder`.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("no {}", folder.display()))?;
        say::progress("starting a broker");
        let options = BrokerOptions { heap_mib: BROKER_HEAP_MIB, ..BrokerOptions::default() };
        let broker = Broker::start(options).context("no broker")?;
        let topics = Topics::new(&broker.bootstrap())?;
        let (engine, filled, folder) = (None, Vec::new(), folder.to_owned());
        Ok(Self { broker, topics, engine, filled, folder, serial: 0 })
    }

    /// A name that no run before had, for groups, topics and files.
    pub(crate) fn fresh_name(&mut self, case: &str) -> String {
        self.serial += 1;
        format!("bench-{case}-{}", self.serial)
    }

    /// A file for settings or logs.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A topic with at least `records` records, filled when it is first asked for.
    pub(crate) fn filled(&mut self, dataset: Dataset, records: u64) -> Result<Filled> {
        let found = self.filled.iter().find(|filled| {
            filled.dataset == dataset && (records..records + records / 2).contains(&filled.records)
        });
        if let Some(filled) = found {
            return Ok(filled.clone());
        }
        let topic = format!("bench_{}_{records}", dataset.name());
        let filled = fill::fill(&self.topics, &topic, dataset, records)?;
        self.filled.push(filled.clone());
        Ok(filled)
    }

    /// The engine with Null tables of all signals, started when it is first asked for.
    pub(crate) fn engine(&mut self) -> Result<&Engine> {
        if self.engine.is_none() {
            say::progress("starting a ClickHouse engine");
            let engine = Engine::start(EngineOptions::default()).context("no engine")?;
            make_tables(&engine)?;
            let (user, password) = self.login();
            fs::write(user, engine.user())?;
            fs::write(password, engine.password())?;
            self.engine = Some(engine);
        }
        self.engine.as_ref().context("no engine")
    }

    /// CPU time that the engine spent in queries so far, by its own counters, in seconds: its HTTP
    /// front, which is not its own, and its background threads don't count.
    pub(crate) fn engine_query_seconds(&self) -> Result<f64> {
        let engine = self.engine.as_ref().context("no engine")?;
        let micros: f64 = engine
            .query(
                "SELECT toUInt64(sum(value)) FROM system.events \
                 WHERE event IN ('UserTimeMicroseconds', 'SystemTimeMicroseconds')",
            )?
            .trim()
            .parse()
            .context("the engine's counters")?;
        Ok(micros / 1e6)
    }

    /// Files with the engine's user and password.
    pub(crate) fn login(&self) -> (PathBuf, PathBuf) {
        (self.file("clickhouse-user"), self.file("clickhouse-password"))
    }
}

fn make_tables(engine: &Engine) -> Result<()> {
    let output = Command::new(binaries::path("clickhouse-ddl")?)
        .args(["create", "--endpoint", &engine.url(), "--database", "otel"])
        .args(["--traces", "--logs", "--metrics", "--enable-json", "--engine", "Null"])
        .args(["--user", engine.user()])
        .env("CLICKHOUSE_PASSWORD", engine.password())
        .output()?;
    if !output.status.success() {
        bail!("clickhouse-ddl create: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
