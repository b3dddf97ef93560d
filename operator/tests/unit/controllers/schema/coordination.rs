//! Tests of what `controllers/schema/coordination.rs` keeps to itself.

use millrace_coordination::observation::{
    Blindness, Engine as Asked, Report, Role, Server, Session, Sight, Silence,
};

use super::*;
use crate::controllers::schema::validate::test_support::schema;

fn sees(counters: Counters) -> Asked {
    let session = Session {
        name: "default".into(),
        server: "zk-0:2181".into(),
        is_expired: false,
        age_seconds: 9,
    };
    let sight = Sight { sessions: vec![session], counters: Some(counters), ..Sight::default() };
    Asked { endpoint: "http://a:8123".into(), said: Ok(sight) }
}

fn leader(outstanding: u64) -> Server {
    let report = Report {
        role: Role::Leader,
        synced_followers: Some(2),
        outstanding_requests: Some(outstanding),
        latency_milliseconds: Some(0.25),
        ..Report::default()
    };
    Server { address: "zk-0:2181".into(), said: Ok(report) }
}

fn look(servers: Vec<Server>, engines: Vec<Asked>, before: &Counted) -> (Looked, Counted) {
    let seen = Observation { servers, engines, shards: 1 };
    let counted: Counted = seen
        .engines
        .iter()
        .filter_map(|it| Some((it.endpoint.clone(), it.said.as_ref().ok()?.counters?)))
        .collect();
    (looked(&seen, &Limits::default(), before, &counted), counted)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Scenario: looks a minute apart whose figures move; then a look with another leader. Guarantee:
/// the status is rewritten after ten minutes, and at once for the leader.
#[test]
fn figures_alone_rewrite_no_status_for_ten_minutes() {
    let counters = Counters { requests: 10, rows: 1_000_000, ..Counters::default() };
    let before = Counted::new();
    let (first, _) = look(vec![leader(0)], vec![sees(counters)], &before);
    let mut told = summary(None, &first, at(0));
    assert_eq!((told.servers.as_deref(), told.sessions.as_deref()), (Some("1/1"), Some("1/1")));
    assert_eq!((told.latency_microseconds, told.requests_per_million_rows), (Some(250), Some(10)));
    for minute in 1..10 {
        let (next, _) = look(vec![leader(7)], vec![sees(counters)], &before);
        let now = summary(Some(&told), &next, at(60 * minute));
        assert_eq!(now, told);
        told = now;
    }
    let (next, _) = look(vec![leader(7)], vec![sees(counters)], &before);
    assert_eq!(summary(Some(&told), &next, at(600)).outstanding_requests, Some(7));
    let other = Server { address: "zk-1:2181".into(), ..leader(9) };
    let (next, _) = look(vec![other], vec![sees(counters)], &before);
    assert_eq!(summary(Some(&told), &next, at(61)).leader.as_deref(), Some("zk-1:2181"));
}

/// Scenario: two ClickHouse servers; one inserts into a table, the other fetches and merges.
/// Guarantee: the status has the requests of both for the rows of one, and a table without inserts
/// has requests alone.
#[test]
fn each_tables_requests_are_those_of_all_servers() {
    let asked = |table: &str, parts, rows, requests| {
        let mut engine = sees(Counters::default());
        let load = TableLoad { table: table.into(), parts, rows, requests };
        if let Ok(sight) = &mut engine.said {
            sight.tables.push(load);
        }
        engine
    };
    let engines = vec![
        asked("otel_logs", 10, 1_000_000, 80),
        asked("otel_logs", 0, 0, 70),
        asked("otel_traces", 0, 0, 5),
    ];
    let (looked, _) = look(vec![], engines, &Counted::new());
    let [logs, traces] = &summary(None, &looked, at(0)).tables[..] else { panic!() };
    let expected = CoordinationTable {
        table: "otel_logs".into(),
        requests_per_million_rows: Some(150),
        requests_per_part: Some(15),
        rows_per_part: Some(100_000),
        requests: 150,
    };
    assert_eq!(logs, &expected);
    assert_eq!((traces.requests_per_million_rows, traces.requests), (None, 5));
}

/// Scenario: a ClickHouse server with many broken sessions in its past, looked at first by this
/// process; then more break. Guarantee: only what breaks between two looks counts.
#[test]
fn what_broke_before_the_first_look_is_no_news() {
    let counters = |broken| Counters { requests: 100, broken, rows: 5, ..Counters::default() };
    let (first, counted) = look(vec![leader(0)], vec![sees(counters(50))], &Counted::new());
    assert_eq!(first.verdict.state, State::Healthy);
    let (second, _) = look(vec![leader(0)], vec![sees(counters(60))], &counted);
    assert_eq!(reason(&second.verdict), Reason::CoordinationUnsteady);
}

/// Scenario: each state, as the status has it. Guarantee: only what stops inserts, said of the
/// newest spec, holds statements and rollouts; what isn't seen holds nothing.
#[test]
fn only_a_known_loss_holds_anything() {
    let counters = Counters::default();
    let lost = Asked {
        endpoint: "http://a:8123".into(),
        said: Err(Blindness::SessionLost("code 999".into())),
    };
    let blind = Asked {
        endpoint: "http://a:8123".into(),
        said: Err(Blindness::NotAllowed { grant: "GRANT".into() }),
    };
    let silent = |why| Server { address: "zk-0:2181".into(), said: Err(why) };
    let away = silent(Silence::Unreachable("refused".into()));
    for (servers, engines, status, reason_wanted, holds_wanted) in [
        (vec![leader(0)], vec![sees(counters)], "True", "CoordinationWorks", false),
        (vec![leader(0), away.clone()], vec![], "False", "CoordinationServerDown", false),
        (vec![silent(Silence::NotServing)], vec![], "False", "CoordinationQuorumLost", true),
        (vec![], vec![lost.clone()], "False", "ClickHouseKeeperLost", true),
        (vec![], vec![lost, sees(counters)], "False", "CoordinationPartlyLost", false),
        (vec![away], vec![], "Unknown", "CoordinationUnreachable", false),
        (vec![], vec![blind], "Unknown", "ClickHouseNotAuthorized", false),
    ] {
        let (looked, _) = look(servers, engines, &Counted::new());
        let mut conditions = Conditions::new(&[], Some(3), at(0));
        let (held, reason) = (held(&looked.verdict), reason(&looked.verdict));
        let message = looked.verdict.message.as_str();
        conditions.state(ConditionType::CoordinationHealthy, held, reason, message);
        let text = "clickhouse: {endpoints: ['http://a:8123']}, signals: {traces: {}}";
        let mut object = schema(text);
        object.metadata.generation = Some(3);
        object.status = Some(TelemetrySchemaStatus {
            conditions: conditions.into_conditions(),
            ..TelemetrySchemaStatus::default()
        });
        assert_eq!((format!("{held:?}").as_str(), reason.as_str()), (status, reason_wanted));
        assert_eq!(holds(Some(&looked)).is_some(), holds_wanted, "{message}");
        assert_eq!(stops(&object).is_some(), holds_wanted, "{message}");
        object.metadata.generation = Some(4);
        assert_eq!(stops(&object), None, "a status of an older spec");
    }
    assert!(holds(None).is_none());
}

/// Scenario: tables with and without replication, a cluster. Guarantee: needed for the replicated
/// ones and the cluster.
#[test]
fn coordination_is_needed_by_replicated_tables_and_clusters() {
    let needs = |text: &str| is_needed(&schema(text));
    assert!(!needs("clickhouse: {endpoints: ['http://a:8123']}, signals: {traces: {}}"));
    let cluster = "clickhouse: {endpoints: ['http://a:8123'], cluster: all}, signals: {traces: {}}";
    assert!(needs(cluster));
    assert!(needs(
        "clickhouse: {endpoints: ['http://a:8123']}, \
         signals: {traces: {engine: ReplicatedMergeTree}}"
    ));
}
