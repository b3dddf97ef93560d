//! Tests of what `judge.rs` keeps to itself.

use proptest::prelude::*;

use super::*;
use crate::observation::{Replica, Session};

fn server(name: &str, role: Role) -> Server {
    let leads = role == Role::Leader;
    let report = Report {
        role,
        followers: leads.then_some(2),
        synced_followers: leads.then_some(2),
        voters: leads.then_some(3),
        outstanding_requests: Some(0),
        latency_milliseconds: Some(0.4),
        znodes: Some(1_000),
        data_bytes: Some(400_000),
        ..Report::default()
    };
    Server { address: format!("{name}:2181"), said: Ok(report) }
}

fn silent(name: &str, why: Silence) -> Server {
    Server { address: format!("{name}:2181"), said: Err(why) }
}

fn refused() -> Silence {
    Silence::Unreachable("connection refused".to_owned())
}

fn session(is_expired: bool) -> Session {
    Session { name: "default".into(), server: "zk-1:2181".into(), is_expired, age_seconds: 60 }
}

fn engine(name: &str, said: Result<Sight, Blindness>) -> Engine {
    Engine { endpoint: format!("http://{name}:8123"), said }
}

fn sees(name: &str) -> Engine {
    let replica = Replica { table: "otel_logs".into(), total: 2, active: 2, ..Replica::default() };
    let sight =
        Sight { sessions: vec![session(false)], replicas: vec![replica], ..Sight::default() };
    engine(name, Ok(sight))
}

fn healthy_look() -> Observation {
    Observation {
        servers: vec![
            server("zk-1", Role::Follower),
            server("zk-2", Role::Leader),
            server("zk-3", Role::Follower),
        ],
        engines: vec![sees("a"), sees("b")],
        shards: 1,
    }
}

fn judged(seen: &Observation) -> (State, Reason, String) {
    let Verdict { state, reason, message } = judge(seen, &Limits::default(), 0);
    (state, reason, message)
}

#[track_caller]
fn assert_judged(seen: &Observation, state: State, reason: Reason, words: &[&str]) {
    let (found, why, message) = judged(seen);
    assert_eq!((found, why), (state, reason), "{message}");
    for word in words {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
}

/// Scenario: three servers with a leader, two ClickHouse servers with sessions. Guarantee: healthy;
/// the message names the leader and has no figure that moves.
#[test]
fn an_ensemble_of_three_that_serves_is_healthy() {
    let look = healthy_look();
    assert_judged(&look, State::Healthy, Reason::Works, &["3 of 3", "zk-2:2181 leads", "2 of 2"]);
    let figures = figures(&look);
    assert_eq!((figures.serving, figures.leader.as_deref()), (3, Some("zk-2:2181")));
    assert_eq!((figures.synced_followers, figures.sessions), (Some(2), 2));
    let mut later = look;
    later.servers[0].said.as_mut().unwrap().outstanding_requests = Some(12);
    later.servers[1].said.as_mut().unwrap().znodes = Some(2_000);
    assert_eq!(judged(&later).2, judged(&healthy_look()).2);
}

/// Scenario: one of three is down; of five. Guarantee: degraded, by its name and cause; only of
/// three is the next loss said to stop inserts.
#[test]
fn one_of_three_down_is_degraded() {
    let mut look = healthy_look();
    look.servers[2] = silent("zk-3", refused());
    let words = ["2 of 3", "zk-3:2181: connection refused", "one more"];
    assert_judged(&look, State::Degraded, Reason::ServerDown, &words);
    look.servers.extend([server("zk-4", Role::Follower), server("zk-5", Role::Follower)]);
    let leader = look.servers[1].said.as_mut().unwrap();
    (leader.voters, leader.synced_followers) = (Some(5), Some(3));
    assert!(!judged(&look).2.contains("one more"));
}

/// Scenario: two of three down, and the third has no leader, or serves reads alone; a leader
/// without enough synced followers. Guarantee: the quorum is lost.
#[test]
fn without_a_majority_the_quorum_is_lost() {
    let mut look = healthy_look();
    look.servers = vec![
        silent("zk-1", Silence::NotServing),
        silent("zk-2", refused()),
        silent("zk-3", refused()),
    ];
    let words = ["no server of the ensemble leads", "zk-1:2181", "zk-2:2181: connection refused"];
    assert_judged(&look, State::Lost, Reason::QuorumLost, &words);
    look.servers[0] = server("zk-1", Role::ReadOnly);
    assert_judged(&look, State::Lost, Reason::QuorumLost, &["zk-1:2181: it is read-only"]);
    let mut look = healthy_look();
    look.servers[1].said.as_mut().unwrap().synced_followers = Some(0);
    assert_judged(&look, State::Lost, Reason::QuorumLost, &["1 of 3 votes", "2 are needed"]);
    look.servers[1].said.as_mut().unwrap().synced_followers = Some(1);
    assert_judged(&look, State::Degraded, Reason::ServerDown, &["of its 2 followers 1"]);
}

/// Scenario: three servers that vote and two observers, all named; an observer ends; a server that
/// votes isn't named and is down. Guarantee: observers have no part in the majority, and the one that
/// is missing is noticed by the leader's count.
#[test]
fn observers_dont_vote_and_the_leader_counts() {
    let mut look = healthy_look();
    look.servers.extend([server("ob-1", Role::Observer), server("ob-2", Role::Observer)]);
    assert_judged(&look, State::Healthy, Reason::Works, &["5 of 5"]);
    look.servers[4] = silent("ob-2", refused());
    assert_judged(&look, State::Degraded, Reason::ServerDown, &["4 of 5", "ob-2:2181"]);
    assert!(!judged(&look).2.contains("one more"));
    let mut look = healthy_look();
    look.servers.truncate(2);
    look.servers[1].said.as_mut().unwrap().synced_followers = Some(1);
    assert_judged(&look, State::Degraded, Reason::ServerDown, &["of its 2 followers 1 are synced"]);
}

/// Scenario: no server can be asked: ClickHouse has sessions; it has none. Guarantee: the first is
/// not known, and no outage; the second is one.
#[test]
fn silence_alone_is_no_outage() {
    let mut look = healthy_look();
    look.servers = vec![silent("zk-1", refused()), silent("zk-2", Silence::Foreign)];
    assert_judged(&look, State::Unseen, Reason::Unreachable, &["2 ClickHouse servers have live"]);
    let lost = || Err(Blindness::SessionLost("KEEPER_EXCEPTION".into()));
    look.engines = vec![engine("a", lost()), engine("b", lost())];
    assert_judged(&look, State::Lost, Reason::SessionLost, &["http://a:8123: it has no session"]);
}

/// Scenario: expired sessions at one of two ClickHouse servers of a shard; at both; at the only one
/// of one of two shards. Guarantee: degraded, lost, lost.
#[test]
fn expired_sessions_are_judged_by_shard() {
    let expired =
        |name: &str| engine(name, Ok(Sight { sessions: vec![session(true)], ..Sight::default() }));
    let mut look = healthy_look();
    look.engines[0] = expired("a");
    let words = ["its session with zk-1:2181 has expired", "http://a:8123"];
    assert_judged(&look, State::Degraded, Reason::SessionLost, &words);
    look.shards = 2;
    assert_judged(&look, State::Lost, Reason::SessionLost, &words);
    look.shards = 1;
    look.engines[1] = expired("b");
    assert_judged(&look, State::Lost, Reason::SessionLost, &words);
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
        let sight =
            Sight { sessions: vec![session(false)], replicas: vec![replica], ..Sight::default() };
        engine(name, Ok(sight))
    };
    let mut look = healthy_look();
    look.engines[1] = refusing("b");
    let words = ["otel_logs at http://b:8123: Session expired"];
    assert_judged(&look, State::Degraded, Reason::ReplicaReadOnly, &words);
    let empty = Sight { sessions: vec![session(false)], ..Sight::default() };
    look.engines[0] = engine("a", Ok(empty));
    assert_judged(&look, State::Lost, Reason::ReplicaReadOnly, &words);
    look.engines[0] = refusing("a");
    assert_judged(&look, State::Lost, Reason::ReplicaReadOnly, &["otel_logs at http://a:8123"]);
}

/// Scenario: the disk of a server fills up: its bytes pass the limit; then it is full, and the
/// server ends, as ZooKeeper's do. Guarantee: said before, with server and figure, and then as a
/// server that is down.
#[test]
fn a_disk_that_fills_up_is_told_before_it_is_full() {
    let limits = Limits { disk_bytes: Some(1_000_000_000), ..Limits::default() };
    let mut look = healthy_look();
    look.servers[0].said.as_mut().unwrap().disk_bytes = Some(1_234_567_890);
    let verdict = judge(&look, &limits, 0);
    assert_eq!((verdict.state, verdict.reason), (State::Degraded, Reason::OverLimit));
    let words = "zk-1:2181 has 1200000000 bytes on its disk, above 1000000000";
    assert_eq!(verdict.message, words);
    look.servers[0] = silent("zk-1", refused());
    let verdict = judge(&look, &limits, 0);
    assert_eq!((verdict.state, verdict.reason), (State::Degraded, Reason::ServerDown));
}

/// Scenario: figures above each limit; sessions that break. Guarantee: degraded, never lost.
#[test]
fn figures_above_their_limits_are_degraded() {
    let with = |change: fn(&mut Report)| {
        let mut look = healthy_look();
        change(look.servers[0].said.as_mut().unwrap());
        let limits = Limits {
            latency_milliseconds: Some(50),
            znodes: Some(10_000),
            data_bytes: Some(1_000_000),
            ..Limits::default()
        };
        let Verdict { state, reason, message } = judge(&look, &limits, 0);
        assert_eq!((state, reason), (State::Degraded, Reason::OverLimit), "{message}");
        message
    };
    assert!(with(|it| it.outstanding_requests = Some(1_001)).contains("1000 requests that wait"));
    assert!(with(|it| it.latency_milliseconds = Some(51.5)).contains("51 ms"));
    assert!(with(|it| it.znodes = Some(10_001)).contains("nodes"));
    assert!(with(|it| it.data_bytes = Some(1_000_001)).contains("bytes of data"));
    let verdict = judge(&healthy_look(), &Limits::default(), 5);
    assert_eq!((verdict.state, verdict.reason), (State::Degraded, Reason::Unsteady));
    assert_eq!(judge(&healthy_look(), &Limits::default(), 4).state, State::Healthy);
}

/// Scenario: ClickHouse without Keeper; a user without the right; servers away. Guarantee: the
/// first is lost, the second says the GRANT and is no outage, the third isn't known.
#[test]
fn blindness_is_told_from_an_outage() {
    let alone =
        |said| Observation { servers: Vec::new(), engines: vec![engine("a", said)], shards: 1 };
    let missing = alone(Err(Blindness::NoKeeper));
    assert_judged(&missing, State::Lost, Reason::KeeperMissing, &["http://a:8123"]);
    let grant = "GRANT SELECT ON system.zookeeper_connection TO `millrace`";
    let blind = alone(Err(Blindness::NotAllowed { grant: grant.into() }));
    assert_judged(&blind, State::Unseen, Reason::NotAllowed, &[grant]);
    let away = alone(Err(Blindness::Unreachable("no answer".into())));
    assert_judged(&away, State::Unseen, Reason::Unreachable, &["no answer"]);
    let mut seen = healthy_look();
    seen.engines = blind.engines;
    assert_judged(&seen, State::Healthy, Reason::Works, &["to see more", grant]);
    let mut alone = healthy_look();
    alone.servers.clear();
    assert_judged(&alone, State::Healthy, Reason::Works, &["names no server"]);
}

/// Scenario: counters of a server that started again. Guarantee: nothing is taken for broken, and
/// requests are counted from its start.
#[test]
fn counters_that_begin_again_are_no_difference() {
    use crate::observation::Counters;
    let before = Counters { requests: 100, rows: 1_000_000, broken: 7, ..Counters::default() };
    let after = Counters { requests: 150, rows: 3_000_000, broken: 9, ..before };
    let since = after.since(before);
    assert_eq!((since.broken, since.requests_per_million_rows()), (2, Some(25)));
    let again = Counters { requests: 10, rows: 0, broken: 1, ..Counters::default() };
    assert_eq!(again.since(after), again);
    assert_eq!(again.requests_per_million_rows(), None);
}

fn any_server() -> impl Strategy<Value = Result<Report, Silence>> {
    let role = prop_oneof![
        Just(Role::Leader),
        Just(Role::Follower),
        Just(Role::Observer),
        Just(Role::Standalone),
        Just(Role::ReadOnly),
    ];
    let figures = proptest::option::of(0_u64..2_000);
    let report = (role, figures.clone(), figures).prop_map(|(role, synced, outstanding)| Report {
        role,
        synced_followers: synced,
        outstanding_requests: outstanding,
        ..Report::default()
    });
    let silence = prop_oneof![
        Just(Silence::NotServing),
        Just(Silence::NotAllowed("mntr")),
        Just(Silence::Foreign),
        Just(refused()),
    ];
    prop_oneof![report.prop_map(Ok), silence.prop_map(Err)]
}

fn any_engine() -> impl Strategy<Value = Result<Sight, Blindness>> {
    let sight = (any::<bool>(), any::<bool>()).prop_map(|(is_expired, is_readonly)| Sight {
        sessions: vec![session(is_expired)],
        replicas: vec![Replica { table: "t".into(), is_readonly, ..Replica::default() }],
        ..Sight::default()
    });
    let blind = prop_oneof![
        Just(Blindness::NoKeeper),
        Just(Blindness::SessionLost("x".into())),
        Just(Blindness::NotAllowed { grant: "GRANT".into() }),
        Just(Blindness::Unreachable("x".into())),
    ];
    prop_oneof![sight.prop_map(Ok), blind.prop_map(Err)]
}

proptest! {
    /// Scenario: any look. Guarantee: it is judged; lost only if somebody who answered says that
    /// something stands still; healthy only if somebody says that it works; and its message fits.
    #[test]
    fn lost_needs_a_witness_and_so_does_healthy(
        servers in prop::collection::vec(any_server(), 0..6),
        engines in prop::collection::vec(any_engine(), 0..5),
        shards in 0_usize..4,
        broken in 0_u64..20,
    ) {
        let named = |(at, said)| Server { address: format!("zk-{at}:2181"), said };
        let seen = Observation {
            servers: servers.into_iter().enumerate().map(named).collect(),
            engines: engines.into_iter().map(|said| engine("e", said)).collect(),
            shards,
        };
        let Verdict { state, message, .. } = judge(&seen, &Limits::default(), broken);
        let server_says = seen.servers.iter().any(|it| matches!(
            it.said, Ok(_) | Err(Silence::NotServing)
        ));
        let engine_says = seen.engines.iter().any(known);
        prop_assert!(state != State::Lost || server_says || engine_says, "{message}");
        let works = serving(&seen).next().is_some()
            || seen.engines.iter().any(|it| has_session(it) == Some(true));
        let nobody = seen.servers.is_empty() && seen.engines.is_empty();
        prop_assert!(state != State::Healthy || works || nobody, "{message}");
        prop_assert!(message.len() < 1_024, "{message}");
    }
}
