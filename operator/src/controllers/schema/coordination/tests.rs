//! Tests the private parts of `controllers/schema/coordination.rs`.

use millrace_coordination::observation::{
    ClickHouseServer as Asked, CoordinationView, KeeperServer, KeeperSession, ProbeError,
    ServerReport, ServerRole, ViewError,
};

use super::*;
use crate::controllers::schema::validate::test_support::parse_schema;

fn sees(counters: Counters) -> Asked {
    let session = KeeperSession {
        name: "default".into(),
        server: "zk-0:2181".into(),
        is_expired: false,
        age_seconds: 9,
    };
    let sight = CoordinationView {
        sessions: vec![session],
        counters: Some(counters),
        ..CoordinationView::default()
    };
    Asked { endpoint: "http://a:8123".into(), view: Ok(sight) }
}

fn leader(outstanding: u64) -> KeeperServer {
    let report = ServerReport {
        role: ServerRole::Leader,
        synced_followers: Some(2),
        outstanding_requests: Some(outstanding),
        latency_milliseconds: Some(0.25),
        ..ServerReport::default()
    };
    KeeperServer { address: "zk-0:2181".into(), report: Ok(report) }
}

fn look(
    servers: Vec<KeeperServer>,
    engines: Vec<Asked>,
    before: &Counted,
) -> (CoordinationCheck, Counted) {
    let seen = Observation { servers, engines, shards: 1 };
    let counted: Counted = seen
        .engines
        .iter()
        .filter_map(|it| Some((it.endpoint.clone(), it.view.as_ref().ok()?.counters?)))
        .collect();
    (build_check(&seen, &DegradationLimits::default(), before, &counted), counted)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Scenario: figures change between observations a minute apart; then the leader changes.
/// Guarantee: the status is rewritten after ten minutes, and at once for the leader.
#[test]
fn figures_alone_rewrite_no_status_for_ten_minutes() {
    let counters = Counters { requests: 10, rows: 1_000_000, ..Counters::default() };
    let before = Counted::new();
    let (first, _) = look(vec![leader(0)], vec![sees(counters)], &before);
    let mut told = update_summary(None, &first, at(0));
    assert_eq!((told.servers.as_deref(), told.sessions.as_deref()), (Some("1/1"), Some("1/1")));
    assert_eq!((told.latency_microseconds, told.requests_per_million_rows), (Some(250), Some(10)));
    for minute in 1..10 {
        let (next, _) = look(vec![leader(7)], vec![sees(counters)], &before);
        let now = update_summary(Some(&told), &next, at(60 * minute));
        assert_eq!(now, told);
        told = now;
    }
    let (next, _) = look(vec![leader(7)], vec![sees(counters)], &before);
    assert_eq!(update_summary(Some(&told), &next, at(600)).outstanding_requests, Some(7));
    let other = KeeperServer { address: "zk-1:2181".into(), ..leader(9) };
    let (next, _) = look(vec![other], vec![sees(counters)], &before);
    assert_eq!(update_summary(Some(&told), &next, at(61)).leader.as_deref(), Some("zk-1:2181"));
}

/// Scenario: one of two ClickHouse servers inserts into a table, the other fetches and merges.
/// Guarantee: the status has the requests of both for the rows of one, and a table without inserts
/// has only requests.
#[test]
fn each_tables_requests_are_those_of_all_servers() {
    let asked = |table: &str, parts, rows, requests| {
        let mut engine = sees(Counters::default());
        let load = TableLoad { table: table.into(), parts, rows, requests };
        if let Ok(sight) = &mut engine.view {
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
    let [logs, traces] = &update_summary(None, &looked, at(0)).tables[..] else { panic!() };
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

/// Scenario: this process first observes a ClickHouse server with many broken sessions in its past;
/// then more break. Guarantee: only sessions that break between two observations count.
#[test]
fn what_broke_before_the_first_look_is_no_news() {
    let counters = |broken| Counters { requests: 100, broken, rows: 5, ..Counters::default() };
    let (first, counted) = look(vec![leader(0)], vec![sees(counters(50))], &Counted::new());
    assert_eq!(first.verdict.state, CoordinationState::Healthy);
    let (second, _) = look(vec![leader(0)], vec![sees(counters(60))], &counted);
    assert_eq!(health_reason(&second.verdict), Reason::CoordinationUnstable);
}

/// Scenario: the status has each state. Guarantee: only states that stop inserts, about the newest
/// spec, hold statements and rollouts; an unknown state holds nothing.
#[test]
fn only_a_known_loss_holds_anything() {
    let counters = Counters::default();
    let lost = Asked {
        endpoint: "http://a:8123".into(),
        view: Err(ViewError::SessionLost("code 999".into())),
    };
    let blind = Asked {
        endpoint: "http://a:8123".into(),
        view: Err(ViewError::NotAllowed { grant: "GRANT".into() }),
    };
    let silent = |why| KeeperServer { address: "zk-0:2181".into(), report: Err(why) };
    let away = silent(ProbeError::Unreachable("refused".into()));
    for (servers, engines, status, reason_wanted, holds_wanted) in [
        (vec![leader(0)], vec![sees(counters)], "True", "CoordinationHealthy", false),
        (vec![leader(0), away.clone()], vec![], "False", "CoordinationServerDown", false),
        (vec![silent(ProbeError::NotServing)], vec![], "False", "CoordinationQuorumLost", true),
        (vec![], vec![lost.clone()], "False", "ClickHouseKeeperLost", true),
        (vec![], vec![lost, sees(counters)], "False", "CoordinationSessionsLost", false),
        (vec![away], vec![], "Unknown", "CoordinationUnreachable", false),
        (vec![], vec![blind], "Unknown", "ClickHouseNotAuthorized", false),
    ] {
        let (looked, _) = look(servers, engines, &Counted::new());
        let mut conditions = Conditions::new(&[], Some(3), at(0));
        let (held, reason) = (condition_status(&looked.verdict), health_reason(&looked.verdict));
        let message = looked.verdict.message.as_str();
        conditions.state_condition(ConditionType::CoordinationHealthy, held, reason, message);
        let text = "clickhouse: {endpoints: ['http://a:8123']}, signals: {traces: {}}";
        let mut object = parse_schema(text);
        object.metadata.generation = Some(3);
        object.status = Some(TelemetrySchemaStatus {
            conditions: conditions.into_conditions(),
            ..TelemetrySchemaStatus::default()
        });
        assert_eq!((format!("{held:?}").as_str(), reason.as_str()), (status, reason_wanted));
        assert_eq!(hold_reason(Some(&looked)).is_some(), holds_wanted, "{message}");
        assert_eq!(stop_reason(&object).is_some(), holds_wanted, "{message}");
        object.metadata.generation = Some(4);
        assert_eq!(stop_reason(&object), None, "a status of an older spec");
    }
    assert!(hold_reason(None).is_none());
}

/// Scenario: tables with and without replication, and a cluster. Guarantee: the replicated tables
/// and the cluster need coordination.
#[test]
fn coordination_is_needed_by_replicated_tables_and_clusters() {
    let needs = |text: &str| is_needed(&parse_schema(text));
    assert!(!needs("clickhouse: {endpoints: ['http://a:8123']}, signals: {traces: {}}"));
    let cluster = "clickhouse: {endpoints: ['http://a:8123'], cluster: all}, signals: {traces: {}}";
    assert!(needs(cluster));
    assert!(needs(
        "clickhouse: {endpoints: ['http://a:8123']}, \
         signals: {traces: {engine: ReplicatedMergeTree}}"
    ));
}
