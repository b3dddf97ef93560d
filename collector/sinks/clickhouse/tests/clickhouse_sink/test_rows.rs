//! Queries for the rows of test records: shards, replicas, and a server's answers.

use millrace_config::{ClickHouseExporter, Credentials, HttpEndpoint, SecretFile};
use millrace_ddl::TestRun;
use millrace_sink_clickhouse::{TestRowCounts, TestRows, TestRowsError};
use millrace_wire::Signal;

use super::fake_server::FakeServer;

fn look(
    servers: &[&FakeServer],
    shards: u16,
    signal: Signal,
) -> Result<TestRowCounts, TestRowsError> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, name).unwrap();
        SecretFile::new(path).unwrap()
    };
    let exporter = ClickHouseExporter {
        endpoints: servers.iter().map(|server| HttpEndpoint::new(server.url()).unwrap()).collect(),
        shards,
        credentials: Some(Credentials {
            username_file: Some(file("gateway")),
            password_file: Some(file("password")),
            ..Credentials::default()
        }),
        ..ClickHouseExporter::default()
    };
    let rows = TestRows::new(&exporter, signal).unwrap();
    let run = TestRun { id: "00000000000000a1".parse().unwrap(), since_seconds: 1_790_000_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rows.find_rows(&run, 3))
}

fn row(id: &str, copies: u32) -> String {
    format!("{{\"id\":\"{id}\",\"copies\":{copies}}}\n")
}

/// Scenario: two shards of two replicas; a replica without memory, and a record that both shards
/// have. Guarantee: each shard is queried once, by a replica that answers; a record on two shards
/// is a repeated one.
#[test]
fn every_shard_is_asked_and_a_record_on_two_is_repeated() {
    let servers = [(); 4].map(|()| FakeServer::start([]));
    servers[0].tell([Err(241)]);
    servers[1].tell([Ok(row("0000000000000001", 1) + &row("0000000000000002", 1))]);
    servers[2].tell([Ok(row("0000000000000002", 1))]);
    servers[3].tell([Ok(row("0000000000000003", 1))]);
    let servers: Vec<&FakeServer> = servers.iter().collect();
    let seen = look(&servers, 2, Signal::Traces).unwrap();
    let expected = TestRowCounts {
        stored: 2,
        repeated: 1,
        missing_first: vec![3],
        ..TestRowCounts::default()
    };
    assert_eq!(seen, expected);
}

/// Scenario: a user without SELECT; a table that doesn't exist; a busy server; an answer that isn't
/// rows. Guarantee: the first names the statement that grants the right, and only the last two may
/// pass.
#[test]
fn a_missing_right_is_told_with_its_grant() {
    let server = FakeServer::start([]);
    server.tell([Err(497), Err(60), Err(202), Ok("no rows".to_owned())]);
    let asked = || look(&[&server], 1, Signal::Metrics).unwrap_err();
    let denied = asked();
    assert!(
        denied.to_string().ends_with(
            "user \"gateway\" may not read otel.otel_metrics_gauge; have an administrator run: \
             GRANT SELECT ON `otel`.`otel_metrics_gauge` TO `gateway`"
        ),
        "{denied}"
    );
    assert_eq!([denied.may_pass(), asked().may_pass()], [false, false]);
    assert_eq!([asked().may_pass(), asked().may_pass()], [true, true]);
}
