//! `keeper-bench inserts`: ClickHouse's own load. Engines from packages, each a ClickHouse server
//! with tables of its own, take real INSERTs into replicated tables over the ensemble that is
//! measured. What they ask is counted by the ensemble's servers and by ClickHouse.
//!
//! Limits: x86-64; each table has one replica (`e2e/stack/clickhouse/replicated.py`); neither TLS
//! nor logging in to the ensemble.

mod asked;

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use millrace_stack::clickhouse::{Engine, EngineOptions};
use millrace_stack::service::ServiceError;
use serde_json::{Map, Value, json};

use self::asked::{Asked, AskedError};
use crate::report;
use crate::say;
use crate::tally::{Latencies, per_second};

/// What a matrix calls this load.
pub(crate) const NAME: &str = "inserts";

const TABLE: &str = include_str!("table.sql");
const READONLY: &str = include_str!("readonly.sql");

/// Tables of each server, as `clickhouse-load` has: signals have tables of their own.
const TABLES: u64 = 4;
/// Rows of an insert, which is one part: small ones, since requests go by parts.
const ROWS: usize = 1_000;
/// What each engine may take: parts are small, and a machine has several engines.
const MEMORY_BYTES: u64 = 1 << 30;
/// A replica is active within a second; on a busy machine it takes many times that.
const ACTIVE_PATIENCE: Duration = Duration::from_secs(60);
const ASK_AGAIN: Duration = Duration::from_millis(50);
const SECOND: Duration = Duration::from_secs(1);

/// The load came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InsertsError {
    #[error("{0} is no address of a ZooKeeper: write HOST:PORT")]
    Address(String),
    #[error("a ClickHouse server: {0}")]
    Engine(#[from] ServiceError),
    #[error("cannot count requests: {0}")]
    Asked(#[from] AskedError),
    #[error("tables of a ClickHouse server take no inserts after {ACTIVE_PATIENCE:?}")]
    ReadOnly,
    #[error("a thread of the load has ended early")]
    Thread,
}

/// `inserts`
#[derive(Debug, clap::Args)]
pub(crate) struct Inserts {
    /// ZooKeepers, parted by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    servers: Vec<String>,
    /// ClickHouse servers, each with tables of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    sessions: u16,
    /// Inserts under way at once at each.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=32))]
    pipeline: u16,
    /// Inserts by all servers together.
    #[arg(long)]
    operations: u64,
    /// The id of the process that started this one, and whose end ends it.
    #[arg(long, hide = true)]
    pub(crate) parent: Option<u32>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Results, as those of other loads.
    pub(crate) lines: Vec<Value>,
    /// Inserts that failed.
    pub(crate) failures: u64,
}

/// Runs it. Tables are dropped at the end, with their nodes.
pub(crate) fn run(inserts: &Inserts) -> Result<Outcome, InsertsError> {
    let servers = addresses(&inserts.servers)?;
    say::progress(&format!("starting {} ClickHouse servers", inserts.sessions));
    let engines = start(&servers, inserts.sessions)?;
    for (nth, engine) in engines.iter().enumerate() {
        make_tables(nth, engine)?;
    }
    let before = Asked::of(&servers, &engines)?;
    say::progress(&format!("inserting {} times {ROWS} rows", inserts.operations));
    let begun = Instant::now();
    let done = insert(&engines, inserts, begun)?;
    let asked = Asked::of(&servers, &engines)?.since(&before);
    for engine in &engines {
        for table in 0..TABLES {
            engine.query(&format!("DROP TABLE inserts.t{table} SYNC"))?;
        }
    }
    Ok(Outcome { failures: done.errors.values().sum(), lines: lines(inserts, &done, &asked) })
}

fn addresses(servers: &[String]) -> Result<Vec<SocketAddr>, InsertsError> {
    let address = |server: &String| {
        let mut found = server.to_socket_addrs().ok()?;
        found.next()
    };
    let named =
        |server: &String| address(server).ok_or_else(|| InsertsError::Address(server.clone()));
    servers.iter().map(named).collect()
}

/// All at once: each takes seconds.
fn start(zookeeper: &[SocketAddr], count: u16) -> Result<Vec<Engine>, InsertsError> {
    let one = || {
        Engine::start(EngineOptions {
            zookeeper: zookeeper.to_vec(),
            memory_limit_bytes: MEMORY_BYTES,
            ..EngineOptions::default()
        })
    };
    thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
        let started = starting.into_iter().map(|it| it.join().map_err(|_| InsertsError::Thread));
        started.map(|engine| Ok(engine??)).collect()
    })
}

fn make_tables(nth: usize, engine: &Engine) -> Result<(), InsertsError> {
    engine.query("CREATE DATABASE inserts")?;
    for table in 0..TABLES {
        let name = format!("t{table}");
        let path = format!("/clickhouse/inserts/{}-{nth}/{name}", std::process::id());
        engine.query(&TABLE.replace("{table}", &name).replace("{path}", &path))?;
    }
    let begun = Instant::now();
    while engine.query(READONLY)?.trim() != "0" {
        if begun.elapsed() > ACTIVE_PATIENCE {
            return Err(InsertsError::ReadOnly);
        }
        thread::sleep(ASK_AGAIN);
    }
    Ok(())
}

/// An insert of a table, and its rows: the same each time, since tokens tell inserts apart.
fn body(table: u64) -> Vec<u8> {
    let mut body = format!("INSERT INTO inserts.t{table} FORMAT TabSeparated\n");
    for row in 0..ROWS {
        let (second, service) = (row % 60, row % 10);
        body +=
            &format!("2026-01-01 00:00:{second:02}.000\tservice-{service}\tGET /{row}\t{row}\n");
    }
    body.into_bytes()
}

/// What threads did.
#[derive(Debug, Default)]
struct Done {
    operations: u64,
    stored: u64,
    /// By ClickHouse's code, or the status, or as `no-answer`.
    errors: BTreeMap<String, u64>,
    latencies: Latencies,
    /// From the start to the last answer.
    window: Duration,
}

impl Done {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.stored += other.stored;
        for (code, count) in other.errors {
            *self.errors.entry(code).or_default() += count;
        }
        self.latencies.add(&other.latencies);
        self.window = self.window.max(other.window);
    }
}

fn insert(engines: &[Engine], inserts: &Inserts, begun: Instant) -> Result<Done, InsertsError> {
    let bodies: Vec<Vec<u8>> = (0..TABLES).map(body).collect();
    let next = AtomicU64::new(0);
    let work = |engine: &Engine| {
        let mut done = Done::default();
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some(body) = bodies.get((nth % TABLES) as usize) else { return done };
            if nth >= inserts.operations {
                return done;
            }
            let sent = Instant::now();
            let path = format!("/?insert_deduplication_token={nth}");
            let failed = failure(engine, &path, body);
            done.operations += 1;
            match failed {
                None => done.stored += 1,
                Some(code) => *done.errors.entry(code).or_default() += 1,
            }
            // An hour has 3.6e12 of them.
            done.latencies.record(sent.elapsed().as_nanos() as u64);
            done.window = begun.elapsed();
        }
    };
    thread::scope(|scope| {
        // Nothing is sent: the last thread's end closes it.
        let (held, ended) = sync_channel::<()>(1);
        let threads = engines.iter().flat_map(|engine| (0..inserts.pipeline).map(move |_| engine));
        let threads: Vec<_> = threads
            .map(|engine| {
                let held = held.clone();
                scope.spawn(move || {
                    let done = work(engine);
                    drop(held);
                    done
                })
            })
            .collect();
        drop(held);
        while ended.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
            let sent = next.load(Ordering::Relaxed).min(inserts.operations);
            say::progress(&format!("{} s: {sent} inserts", begun.elapsed().as_secs()));
        }
        let mut all = Done::default();
        for thread in threads {
            all.add(thread.join().map_err(|_| InsertsError::Thread)?);
        }
        Ok(all)
    })
}

/// Why an insert failed, if it did.
fn failure(engine: &Engine, path: &str, body: &[u8]) -> Option<String> {
    match engine.request(path, &[], body) {
        Err(_) => Some("no-answer".to_owned()),
        Ok(answer) if answer.status == 200 => None,
        Ok(answer) => {
            let code = answer.header("x-clickhouse-exception-code").map(str::to_owned);
            Some(code.unwrap_or_else(|| answer.status.to_string()))
        }
    }
}

fn lines(inserts: &Inserts, done: &Done, asked: &Asked) -> Vec<Value> {
    let seconds = done.window.as_secs_f64();
    let of_kind = |kind: &str| {
        let mut line = Map::new();
        line.insert("kind".to_owned(), kind.into());
        line.insert("operations".to_owned(), done.operations.into());
        line.insert("per_second".to_owned(), per_second(done.stored, seconds).into());
        line.insert("errors".to_owned(), json!(done.errors));
        line.insert("latency_us".to_owned(), report::latencies(&done.latencies));
        line
    };
    let mut all = of_kind("all");
    all.insert("workload".to_owned(), NAME.into());
    all.insert("sessions".to_owned(), inserts.sessions.into());
    all.insert("pipeline".to_owned(), inserts.pipeline.into());
    all.insert("window_seconds".to_owned(), seconds.into());
    all.insert("rows".to_owned(), (done.stored * ROWS as u64).into());
    all.insert("requests".to_owned(), asked.json());
    vec![of_kind("insert").into(), all.into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two threads' figures, one of them with errors. Guarantee: sums, and the longer
    /// window; a rate counts what was stored; the rows are those of stored inserts.
    #[test]
    fn figures_of_threads_are_added_up() {
        let of = |stored: u64, errors: &[(&str, u64)], window: u64| Done {
            operations: stored + errors.iter().map(|(_, count)| count).sum::<u64>(),
            stored,
            errors: errors.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect(),
            latencies: Latencies::default(),
            window: Duration::from_secs(window),
        };
        let mut all = of(10, &[("242", 1)], 4);
        all.add(of(30, &[("242", 2), ("no-answer", 1)], 5));
        let inserts =
            Inserts { servers: Vec::new(), sessions: 2, pipeline: 1, operations: 44, parent: None };
        let lines = lines(&inserts, &all, &Asked::default());
        let last = &lines[1];
        assert_eq!((&last["operations"], &last["per_second"]), (&json!(44), &json!(8.0)));
        assert_eq!(last["errors"], json!({"242": 3, "no-answer": 1}));
        assert_eq!((&last["rows"], &last["window_seconds"]), (&json!(40_000), &json!(5.0)));
    }

    /// Scenario: an address that is none. Guarantee: it is named.
    #[test]
    fn a_wrong_address_is_named() {
        let refused = addresses(&["127.0.0.1:2181".to_owned(), "nowhere".to_owned()]).unwrap_err();
        assert_eq!(refused.to_string(), "nowhere is no address of a ZooKeeper: write HOST:PORT");
    }
}
