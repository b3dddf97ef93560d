//! Commands of pages that need no cluster, typed as the pages have them: `millrace_docs::runs` says
//! which. Their database is an engine with a ZooKeeper beneath its tables.
#![cfg(target_arch = "x86_64")]
#![allow(missing_docs)]

use std::time::Duration;

use millrace_docs::runs::{self, Way};
use millrace_e2e::binaries;
use millrace_e2e::page::Shell;
use millrace_stack::Stack;
use millrace_stack::clickhouse::{Engine, EngineOptions, User};
use millrace_stack::service::Secret;
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions};

/// For a page: its slowest command makes tables.
const LIMIT: Duration = Duration::from_secs(120);

/// Scenario: a reader types a page's commands in its order, with the engine at the page's address, as
/// ClickHouse's own user with a password. Guarantee: each does its work, or is refused where the page
/// says so. Slow: a ZooKeeper and an engine start, and the pages' commands make tables one after
/// the other.
#[test]
fn commands_that_need_no_cluster_work_as_typed() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let name = Secret::new("default").unwrap();
    let user = User { name, password: Secret::random(), read_only: false };
    let engine = Engine::start(EngineOptions {
        users: vec![user],
        zookeeper: ensemble.client_addresses(),
        ..EngineOptions::default()
    });
    let engine = engine.unwrap();

    let mut shell = Shell::with_programs(&["clickhouse-ddl", "kubectl-millrace"]).unwrap();
    shell.program("kubectl", &Stack::open().unwrap().tool("kubectl").unwrap()).unwrap();
    shell.set("CLICKHOUSE_PASSWORD", engine.password());
    shell.stands_for("http://db:8123", &engine.url());
    shell.stands_for("target/release", &binaries::folder().to_string_lossy());
    shell.stands_for("/usr/local/bin", &shell.installed().to_string_lossy());
    let scripts = runs::scripts(&binaries::root(), Way::Here).unwrap();
    assert!(!scripts.is_empty());
    for script in &scripts {
        shell.run(script, LIMIT, |line| println!("{line}")).unwrap();
    }
}
