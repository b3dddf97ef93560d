//! The condition as the operator has it, through every state in turn: three real ZooKeepers that
//! are asked themselves, and a real engine with replicated tables over the first of them.
//!
//! Disks of servers are mounted, so as root the test runs in a mount namespace of its own; without
//! root the full disk is left out, and that is said.

use anyhow::bail;
use millrace_coordination::assessment::{
    CoordinationReason, CoordinationState, CoordinationVerdict, DegradationLimits,
    assess_coordination,
};
use millrace_coordination::observation::{self, Observation};
use millrace_ddl::{AttributeStorage, DdlClient, Declared, observe_coordination};
use millrace_e2e::wait;
use millrace_operator::coordination::{Coordinators, ProbeRequest, Prober};
use millrace_stack::clickhouse::{self, Engine, EngineOptions};
use millrace_stack::disk::Disk;
use millrace_stack::namespaces::{self, Own};
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, Size};

use crate::replicated::tables::{make, writable};
use crate::replicated::{LIMIT, bring_back, declared};
use crate::tables::ddl::client::{block_on, client};

/// The server that the engine has its session with. Others are struck, unless the session is meant.
const OWN: usize = 0;
/// Room for the logs of a test: 64 MiB for each that a server begins, sparse.
const DISK_BYTES: u64 = 1 << 30;
/// What is left free of a full one: some pages, which a dozen inserts fill.
const NOTHING_BYTES: u64 = 16 << 10;

/// What is looked at, by both ways.
struct Scene {
    ensemble: Ensemble,
    engine: Engine,
    client: DdlClient,
    declared: Declared,
    ask: ProbeRequest,
}

impl Scene {
    fn new(data_dirs: Vec<std::path::PathBuf>) -> Self {
        clickhouse::require_own_engine("its ZooKeepers are struck").unwrap();
        let options = EnsembleOptions {
            size: Size::Three,
            data_dirs,
            // A server that has lost the others serves reads, and says so.
            jvm_arguments: vec!["-Dreadonlymode.enabled=true".to_owned()],
            ..EnsembleOptions::default()
        };
        let ensemble = Ensemble::start(&options).unwrap();
        let addresses = ensemble.client_addresses();
        let zookeeper = vec![addresses[OWN]];
        let engine = Engine::start(EngineOptions { zookeeper, ..Default::default() }).unwrap();
        let client = client(&engine);
        let declared = declared("otel", AttributeStorage::Json);
        make(&client, &declared);
        writable(&engine);
        let servers = addresses.iter().map(|it| it.to_string().parse().unwrap()).collect();
        let ask = ProbeRequest { servers, ..ProbeRequest::default() };
        Self { ensemble, engine, client, declared, ask }
    }

    fn address(&self, server: usize) -> String {
        self.ensemble.client_addresses()[server].to_string()
    }

    fn verdict(&self) -> CoordinationVerdict {
        let (servers, said) = block_on(async {
            let servers = Prober::default().probe_servers(&self.ask).await;
            (servers, observe_coordination(&self.client, &self.declared).await)
        });
        let engines =
            vec![observation::ClickHouseServer { endpoint: self.engine.url(), view: said }];
        assess_coordination(
            &Observation { servers, engines, shards: 1 },
            &DegradationLimits::default(),
            0,
        )
    }

    /// Looks until it is so, and the message names this.
    fn until(&self, state: CoordinationState, reason: CoordinationReason, word: &str) {
        let what = format!("{state:?} for {reason:?} that names {word:?}");
        let verdict = wait::until(&what, LIMIT, || {
            let verdict = self.verdict();
            let is = (verdict.state, verdict.reason) == (state, reason);
            match is && verdict.message.contains(word) {
                true => Ok(verdict),
                false => bail!("{verdict:?}"),
            }
        });
        println!("{reason:?}: {}", verdict.unwrap().message);
    }

    fn healthy(&self) {
        self.until(
            CoordinationState::Healthy,
            CoordinationReason::Works,
            "3 of 3 servers are serving",
        );
    }
}

/// Whether this is the process in which mounts are this test's own. As root another one is started,
/// and has to succeed.
fn has_own_mounts(test: &str) -> bool {
    let Some(mut again) = namespaces::again(Own::Mounts).unwrap() else { return true };
    let status = again.args([test, "--exact", "--nocapture"]).status().unwrap();
    assert!(status.success(), "{test} in its own mount namespace: {status}");
    false
}

/// Scenario: a follower is killed; two servers are killed, and the last one serves reads alone; the
/// disk of a server is full; the server of the engine's session is killed; a table's nodes are
/// removed; each is mended before the next. Guarantee: the condition has each state's reason, names
/// what is struck, and is healthy in between, also where only one of the two ways shows the fault.
#[test]
fn the_condition_goes_through_every_state_on_a_real_ensemble() {
    let root = namespaces::is_root();
    if root && !has_own_mounts("health::the_condition_goes_through_every_state_on_a_real_ensemble")
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let count = if root { Size::Three.count() } else { 0 };
    let disk = |nth| Disk::mount(folder.path().join(format!("disk-{nth}")), DISK_BYTES).unwrap();
    let disks: Vec<Disk> = (0..count).map(disk).collect();
    let mut scene = Scene::new(disks.iter().map(|disk| disk.path().to_owned()).collect());
    scene.healthy();

    one_is_down(&mut scene);
    the_quorum_is_lost(&mut scene);
    match disks.as_slice() {
        [] => println!("the full disk is left out: mounting one needs root"),
        disks => a_disk_is_full(&mut scene, disks),
    }
    the_session_expires(&mut scene);
    a_replica_is_read_only(&scene);
}

fn one_is_down(scene: &mut Scene) {
    let struck = OWN + 1;
    scene.ensemble.servers_mut()[struck].kill9();
    scene.until(
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        &scene.address(struck),
    );
    bring_back(&mut scene.ensemble, &[struck]);
    scene.healthy();
}

fn the_quorum_is_lost(scene: &mut Scene) {
    let struck = [OWN + 1, OWN + 2];
    for server in struck {
        scene.ensemble.servers_mut()[server].kill9();
    }
    scene.until(
        CoordinationState::Lost,
        CoordinationReason::QuorumLost,
        "the ensemble has no leader",
    );
    let read_only = format!("{}: it is read-only", scene.address(OWN));
    scene.until(CoordinationState::Lost, CoordinationReason::QuorumLost, &read_only);
    bring_back(&mut scene.ensemble, &struck);
    scene.healthy();
    writable(&scene.engine);
}

/// A server ends when it can't write, so there have to be writes.
fn a_disk_is_full(scene: &mut Scene, disks: &[Disk]) {
    let struck = OWN + 1;
    scene
        .engine
        .query(
            "CREATE TABLE otel.writes (x UInt8) \
             ENGINE = ReplicatedMergeTree('/writes', 'one') ORDER BY x",
        )
        .unwrap();
    disks[struck].fill(NOTHING_BYTES).unwrap();
    let mut nth = 0;
    wait::until("a server that could not write to end", LIMIT, || {
        // While another leader is elected an insert fails, and is a write all the same.
        let sql = format!("INSERT INTO otel.writes SETTINGS async_insert = 0 VALUES ({})", nth % 8);
        nth += 1;
        let _ = scene.engine.query(&sql);
        let verdict = scene.verdict();
        match verdict.reason {
            CoordinationReason::ServerDown => Ok(()),
            _ => bail!("{verdict:?}"),
        }
    })
    .unwrap();
    scene.until(
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        &scene.address(struck),
    );
    disks[struck].free().unwrap();
    scene.ensemble.servers_mut()[struck].kill9();
    bring_back(&mut scene.ensemble, &[struck]);
    scene.healthy();
    scene.engine.query("DROP TABLE otel.writes SYNC").unwrap();
}

/// The other two have the quorum all the time, and end the session. (Of a server that is paused
/// ClickHouse's own tables say nothing in time, so nothing is known of the session.)
fn the_session_expires(scene: &mut Scene) {
    scene.ensemble.servers_mut()[OWN].kill9();
    scene.until(CoordinationState::Lost, CoordinationReason::SessionLost, "no live session");
    bring_back(&mut scene.ensemble, &[OWN]);
    scene.healthy();
    writable(&scene.engine);
}

/// The ensemble and the session are well all the time.
fn a_replica_is_read_only(scene: &Scene) {
    let table = &scene.declared.tables()[0];
    let name = format!("otel.{}", table.name.table());
    let path = scene
        .engine
        .query(&format!(
            "SELECT zookeeper_path FROM system.replicas WHERE concat(database, '.', table) = '{name}'"
        ))
        .unwrap();
    for sql in [
        format!("DETACH TABLE {name} SYNC"),
        format!("SYSTEM DROP REPLICA 'replica-1' FROM ZKPATH '{}'", path.trim()),
        format!("ATTACH TABLE {name}"),
    ] {
        scene.engine.query(&sql).unwrap();
    }
    scene.until(CoordinationState::Lost, CoordinationReason::ReplicaReadOnly, table.name.table());
    scene.engine.query(&format!("SYSTEM RESTORE REPLICA {name}")).unwrap();
    scene.healthy();
    writable(&scene.engine);
}
