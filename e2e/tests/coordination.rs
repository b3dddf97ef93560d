//! The operator's questions to real ZooKeepers, and what is made of the answers.
//!
//! `cargo test -p millrace-e2e coordination::`. The first run fetches ZooKeeper with Maven
//! (20 MB); the servers start in about 4 s, longer on a busy machine. Keeper's HTTP API is tried
//! against a scripted server alone, in the operator's own tests: no package carries its server.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use millrace_certificates::Authority;
use millrace_coordination::assessment::{
    CoordinationReason, CoordinationState, CoordinationVerdict, DegradationLimits,
    assess_coordination, collect_figures,
};
use millrace_coordination::observation::{Observation, ProbeError, ServerReport, ServerRole};
use millrace_e2e::wait;
use millrace_operator::coordination::{Coordinators, ProbeRequest, Prober};
use millrace_stack::service::free_port;
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, Size};

/// Elections take a second or two; a machine with two busy cores needs many times that.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks until it is in a state for a reason.
async fn until(
    ask: &ProbeRequest,
    limits: &DegradationLimits,
    state: CoordinationState,
    reason: CoordinationReason,
) -> (Observation, CoordinationVerdict) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let servers = Prober::default().probe_servers(ask).await;
        let seen = Observation { servers, engines: Vec::new(), shards: 1 };
        let verdict = assess_coordination(&seen, limits, 0);
        if (verdict.state, verdict.reason) == (state, reason) {
            return (seen, verdict);
        }
        assert!(Instant::now() < deadline, "not {state:?} for {reason:?}: {verdict:?} {seen:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Scenario: three ZooKeepers; a follower is killed; then the leader; both come back; a follower is
/// paused; the bytes on disk pass a limit. Guarantee: healthy with a leader and two synced followers,
/// degraded with the killed server's name, lost, healthy again, degraded by the one that doesn't
/// answer, above the limit. Slow: three ZooKeepers start, two of them twice, and a paused one is
/// waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ensemble_is_seen_through_the_loss_of_one_of_its_quorum_and_back() {
    let options = EnsembleOptions { size: Size::Three, ..EnsembleOptions::default() };
    let mut ensemble = Ensemble::start(&options).unwrap();
    let addresses = ensemble.client_addresses();
    let servers = addresses.iter().map(|it| it.to_string().parse().unwrap()).collect();
    let ask = ProbeRequest { servers, disk: true, ..ProbeRequest::default() };
    let limits = DegradationLimits::default();

    let (seen, _) =
        until(&ask, &limits, CoordinationState::Healthy, CoordinationReason::Works).await;
    let told = collect_figures(&seen);
    assert_eq!((told.serving, told.named), (3, 3));
    assert!(told.znodes.unwrap() > 0 && told.data_bytes.unwrap() > 0, "{told:?}");
    assert!(told.outstanding_requests.is_some() && told.latency_milliseconds.is_some());
    assert!(told.disk_bytes.unwrap() > 0, "{told:?}");
    let leader = ensemble.leader().unwrap();
    assert_eq!(told.leader, Some(addresses[leader].to_string()));

    let follower = (leader + 1) % 3;
    ensemble.servers_mut()[follower].kill9();
    let (_, verdict) =
        until(&ask, &limits, CoordinationState::Degraded, CoordinationReason::ServerDown).await;
    let words = verdict.message;
    assert!(words.contains(&addresses[follower].to_string()), "{words}");
    assert!(words.contains("2 of 3 servers are serving") && words.contains("one more"), "{words}");

    ensemble.servers_mut()[leader].kill9();
    let (_, verdict) =
        until(&ask, &limits, CoordinationState::Lost, CoordinationReason::QuorumLost).await;
    assert!(verdict.message.contains("the ensemble has no leader"), "{}", verdict.message);

    for index in [follower, leader] {
        ensemble.servers_mut()[index].start().unwrap();
    }
    ensemble.wait_serving(PATIENCE).unwrap();
    let (seen, _) =
        until(&ask, &limits, CoordinationState::Healthy, CoordinationReason::Works).await;
    assert_eq!(collect_figures(&seen).synced_followers, Some(2));

    let leader = ensemble.leader().unwrap();
    let paused = (leader + 1) % 3;
    ensemble.servers_mut()[paused].pause().unwrap();
    let (_, verdict) =
        until(&ask, &limits, CoordinationState::Degraded, CoordinationReason::ServerDown).await;
    assert!(verdict.message.contains(&addresses[paused].to_string()), "{}", verdict.message);
    ensemble.servers_mut()[paused].resume().unwrap();
    until(&ask, &limits, CoordinationState::Healthy, CoordinationReason::Works).await;

    let tight = DegradationLimits { disk_bytes: Some(1), ..limits };
    let (_, verdict) =
        until(&ask, &tight, CoordinationState::Degraded, CoordinationReason::OverLimit).await;
    assert!(verdict.message.contains("bytes on its disk"), "{}", verdict.message);
}

/// Scenario: one ZooKeeper alone. Guarantee: it leads, and is healthy without followers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_alone_is_healthy_without_followers() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let servers = vec![ensemble.client_addresses()[0].to_string().parse().unwrap()];
    let ask = ProbeRequest { servers, ..ProbeRequest::default() };
    let (seen, verdict) = until(
        &ask,
        &DegradationLimits::default(),
        CoordinationState::Healthy,
        CoordinationReason::Works,
    )
    .await;
    assert_eq!(collect_figures(&seen).leader, Some(ensemble.client_addresses()[0].to_string()));
    assert!(verdict.message.contains("1 of 1 servers are serving"), "{}", verdict.message);
}

/// A ZooKeeper with a secure client port, whose certificate has this name.
fn secure(name: &str, authority: &Authority, dir: &Path) -> (Ensemble, u16) {
    let shown = authority.sign(name);
    let (identity, trusted) = (dir.join(format!("{name}.pem")), dir.join("authority.pem"));
    fs::write(&identity, shown.key_pem() + &shown.pem()).unwrap();
    fs::write(&trusted, authority.pem()).unwrap();
    let port = free_port([127, 0, 0, 1].into()).unwrap();
    let settings = [
        ("secureClientPort", port.to_string()),
        ("secureClientPortAddress", "127.0.0.1".to_owned()),
        ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned()),
        ("ssl.keyStore.location", identity.display().to_string()),
        ("ssl.keyStore.type", "PEM".to_owned()),
        ("ssl.trustStore.location", trusted.display().to_string()),
        ("ssl.trustStore.type", "PEM".to_owned()),
        ("ssl.clientAuth", "none".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
    let options = EnsembleOptions { settings, ..EnsembleOptions::default() };
    let ensemble = Ensemble::start(&options).unwrap();
    // It serves its plain port, which a start waits for, before it listens on this one.
    let address = ("127.0.0.1", port);
    let listens = || Ok(TcpStream::connect(address).map(drop)?);
    wait::until("the secure port to listen", PATIENCE, listens).unwrap();
    (ensemble, port)
}

async fn said(
    port: u16,
    encrypted: bool,
    authority: &Authority,
) -> Result<ServerReport, ProbeError> {
    let servers = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    let authority = Some(authority.pem().into_bytes());
    let ask = ProbeRequest { servers, encrypted, authority, disk: true, ..ProbeRequest::default() };
    Prober::default().probe_servers(&ask).await.remove(0).report
}

/// Scenario: ZooKeepers with a secure port, one with a certificate for its address, one for another
/// name; asked with the authority that signed both, with another, and without TLS. Guarantee: only
/// the right certificate is believed, and gives the same figures as the plain port; the reason of
/// the others names the certificate; the wrong kind of port is silent, and no lost quorum. Slow:
/// two ZooKeepers start, and a port of the wrong kind is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secure_port_is_asked_and_its_certificate_checked() {
    let (trusted, other) = (Authority::new("trusted"), Authority::new("other"));
    let dir = tempfile::tempdir().unwrap();
    let (ensemble, port) = secure("127.0.0.1", &trusted, dir.path());
    let report = said(port, true, &trusted).await.unwrap();
    let plain_port = ensemble.client_addresses()[0].port();
    let plain = said(plain_port, false, &trusted).await.unwrap();
    assert_eq!((report.role, report.znodes), (ServerRole::Standalone, plain.znodes));
    assert!(report.znodes.unwrap() > 0 && report.disk_bytes.unwrap() > 0, "{report:?}");

    let (_misnamed, misnamed_port) = secure("zookeeper-1.db", &trusted, dir.path());
    for (port, authority, word) in
        [(port, &other, "UnknownIssuer"), (misnamed_port, &trusted, "not valid for name")]
    {
        let told = said(port, true, authority).await;
        let Err(ProbeError::Unreachable(why)) = &told else { panic!("{told:?}") };
        assert!(why.contains("invalid peer certificate") && why.contains(word), "{why}");
    }
    for (port, encrypted) in [(port, false), (plain_port, true)] {
        let told = said(port, encrypted, &trusted).await;
        assert!(matches!(told, Err(ProbeError::Unreachable(_))), "{told:?}");
    }
}
