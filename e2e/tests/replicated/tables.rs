//! Our tables as replicated ones, and what ClickHouse says of its ZooKeeper: made, verified, left
//! alone, back after a restart; the condition through a lost quorum.

use anyhow::bail;
use millrace_coordination::assessment::{
    CoordinationState, CoordinationVerdict, DegradationLimits, assess_coordination,
};
use millrace_coordination::observation::{self, Observation};
use millrace_ddl::{
    AttributeStorage, DdlClient, Declared, Engine as TableEngine, MigrateOptions, Permit,
    Replication, needs_coordination, observe_coordination, verify_tables,
};
use millrace_e2e::wait;
use millrace_stack::clickhouse::Engine;
use millrace_stack::zookeeper::Size;

use crate::replicated::{LIMIT, bring_back, declared, engine, ensemble, lose_quorum};
use crate::tables::ddl::client::{block_on, client};

/// Makes what is missing; gives how many statements ran.
pub(crate) fn make(client: &DdlClient, declared: &Declared) -> usize {
    let mut options = MigrateOptions::new("test");
    options.permit = Permit::ADDITIVE;
    let done = block_on(millrace_ddl::converge_servers(client, declared, &options)).unwrap();
    assert!(done.drift.is_empty(), "{:?}", done.drift);
    done.applied.len()
}

/// Waits until every replica takes inserts.
pub(crate) fn writable(engine: &Engine) {
    let question = "SELECT countIf(is_readonly), count() > 0, sum(active_replicas) = count() \
                    FROM system.replicas";
    wait::until("replicas that take inserts", LIMIT, || match engine.query(question)?.trim() {
        "0\t1\t1" => Ok(()),
        other => bail!("{other}"),
    })
    .unwrap();
}

fn said(engine: &Engine, client: &DdlClient, declared: &Declared) -> CoordinationVerdict {
    let said = block_on(observe_coordination(client, declared));
    let engines = vec![observation::ClickHouseServer { endpoint: engine.url(), view: said }];
    assess_coordination(
        &Observation { servers: Vec::new(), engines, shards: 1 },
        &DegradationLimits::default(),
        0,
    )
}

fn until(
    engine: &Engine,
    client: &DdlClient,
    declared: &Declared,
    state: CoordinationState,
) -> CoordinationVerdict {
    wait::until("another state of coordination", LIMIT, || {
        let verdict = said(engine, client, declared);
        match verdict.state == state {
            true => Ok(verdict),
            false => bail!("{verdict:?}"),
        }
    })
    .unwrap()
}

/// Scenario: an empty engine; all tables in both variants, spans also with the engine that drops
/// equal rows; each made twice; the engine killed and started again. Guarantee: it takes every
/// statement, the tables are as declared, the second time nothing is run; after the start they are
/// still as declared, and take inserts. Slow: a ZooKeeper and an engine start, the engine twice,
/// and the tables of three databases are made and compared.
#[test]
fn replicated_tables_are_made_verified_and_left_alone() {
    let ensemble = ensemble(Size::One);
    let mut engine = engine(&ensemble);
    let mut replacing = declared("replacing", AttributeStorage::Json);
    let traces = replacing.traces.as_mut().unwrap();
    traces.engine = TableEngine::ReplicatedReplacingMergeTree(Replication::default());
    let all = [
        declared("json", AttributeStorage::Json),
        declared("map", AttributeStorage::Map),
        replacing,
    ];
    for wanted in &all {
        let client = client(&engine);
        let objects = wanted.tables().len() + usize::from(wanted.view().is_some());
        assert_eq!(make(&client, wanted), objects);
        assert_eq!(make(&client, wanted), 0);
    }
    writable(&engine);
    if engine.is_own() {
        engine.kill9().unwrap();
        engine.restart().unwrap();
        writable(&engine);
    }
    for wanted in &all {
        let drift = block_on(verify_tables(&client(&engine), wanted)).unwrap();
        assert!(drift.is_empty(), "{drift:?}");
    }
}

/// Scenario: three ZooKeepers that only the engine is asked about; the leader is killed, then one
/// more; both come back. Guarantee: coordination is healthy, also without the leader; lost without
/// a quorum; healthy again by itself, and tables take inserts. Slow: three ZooKeepers and an engine
/// start, an election and a session of 6 s end, and three servers come back.
#[test]
fn the_condition_follows_a_quorum_through_the_engine_alone() {
    let mut ensemble = ensemble(Size::Three);
    let engine = engine(&ensemble);
    let wanted = declared("otel", AttributeStorage::Json);
    let client = client(&engine);
    assert!(needs_coordination(&wanted));
    make(&client, &wanted);
    writable(&engine);
    until(&engine, &client, &wanted, CoordinationState::Healthy);
    let sight = block_on(observe_coordination(&client, &wanted)).unwrap();
    let servers: Vec<_> = ensemble.client_addresses().iter().map(ToString::to_string).collect();
    assert!(sight.sessions.iter().all(|it| servers.contains(&it.server)), "{:?}", sight.sessions);
    assert_eq!(sight.replicas.len(), wanted.tables().len());
    assert!(sight.counters.unwrap().requests > 0);
    assert_eq!(sight.grant, None);

    let leader = ensemble.leader().unwrap();
    ensemble.servers_mut()[leader].kill9();
    wait::until("another leader", LIMIT, || match ensemble.leader() {
        Some(_) => Ok(()),
        None => bail!("none"),
    })
    .unwrap();
    writable(&engine);
    until(&engine, &client, &wanted, CoordinationState::Healthy);
    bring_back(&mut ensemble, &[leader]);

    let struck = lose_quorum(&mut ensemble);
    let lost = until(&engine, &client, &wanted, CoordinationState::Lost);
    println!("{lost:?}");
    bring_back(&mut ensemble, &struck);
    until(&engine, &client, &wanted, CoordinationState::Healthy);
    writable(&engine);
}
