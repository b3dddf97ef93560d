//! Replicated tables, all parts real: our tables on the engine, with ZooKeeper 3.9 beneath them.
//!
//! `cargo test -p millrace-e2e replicated::`. The engine is told in memory what a server would
//! tell it (`e2e/stack/clickhouse/replicated.py`), on x86-64 alone. Each table has one replica:
//! nothing here serves fetches.
#![cfg(target_arch = "x86_64")]
mod cost;
mod dashboard;
mod gateway;
mod health;
mod tables;
mod tokens;

#[path = "../../lab/keeper-bench/tests/transactions/mod.rs"]
mod transactions;

use std::time::Duration;

use millrace_ddl::{
    AttributeStorage, Declared, Engine as TableEngine, Replication, Signals, TableOptions,
};
use millrace_stack::clickhouse::{self, Engine, EngineOptions};
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, Size};

/// For elections, sessions and retries; a machine with two busy cores needs many times what they
/// take.
const LIMIT: Duration = Duration::from_secs(120);

fn ensemble(size: Size) -> Ensemble {
    if size != Size::One {
        clickhouse::require_own_engine("its ZooKeepers are struck").unwrap();
    }
    Ensemble::start(&EnsembleOptions { size, ..EnsembleOptions::default() }).unwrap()
}

/// An engine whose tables may be replicated by this ensemble.
fn engine(ensemble: &Ensemble) -> Engine {
    let zookeeper = ensemble.client_addresses();
    Engine::start(EngineOptions { zookeeper, ..EngineOptions::default() }).unwrap()
}

fn replicated() -> TableEngine {
    TableEngine::ReplicatedMergeTree(Replication::default())
}

/// All tables of a database, replicated.
fn declared(database: &str, attributes: AttributeStorage) -> Declared {
    let options = TableOptions { attributes, engine: replicated(), ..TableOptions::default() };
    let name = |text: &str| text.parse().unwrap();
    Declared::uniform(name(database), name("otel"), Signals::ALL, &options)
}

/// Kills the leader and one more of three: the last one has no quorum. Gives their numbers.
fn lose_quorum(ensemble: &mut Ensemble) -> [usize; 2] {
    let leader = ensemble.leader().unwrap();
    let struck = [leader, (leader + 1) % 3];
    for index in struck {
        ensemble.servers_mut()[index].kill9();
    }
    struck
}

fn bring_back(ensemble: &mut Ensemble, struck: &[usize]) {
    for &index in struck {
        ensemble.servers_mut()[index].start().unwrap();
    }
    ensemble.wait_serving(LIMIT).unwrap();
}
