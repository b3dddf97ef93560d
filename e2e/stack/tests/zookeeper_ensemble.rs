//! The ZooKeepers that tests and benchmarks run, held to what they rely on.
//!
//! `cargo test -p millrace-stack zookeeper_ensemble::`. The first run fetches ZooKeeper with
//! Maven (20 MB); each test starts servers of its own, about 4 s.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use millrace_stack::service::ServiceError;
use millrace_stack::zookeeper::{
    Ensemble, EnsembleOptions, Role, Size, Version, four_letters, mntr, role,
};

const PATIENCE: Duration = Duration::from_secs(120);

fn three() -> EnsembleOptions {
    EnsembleOptions { size: Size::Three, ..EnsembleOptions::default() }
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn until<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Scenario: one server of each version, with AdminServer and metrics. Guarantee: it is alone, says
/// its version, and answers on both; dropped, its process and folder are gone. Slow: two ZooKeepers
/// start one after the other.
#[test]
fn one_server_of_each_version_serves_and_leaves_nothing_behind() {
    for version in [Version::V3_9, Version::V3_8] {
        let options =
            EnsembleOptions { version, admin: true, metrics: true, ..EnsembleOptions::default() };
        let ensemble = Ensemble::start(&options).unwrap();
        let server = &ensemble.servers()[0];
        assert_eq!(ensemble.leader(), Some(0));
        assert_eq!(four_letters(server.client_address(), "ruok").unwrap(), "imok");
        let values = mntr(server.client_address()).unwrap();
        assert!(values["zk_version"].starts_with(version.number()), "{values:?}");
        assert_eq!(values["zk_server_state"], "standalone");
        let monitor = get(server.admin_address().unwrap(), "/commands/monitor");
        assert!(monitor.contains("\"server_state\" : \"standalone\""), "{monitor}");
        assert!(get(server.metrics_address().unwrap(), "/metrics").contains("znode_count"));

        let process = format!("/proc/{}", server.pid().unwrap());
        let dir = ensemble.dir().to_owned();
        drop(ensemble);
        assert!(!Path::new(&process).exists() && !dir.exists());
    }
}

/// Scenario: the leader of three is killed, comes back, a follower is paused and goes on.
/// Guarantee: another leads meanwhile, the one that came back follows, the paused one is counted
/// out by `mntr` and in again. Slow: three ZooKeepers start, and they elect and count out a paused
/// one.
#[test]
fn three_servers_outlive_a_killed_leader_and_a_paused_follower() {
    let mut ensemble = Ensemble::start(&three()).unwrap();
    let first = ensemble.leader().unwrap();
    ensemble.servers_mut()[first].kill9();
    assert_eq!(ensemble.servers()[first].pid(), None);
    let second = until("another leader", || ensemble.leader());
    assert_ne!(first, second);
    let server = &mut ensemble.servers_mut()[first];
    server.start().unwrap();
    server.wait_serving(PATIENCE).unwrap();
    assert_eq!(role(server.client_address()).unwrap(), Role::Follower);

    let leader = ensemble.servers()[second].client_address();
    let followers = |count: &str| {
        let synced = mntr(leader).ok()?.get("zk_synced_followers")?.clone();
        (synced == count).then_some(())
    };
    until("two followers", || followers("2"));
    ensemble.servers_mut()[first].pause().unwrap();
    assert!(ensemble.servers()[first].is_paused());
    until("one follower", || followers("1"));
    ensemble.servers_mut()[first].resume().unwrap();
    until("two followers again", || followers("2"));
    // Ends a paused one too, without its whole grace.
    ensemble.servers_mut()[first].pause().unwrap();
    let began = Instant::now();
    drop(ensemble);
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
}

/// Scenario: data directories of the caller's, and all servers are restarted. Guarantee: the data
/// lies there, and the ensemble's last change is still known. Slow: three ZooKeepers start twice.
#[test]
fn data_is_where_the_caller_wants_it_and_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let data_dirs: Vec<_> = (0..3).map(|index| folder.path().join(index.to_string())).collect();
    let options = EnsembleOptions { data_dirs: data_dirs.clone(), ..three() };
    let mut ensemble = Ensemble::start(&options).unwrap();
    assert!(data_dirs.iter().all(|dir| dir.join("version-2").exists()));
    let epoch = |ensemble: &Ensemble| {
        let leader = ensemble.servers()[ensemble.leader()?].client_address();
        let zxid = four_letters(leader, "srvr").ok()?;
        let zxid = zxid.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?.to_owned();
        Some(u64::from_str_radix(&zxid, 16).unwrap() >> 32)
    };
    let before = until("a leader", || epoch(&ensemble));
    for server in ensemble.servers_mut() {
        server.restart().unwrap();
    }
    ensemble.wait_serving(PATIENCE).unwrap();
    assert!(until("a leader", || epoch(&ensemble)) > before);

    let wrong = EnsembleOptions { data_dirs: data_dirs[..2].to_vec(), ..three() };
    let refused = Ensemble::start(&wrong).unwrap_err();
    assert!(matches!(refused, ServiceError::Option { field: "data_dirs", .. }), "{refused}");
}
