//! Settings of a user's profile that lose or double inserts in the engine, and the settings of
//! every insert that prevent it (`collector/sinks/clickhouse/src/insert/plan.rs`).

use millrace_stack::clickhouse::{Engine, EngineOptions};

/// Starts an engine with a table `t` of a number and this further column or setting.
fn start_engine(column: &str, settings: &str) -> Engine {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let table = format!(
        "CREATE TABLE default.t (n UInt64{column}) ENGINE = MergeTree ORDER BY n{settings}"
    );
    engine.query(&table).unwrap();
    engine
}

/// Inserts `rows` numbers with these settings. Returns the exception's code, or the rows that the
/// answer counts.
fn insert(engine: &Engine, rows: u64, settings: &str) -> String {
    let query = "INSERT%20INTO%20default.t%20FORMAT%20RowBinary";
    let body: Vec<u8> = (0..rows).flat_map(u64::to_le_bytes).collect();
    let path = format!("/?query={query}&async_insert=0&wait_end_of_query=1{settings}");
    let answer = engine.request(&path, &[], &body).unwrap();
    if let Some(code) = answer.header("x-clickhouse-exception-code") {
        return format!("code {code}");
    }
    let summary = answer.header("x-clickhouse-summary").unwrap();
    let (_, written) = summary.split_once("\"written_rows\":\"").unwrap();
    format!("{} rows", written.split('"').next().unwrap())
}

fn count(engine: &Engine) -> String {
    engine.query("SELECT count() FROM default.t").unwrap()
}

/// Scenario: an insert takes longer than `max_execution_time`, with the overflow mode `break` as a
/// user's profile may have it, then with `throw` as gateways set it. Guarantee: with `break` the
/// engine counts all rows and stores none; with `throw` it answers 159, which is repeated.
#[test]
fn an_insert_that_takes_too_long_is_not_taken_for_stored() {
    let engine = start_engine(", slow UInt8 MATERIALIZED sleep(1)", "");
    let insert = |mode: &str| {
        insert(&engine, 300_000, &format!("&max_execution_time=0.2&timeout_overflow_mode={mode}"))
    };
    assert_eq!((insert("break"), count(&engine)), ("300000 rows".to_owned(), "0".to_owned()));
    assert_eq!((insert("throw"), count(&engine)), ("code 159".to_owned(), "0".to_owned()));
}

/// Scenario: an insert is sent twice with its token into a table that remembers ten inserts, at a
/// user whose profile limits an insert's blocks to a row, strictly; then with the setting that
/// gateways add from 26.4 on. Guarantee: with strict limits each row takes a token, so that the
/// repetition is stored again; without them the insert takes one, and the engine drops the
/// repetition, whose rows it counts.
#[test]
fn strict_block_limits_do_not_double_a_repeated_insert() {
    let engine = start_engine("", " SETTINGS non_replicated_deduplication_window = 10");
    let insert = |token: &str, strict: u8| {
        let limits = format!("&max_insert_block_size=1&use_strict_insert_block_limits={strict}");
        let blocks = "&min_insert_block_size_rows=1048449&min_insert_block_size_bytes=0";
        let token = format!("&insert_deduplicate=1&insert_deduplication_token={token}");
        insert(&engine, 100, &format!("{token}{blocks}{limits}"))
    };
    for (token, strict, stored) in
        [("a", 1, "100"), ("a", 1, "200"), ("b", 0, "300"), ("b", 0, "300")]
    {
        assert_eq!(
            (insert(token, strict), count(&engine)),
            ("100 rows".to_owned(), stored.to_owned())
        );
    }
}
