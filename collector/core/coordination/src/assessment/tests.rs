//! Tests of the private code of `assessment.rs`.

use proptest::prelude::*;

use super::*;
use crate::observation::{KeeperSession, Replica};

fn server(name: &str, role: ServerRole) -> KeeperServer {
    let leads = role == ServerRole::Leader;
    let report = ServerReport {
        role,
        followers: leads.then_some(2),
        synced_followers: leads.then_some(2),
        voters: leads.then_some(3),
        outstanding_requests: Some(0),
        latency_milliseconds: Some(0.4),
        znodes: Some(1_000),
        data_bytes: Some(400_000),
        ..ServerReport::default()
    };
    KeeperServer { address: format!("{name}:2181"), report: Ok(report) }
}

fn silent(name: &str, why: ProbeError) -> KeeperServer {
    KeeperServer { address: format!("{name}:2181"), report: Err(why) }
}

fn refused() -> ProbeError {
    ProbeError::Unreachable("connection refused".to_owned())
}

fn session(is_expired: bool) -> KeeperSession {
    KeeperSession {
        name: "default".into(),
        server: "zk-1:2181".into(),
        is_expired,
        age_seconds: 60,
    }
}

fn engine(name: &str, said: Result<CoordinationView, ViewError>) -> ClickHouseServer {
    ClickHouseServer { endpoint: format!("http://{name}:8123"), view: said }
}

fn sees(name: &str) -> ClickHouseServer {
    let replica = Replica { table: "otel_logs".into(), total: 2, active: 2, ..Replica::default() };
    let sight = CoordinationView {
        sessions: vec![session(false)],
        replicas: vec![replica],
        ..CoordinationView::default()
    };
    engine(name, Ok(sight))
}

fn healthy_look() -> Observation {
    Observation {
        servers: vec![
            server("zk-1", ServerRole::Follower),
            server("zk-2", ServerRole::Leader),
            server("zk-3", ServerRole::Follower),
        ],
        engines: vec![sees("a"), sees("b")],
        shards: 1,
    }
}

fn judged(seen: &Observation) -> (CoordinationState, CoordinationReason, String) {
    let CoordinationVerdict { state, reason, message } =
        assess_coordination(seen, &DegradationLimits::default(), 0);
    (state, reason, message)
}

#[track_caller]
fn assert_judged(
    seen: &Observation,
    state: CoordinationState,
    reason: CoordinationReason,
    words: &[&str],
) {
    let (found, why, message) = judged(seen);
    assert_eq!((found, why), (state, reason), "{message}");
    for word in words {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
}

/// Scenario: three servers with a leader, two ClickHouse servers with sessions. Guarantee: healthy;
/// the message names the leader and has no figure that changes.
#[test]
fn an_ensemble_of_three_that_serves_is_healthy() {
    let look = healthy_look();
    assert_judged(
        &look,
        CoordinationState::Healthy,
        CoordinationReason::Works,
        &["3 of 3", "zk-2:2181 leads", "2 of 2"],
    );
    let figures = collect_figures(&look);
    assert_eq!((figures.serving, figures.leader.as_deref()), (3, Some("zk-2:2181")));
    assert_eq!((figures.synced_followers, figures.sessions), (Some(2), 2));
    let mut later = look;
    later.servers[0].report.as_mut().unwrap().outstanding_requests = Some(12);
    later.servers[1].report.as_mut().unwrap().znodes = Some(2_000);
    assert_eq!(judged(&later).2, judged(&healthy_look()).2);
}

/// Scenario: one server of three is down; one of five. Guarantee: degraded, with its name and
/// cause; only with three does the message warn that one more stops inserts.
#[test]
fn one_of_three_down_is_degraded() {
    let mut look = healthy_look();
    look.servers[2] = silent("zk-3", refused());
    let words = ["2 of 3", "zk-3:2181: connection refused", "one more"];
    assert_judged(&look, CoordinationState::Degraded, CoordinationReason::ServerDown, &words);
    look.servers
        .extend([server("zk-4", ServerRole::Follower), server("zk-5", ServerRole::Follower)]);
    let leader = look.servers[1].report.as_mut().unwrap();
    (leader.voters, leader.synced_followers) = (Some(5), Some(3));
    assert!(!judged(&look).2.contains("one more"));
}

/// Scenario: two of three are down, and the third has no leader or serves only reads; a leader
/// lacks synced followers. Guarantee: the quorum is lost.
#[test]
fn without_a_majority_the_quorum_is_lost() {
    let mut look = healthy_look();
    look.servers = vec![
        silent("zk-1", ProbeError::NotServing),
        silent("zk-2", refused()),
        silent("zk-3", refused()),
    ];
    let words = ["the ensemble has no leader", "zk-1:2181", "zk-2:2181: connection refused"];
    assert_judged(&look, CoordinationState::Lost, CoordinationReason::QuorumLost, &words);
    look.servers[0] = server("zk-1", ServerRole::ReadOnly);
    assert_judged(
        &look,
        CoordinationState::Lost,
        CoordinationReason::QuorumLost,
        &["zk-1:2181: it is read-only"],
    );
    let mut look = healthy_look();
    look.servers[1].report.as_mut().unwrap().synced_followers = Some(0);
    assert_judged(
        &look,
        CoordinationState::Lost,
        CoordinationReason::QuorumLost,
        &["1 of 3 votes", "2 are required"],
    );
    look.servers[1].report.as_mut().unwrap().synced_followers = Some(1);
    assert_judged(
        &look,
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        &["1 of its 2 followers"],
    );
}

/// Scenario: three voting servers and two observers, all named; an observer ends; an unnamed voting
/// server is down. Guarantee: observers don't count for the majority, and the leader's count shows
/// the missing server.
#[test]
fn observers_dont_vote_and_the_leader_counts() {
    let mut look = healthy_look();
    look.servers
        .extend([server("ob-1", ServerRole::Observer), server("ob-2", ServerRole::Observer)]);
    assert_judged(&look, CoordinationState::Healthy, CoordinationReason::Works, &["5 of 5"]);
    look.servers[4] = silent("ob-2", refused());
    assert_judged(
        &look,
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        &["4 of 5", "ob-2:2181"],
    );
    assert!(!judged(&look).2.contains("one more"));
    let mut look = healthy_look();
    look.servers.truncate(2);
    look.servers[1].report.as_mut().unwrap().synced_followers = Some(1);
    assert_judged(
        &look,
        CoordinationState::Degraded,
        CoordinationReason::ServerDown,
        &["1 of its 2 followers are synced"],
    );
}

/// Scenario: no server can be queried, and ClickHouse has sessions, then none. Guarantee: the first
/// is unknown and no outage; the second is an outage.
#[test]
fn silence_alone_is_no_outage() {
    let mut look = healthy_look();
    look.servers = vec![silent("zk-1", refused()), silent("zk-2", ProbeError::Foreign)];
    assert_judged(
        &look,
        CoordinationState::Unseen,
        CoordinationReason::Unreachable,
        &["with live sessions: 2"],
    );
    let lost = || Err(ViewError::SessionLost("KEEPER_EXCEPTION".into()));
    look.engines = vec![engine("a", lost()), engine("b", lost())];
    assert_judged(
        &look,
        CoordinationState::Lost,
        CoordinationReason::SessionLost,
        &["http://a:8123: it has no session"],
    );
}

/// Scenario: sessions expired at one of two ClickHouse servers of a shard; at both; at the only
/// server of one of two shards. Guarantee: degraded, lost, lost.
#[test]
fn expired_sessions_are_judged_by_shard() {
    let expired = |name: &str| {
        engine(
            name,
            Ok(CoordinationView { sessions: vec![session(true)], ..CoordinationView::default() }),
        )
    };
    let mut look = healthy_look();
    look.engines[0] = expired("a");
    let words = ["its session with zk-1:2181 has expired", "http://a:8123"];
    assert_judged(&look, CoordinationState::Degraded, CoordinationReason::SessionLost, &words);
    look.shards = 2;
    assert_judged(&look, CoordinationState::Lost, CoordinationReason::SessionLost, &words);
    look.shards = 1;
    look.engines[1] = expired("b");
    assert_judged(&look, CoordinationState::Lost, CoordinationReason::SessionLost, &words);
}

/// Scenario: a read-only replica at one of two servers, at both; a server that has none of the
/// tables yet. Guarantee: degraded, lost, with table, server and cause.
#[test]
fn read_only_replicas_are_named() {
    let refusing = |name: &str| {
        let replica = Replica {
            table: "otel_logs".into(),
            is_readonly: true,
            exception: "Session expired".into(),
            ..Replica::default()
        };
        let sight = CoordinationView {
            sessions: vec![session(false)],
            replicas: vec![replica],
            ..CoordinationView::default()
        };
        engine(name, Ok(sight))
    };
    let mut look = healthy_look();
    look.engines[1] = refusing("b");
    let words = ["otel_logs at http://b:8123: Session expired"];
    assert_judged(&look, CoordinationState::Degraded, CoordinationReason::ReplicaReadOnly, &words);
    let empty = CoordinationView { sessions: vec![session(false)], ..CoordinationView::default() };
    look.engines[0] = engine("a", Ok(empty));
    assert_judged(&look, CoordinationState::Lost, CoordinationReason::ReplicaReadOnly, &words);
    look.engines[0] = refusing("a");
    assert_judged(
        &look,
        CoordinationState::Lost,
        CoordinationReason::ReplicaReadOnly,
        &["otel_logs at http://a:8123"],
    );
}

/// Scenario: a server's disk fills up: its bytes pass the limit; then it is full, and the server
/// ends, as ZooKeeper's do. Guarantee: the first is reported with server and figure, the second as
/// a server that is down.
#[test]
fn a_disk_that_fills_up_is_told_before_it_is_full() {
    let limits =
        DegradationLimits { disk_bytes: Some(1_000_000_000), ..DegradationLimits::default() };
    let mut look = healthy_look();
    look.servers[0].report.as_mut().unwrap().disk_bytes = Some(1_234_567_890);
    let verdict = assess_coordination(&look, &limits, 0);
    assert_eq!(
        (verdict.state, verdict.reason),
        (CoordinationState::Degraded, CoordinationReason::OverLimit)
    );
    let words = "zk-1:2181 has 1200000000 bytes on its disk, above the limit of 1000000000";
    assert_eq!(verdict.message, words);
    look.servers[0] = silent("zk-1", refused());
    let verdict = assess_coordination(&look, &limits, 0);
    assert_eq!(
        (verdict.state, verdict.reason),
        (CoordinationState::Degraded, CoordinationReason::ServerDown)
    );
}

/// Scenario: figures above each limit; sessions that break. Guarantee: degraded, never lost.
#[test]
fn figures_above_their_limits_are_degraded() {
    let with = |change: fn(&mut ServerReport)| {
        let mut look = healthy_look();
        change(look.servers[0].report.as_mut().unwrap());
        let limits = DegradationLimits {
            latency_milliseconds: Some(50),
            znodes: Some(10_000),
            data_bytes: Some(1_000_000),
            ..DegradationLimits::default()
        };
        let CoordinationVerdict { state, reason, message } = assess_coordination(&look, &limits, 0);
        assert_eq!(
            (state, reason),
            (CoordinationState::Degraded, CoordinationReason::OverLimit),
            "{message}"
        );
        message
    };
    assert!(with(|it| it.outstanding_requests = Some(1_001)).contains("1000 outstanding requests"));
    assert!(with(|it| it.latency_milliseconds = Some(51.5)).contains("51 ms"));
    assert!(with(|it| it.znodes = Some(10_001)).contains("nodes"));
    assert!(with(|it| it.data_bytes = Some(1_000_001)).contains("bytes of data"));
    let verdict = assess_coordination(&healthy_look(), &DegradationLimits::default(), 5);
    assert_eq!(
        (verdict.state, verdict.reason),
        (CoordinationState::Degraded, CoordinationReason::Unsteady)
    );
    assert_eq!(
        assess_coordination(&healthy_look(), &DegradationLimits::default(), 4).state,
        CoordinationState::Healthy
    );
}

/// Scenario: ClickHouse without Keeper; a user without the right; unreachable servers. Guarantee:
/// the first is lost, the second gives the GRANT and is no outage, the third is unknown.
#[test]
fn blindness_is_told_from_an_outage() {
    let alone =
        |said| Observation { servers: Vec::new(), engines: vec![engine("a", said)], shards: 1 };
    let missing = alone(Err(ViewError::NoKeeper));
    assert_judged(
        &missing,
        CoordinationState::Lost,
        CoordinationReason::KeeperMissing,
        &["http://a:8123"],
    );
    let grant = "GRANT SELECT ON system.zookeeper_connection TO `millrace`";
    let blind = alone(Err(ViewError::NotAllowed { grant: grant.into() }));
    assert_judged(&blind, CoordinationState::Unseen, CoordinationReason::NotAllowed, &[grant]);
    let away = alone(Err(ViewError::Unreachable("no answer".into())));
    assert_judged(
        &away,
        CoordinationState::Unseen,
        CoordinationReason::Unreachable,
        &["no answer"],
    );
    let mut seen = healthy_look();
    seen.engines = blind.engines;
    assert_judged(
        &seen,
        CoordinationState::Healthy,
        CoordinationReason::Works,
        &["for more detail", grant],
    );
    let mut alone = healthy_look();
    alone.servers.clear();
    assert_judged(
        &alone,
        CoordinationState::Healthy,
        CoordinationReason::Works,
        &["lists no server"],
    );
}

/// Scenario: counters of a server that restarted. Guarantee: no session counts as broken, and
/// requests are counted from the restart.
#[test]
fn counters_that_begin_again_are_no_difference() {
    use crate::observation::Counters;
    let before = Counters { requests: 100, rows: 1_000_000, broken: 7, ..Counters::default() };
    let after = Counters { requests: 150, rows: 3_000_000, broken: 9, ..before };
    let since = after.delta_since(before);
    assert_eq!((since.broken, since.requests_per_million_rows()), (2, Some(25)));
    let again = Counters { requests: 10, rows: 0, broken: 1, ..Counters::default() };
    assert_eq!(again.delta_since(after), again);
    assert_eq!(again.requests_per_million_rows(), None);
}

fn any_server() -> impl Strategy<Value = Result<ServerReport, ProbeError>> {
    let role = prop_oneof![
        Just(ServerRole::Leader),
        Just(ServerRole::Follower),
        Just(ServerRole::Observer),
        Just(ServerRole::Standalone),
        Just(ServerRole::ReadOnly),
    ];
    let figures = proptest::option::of(0_u64..2_000);
    let report =
        (role, figures.clone(), figures).prop_map(|(role, synced, outstanding)| ServerReport {
            role,
            synced_followers: synced,
            outstanding_requests: outstanding,
            ..ServerReport::default()
        });
    let silence = prop_oneof![
        Just(ProbeError::NotServing),
        Just(ProbeError::NotAllowed("mntr")),
        Just(ProbeError::Foreign),
        Just(refused()),
    ];
    prop_oneof![report.prop_map(Ok), silence.prop_map(Err)]
}

fn any_engine() -> impl Strategy<Value = Result<CoordinationView, ViewError>> {
    let sight =
        (any::<bool>(), any::<bool>()).prop_map(|(is_expired, is_readonly)| CoordinationView {
            sessions: vec![session(is_expired)],
            replicas: vec![Replica { table: "t".into(), is_readonly, ..Replica::default() }],
            ..CoordinationView::default()
        });
    let blind = prop_oneof![
        Just(ViewError::NoKeeper),
        Just(ViewError::SessionLost("x".into())),
        Just(ViewError::NotAllowed { grant: "GRANT".into() }),
        Just(ViewError::Unreachable("x".into())),
    ];
    prop_oneof![sight.prop_map(Ok), blind.prop_map(Err)]
}

proptest! {
    /// Scenario: any observation. Guarantee: it is judged; lost only if a server reports an outage;
    /// healthy only if a server reports that it works; and the message fits.
    #[test]
    fn lost_needs_a_witness_and_so_does_healthy(
        servers in prop::collection::vec(any_server(), 0..6),
        engines in prop::collection::vec(any_engine(), 0..5),
        shards in 0_usize..4,
        broken in 0_u64..20,
    ) {
        let named = |(at, said)| KeeperServer { address: format!("zk-{at}:2181"), report: said };
        let seen = Observation {
            servers: servers.into_iter().enumerate().map(named).collect(),
            engines: engines.into_iter().map(|said| engine("e", said)).collect(),
            shards,
        };
        let CoordinationVerdict { state, message, .. } = assess_coordination(&seen, &DegradationLimits::default(), broken);
        let server_says = seen.servers.iter().any(|it| matches!(
            it.report, Ok(_) | Err(ProbeError::NotServing)
        ));
        let engine_says = seen.engines.iter().any(is_state_known);
        prop_assert!(state != CoordinationState::Lost || server_says || engine_says, "{message}");
        let works = serving_servers(&seen).next().is_some()
            || seen.engines.iter().any(|it| has_session(it) == Some(true));
        let nobody = seen.servers.is_empty() && seen.engines.is_empty();
        prop_assert!(state != CoordinationState::Healthy || works || nobody, "{message}");
        prop_assert!(message.len() < 1_024, "{message}");
    }
}
