//! Live tables that change under a running gateway, all parts real: a column that is dropped and
//! made again, one whose type is changed, a table that remembers no inserts.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{DEAD_LETTERS, Lab};
use millrace_e2e::loadgen::Load;
use millrace_e2e::{http, topics, wait};

const SPANS: u64 = 200_000;
const RATE: u64 = 20_000;
/// For a load of some hundred thousand spans on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
const MISSING: &str = "millrace_table_columns_missing";
const TRACES: &str = "table=\"otel.otel_traces\"";

fn rows(lab: &Lab) -> Result<u64> {
    Ok(lab.engine.query("SELECT count() FROM otel.otel_traces")?.trim().parse()?)
}

/// What the gateway says of itself beside being ready.
fn readiness(gateway: &Collector) -> Result<String> {
    Ok(http::get(gateway.ports.admin, "/readyz")?.text())
}

/// Waits until the gateway says that the traces table lacks so many columns.
fn missing(gateway: &Collector, columns: f64) {
    wait::until("the gateway to see the table", LIMIT, || {
        let now = gateway.metric(MISSING, TRACES)?;
        ensure!((now - columns).abs() < 0.5, "{now} columns are missing");
        Ok(())
    })
    .unwrap();
}

/// Scenario: a column of attributes is dropped in the middle of a load, and made again later.
/// Guarantee: every span is stored once all the same, the gateway stays ready and says which column
/// is left out; once it is back, spans are whole again, without a restart. Slow: a load of ten
/// seconds passes, and the gateway checks a table that lacks a column every ten seconds.
#[test]
fn a_column_dropped_under_load_stops_nothing_and_is_used_again_once_it_is_back() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 31, SPANS) };
    let state = std::thread::scope(|scope| {
        let sending = scope.spawn(|| load.send(lab.folder(), LIMIT));
        wait::until("the load to flow", LIMIT, || match rows(&lab)? {
            stored if stored < SPANS / 4 => bail!("{stored} rows"),
            _ => Ok(()),
        })
        .unwrap();
        lab.engine.query("ALTER TABLE otel.otel_traces DROP COLUMN SpanAttributes").unwrap();
        sending.join().unwrap().unwrap()
    });
    lab.committed(LIMIT).unwrap();
    assert_eq!(rows(&lab).unwrap(), SPANS);
    missing(&gateway, 1.0);
    let said = readiness(&gateway).unwrap();
    assert!(said.starts_with("ok"), "{said}");
    assert!(said.contains("otel.otel_traces: rows are stored without SpanAttributes"), "{said}");

    let again = "ALTER TABLE otel.otel_traces ADD COLUMN SpanAttributes JSON AFTER ScopeVersion";
    lab.engine.query(again).unwrap();
    missing(&gateway, 0.0);
    assert_eq!(readiness(&gateway).unwrap(), "ok");
    let first = load.check(&state, lab.folder(), LIMIT).unwrap();
    assert_eq!((first.missing, first.duplicated), (0, 0), "{}", first.line);
    assert!(first.altered > 0, "rows without the column: {}", first.line);
    let second = lab.load(&edge, 32, SPANS / 4).run(lab.folder(), LIMIT).unwrap();
    let bad = (second.missing, second.duplicated, second.altered);
    assert_eq!(bad, (0, 0, 0), "{}", second.line);
}

/// Scenario: a column's type is changed to one that our values don't fit into, and back. Guarantee:
/// meanwhile nothing is stored, nothing goes to the dead letters, and readiness names the column
/// with both types; then all of it is stored once. Slow: a broker and an engine start, and the
/// gateway tries a repaired table only after a backoff of seconds.
#[test]
fn a_changed_type_holds_the_table_and_loses_nothing() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let change = |ty: &str| {
        let change = format!("ALTER TABLE otel.otel_traces MODIFY COLUMN TraceState {ty}");
        lab.engine.query(&change).unwrap();
    };
    change("UUID");
    let load = lab.load(&edge, 33, SPANS / 10);
    let state = load.send(lab.folder(), LIMIT).unwrap();
    let reason = "column TraceState is UUID, written as String";
    wait::until("the gateway to say why", LIMIT, || {
        let said = readiness(&gateway)?;
        ensure!(said.starts_with("clickhouse: ") && said.contains(reason), "{said}");
        Ok(())
    })
    .unwrap();
    assert_eq!(rows(&lab).unwrap(), 0);
    change("String");
    lab.committed(LIMIT).unwrap();
    let verdict = load.check(&state, lab.folder(), LIMIT).unwrap();
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!((bad, verdict.stored), ((0, 0, 0), SPANS / 10), "{}", verdict.line);
    assert_eq!(topics::count(&lab.broker.bootstrap(), DEAD_LETTERS).unwrap(), 0);
}

/// Scenario: a table whose window of remembered inserts was closed. Guarantee: the gateway works,
/// and says by metric and note that delivery into that table, and no other, is at least once. Slow:
/// a broker, an engine and a gateway start.
#[test]
fn a_table_that_remembers_no_inserts_is_told() {
    let lab = Lab::start().unwrap();
    let close = "ALTER TABLE otel.otel_logs MODIFY SETTING non_replicated_deduplication_window = 0";
    lab.engine.query(close).unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let deduplicates = |table: &str| gateway.metric("millrace_table_deduplicates", table);
    wait::until("a look at the tables", LIMIT, || {
        ensure!(readiness(&gateway)?.contains("otel.otel_logs: a repeated insert"), "no note");
        Ok(())
    })
    .unwrap();
    assert_eq!(deduplicates("table=\"otel.otel_logs\"").unwrap(), 0.0);
    assert_eq!(deduplicates(TRACES).unwrap(), 1.0);
    assert!(readiness(&gateway).unwrap().starts_with("ok"));
}
