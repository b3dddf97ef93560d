//! Deduplication tokens where ZooKeeper keeps them, and the codes of inserts that it fails.

use anyhow::bail;
use millrace_coordination::is_code;
use millrace_ddl::AttributeStorage;
use millrace_e2e::wait;
use millrace_stack::clickhouse::Engine;
use millrace_stack::http::Answer;
use millrace_stack::zookeeper::Size;

use crate::replicated::tables::{make, writable};
use crate::replicated::{LIMIT, bring_back, declared, engine, ensemble, lose_quorum};
use crate::tables::ddl::client::client;

/// Rows of an insert.
const ROWS: u64 = 1_000;

/// Inserts the rows of a token into spans, so that their view's table gets rows too. The engine
/// asks ZooKeeper again for 300 ms.
fn insert(engine: &Engine, token: u64) -> Answer {
    let settings = "async_insert=0&wait_end_of_query=1&insert_deduplicate=1\
                    &deduplicate_blocks_in_dependent_materialized_views=1\
                    &insert_keeper_max_retries=2";
    let path = format!("/?{settings}&insert_deduplication_token=token-{token}");
    let sql = format!(
        "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, SpanName) \
         SELECT toDateTime64('2026-11-01 00:00:00', 9), toString({token} * {ROWS} + number), \
         'span', 'name' FROM numbers({ROWS})"
    );
    engine.request(&path, &[], sql.as_bytes()).unwrap()
}

/// Rows, and how many of them are different; of spans, then of the view's table.
fn stored(engine: &Engine) -> [u64; 3] {
    let rows = |sql: &str| engine.query(sql).unwrap().trim().parse::<u64>().unwrap();
    [
        rows("SELECT count() FROM otel.otel_traces"),
        rows("SELECT uniqExact(TraceId) FROM otel.otel_traces"),
        rows(
            "SELECT sum(rows) FROM system.parts WHERE active AND table = 'otel_traces_trace_id_ts'",
        ),
    ]
}

fn taken(answer: &Answer) {
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Scenario: an insert sent twice; again after the leader was killed and another leads; an insert
/// without a quorum, repeated when it is back; then both once more, after the engine was started
/// again. Guarantee: spans and the rows of their view are stored once; the refused insert's code is
/// coordination's, and it left nothing behind. Slow: three ZooKeepers and an engine start, the
/// engine twice, and ZooKeepers elect and come back twice.
#[test]
fn a_token_is_remembered_through_elections_and_a_lost_quorum() {
    let mut ensemble = ensemble(Size::Three);
    let mut engine = engine(&ensemble);
    make(&client(&engine), &declared("otel", AttributeStorage::Json));
    writable(&engine);
    taken(&insert(&engine, 1));
    taken(&insert(&engine, 1));
    assert_eq!(stored(&engine), [ROWS; 3]);

    let leader = ensemble.leader().unwrap();
    ensemble.servers_mut()[leader].kill9();
    wait::until("the token to be recognised", LIMIT, || {
        let answer = insert(&engine, 1);
        match answer.status {
            200 => Ok(()),
            _ => bail!("{}", answer.text()),
        }
    })
    .unwrap();
    assert_eq!(stored(&engine), [ROWS; 3]);
    bring_back(&mut ensemble, &[leader]);

    let struck = lose_quorum(&mut ensemble);
    let refused = insert(&engine, 2);
    let code = refused.header("x-clickhouse-exception-code").map(|it| it.parse().unwrap());
    println!("without a quorum: {}", refused.text());
    assert!(code.is_some_and(is_code), "{}", refused.text());
    assert_eq!(stored(&engine), [ROWS; 3]);
    bring_back(&mut ensemble, &struck);
    writable(&engine);
    taken(&insert(&engine, 2));
    taken(&insert(&engine, 2));
    assert_eq!(stored(&engine), [2 * ROWS; 3]);

    engine.restart().unwrap();
    writable(&engine);
    for token in [1, 2] {
        taken(&insert(&engine, token));
    }
    assert_eq!(stored(&engine), [2 * ROWS; 3]);
}
