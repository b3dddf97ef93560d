//! What readers ask: the same questions of every way of storing, and how long the answers take.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use millrace_stack::clickhouse::Engine;

use super::way::{Conditions, Way};
use super::{DATABASE, number};
use crate::dataset::Dataset;

/// How often each is asked; the first time doesn't count.
const TIMES: usize = 6;
/// An attribute that every record's resource has, and one that only rich ones have.
const KEY: &str = "host.name";
const RARE_KEY: &str = "load.sampled";
/// A record's own attribute.
const fn own(dataset: Dataset) -> (&'static str, &'static str) {
    match dataset {
        Dataset::Lean => ("SpanAttributes", "load.n"),
        Dataset::Rich => ("SpanAttributes", "http.route"),
        Dataset::Logs => ("LogAttributes", "code.function.name"),
        Dataset::Metrics => ("Attributes", "http.route"),
    }
}
/// The column of it.
pub(super) const fn own_column(dataset: Dataset) -> &'static str {
    own(dataset).0
}

/// A word of some bodies, and one of none.
const WORD: &str = "replica";
const ABSENT_WORD: &str = "zyzzogeton";

/// The tables that a kind of records fills.
pub(super) fn tables(dataset: Dataset) -> &'static [&'static str] {
    match dataset {
        Dataset::Lean | Dataset::Rich => &["otel_traces"],
        Dataset::Logs => &["otel_logs"],
        Dataset::Metrics => &[
            "otel_metrics_gauge",
            "otel_metrics_sum",
            "otel_metrics_histogram",
            "otel_metrics_exponential_histogram",
            "otel_metrics_summary",
        ],
    }
}

/// How many rows they have.
pub(super) fn rows(engine: &Engine, dataset: Dataset) -> Result<u64> {
    let count = |table: &&str| number(engine, &format!("SELECT count() FROM {DATABASE}.{table}"));
    tables(dataset).iter().map(count).sum()
}

/// Milliseconds that each question takes.
pub(super) fn times(engine: &Engine, dataset: Dataset, way: &Way) -> Result<Vec<(String, f64)>> {
    let questions = questions(engine, dataset, way)?;
    let time = |(name, sql): (&'static str, String)| {
        // With the cache a repeated question reads only the granules that matched before.
        let sql = format!("{sql} SETTINGS max_threads = 1, use_query_condition_cache = 0");
        let mut taken = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let began = Instant::now();
            let answer = engine.query(&sql).with_context(|| sql.clone())?;
            taken.push(began.elapsed().as_secs_f64() * 1e3);
            ensure!(!answer.trim().is_empty(), "no answer to: {sql}");
        }
        let mut taken = taken.split_off(1);
        taken.sort_by(f64::total_cmp);
        Ok((name.to_owned(), (taken[taken.len() / 2] * 10.0).round() / 10.0))
    };
    questions.into_iter().map(time).collect()
}

/// A value that is there: each way stores the same records.
fn some(engine: &Engine, expression: &str, table: &str) -> Result<String> {
    let sql = format!("SELECT max({expression}) FROM {DATABASE}.{table}");
    let text = engine.query(&sql).with_context(|| sql.clone())?;
    let value = text.trim_end_matches('\n').to_owned();
    ensure!(!value.is_empty(), "no value for: {sql}");
    Ok(value)
}

fn questions(engine: &Engine, dataset: Dataset, way: &Way) -> Result<Vec<(&'static str, String)>> {
    let table = tables(dataset)[0];
    let from = format!("FROM {DATABASE}.{table}");
    let is_json = way.attributes == "JSON";
    let attribute = |column: &str, key: &str| match is_json {
        true => format!("{column}.`{key}`::String"),
        false => format!("{column}['{key}']"),
    };
    let value_of = |key| attribute("ResourceAttributes", key);
    let has = match is_json {
        true => format!("isNotNull(ResourceAttributes.`{RARE_KEY}`)"),
        false => format!("mapContains(ResourceAttributes, '{RARE_KEY}')"),
    };
    let is_value = |items: &str, key: &str, (spelled, value): (&str, &str)| match way.conditions {
        Conditions::Values => format!("{spelled} = '{value}'"),
        Conditions::Items => format!("has({items}, '{key}={value}')"),
    };
    let host = some(engine, &value_of(KEY), table)?;
    let service = some(engine, "ServiceName", table)?;
    let has_host = is_value("ResourceItems", KEY, (&value_of(KEY), &host));
    let value = format!("SELECT count() {from} WHERE {has_host}");
    let presence = format!("SELECT count() {from} WHERE {has}");
    let top = format!(
        "SELECT {} AS v, count() AS c {from} GROUP BY v ORDER BY c DESC, v LIMIT 10",
        value_of(KEY)
    );
    let (column, key) = own(dataset);
    let own = attribute(column, key);
    let own_value = some(engine, &own, table)?;
    let has_own = is_value("OwnItems", key, (&own, &own_value));
    let of_own = format!("SELECT count() {from} WHERE {has_own}");
    let by_own =
        format!("SELECT {own} AS v, count() AS c {from} GROUP BY v ORDER BY c DESC, v LIMIT 10");
    let mut asked = vec![
        ("an attribute's value", value),
        ("a record's own attribute", of_own),
        ("presence", presence),
        ("top values", top),
        ("top values of the record's own", by_own),
    ];
    match dataset {
        Dataset::Lean | Dataset::Rich => {
            asked.extend(of_traces(engine, table, &service)?);
            asked.extend(of_spans(engine, table, &service)?);
        }
        Dataset::Logs => {
            asked.extend(of_traces(engine, table, &service)?);
            for (name, word) in [("a word", WORD), ("an absent word", ABSENT_WORD)] {
                asked.push((name, format!("SELECT count() {from} WHERE hasToken(Body, '{word}')")));
            }
        }
        Dataset::Metrics => {
            let metric = some(engine, "MetricName", table)?;
            let series = format!(
                "SELECT toStartOfMinute(TimeUnix) AS m, avg(Value) {from} WHERE \
                 ServiceName = '{service}' AND MetricName = '{metric}' GROUP BY m ORDER BY m"
            );
            let all = format!(
                "SELECT MetricName, count() {from} GROUP BY MetricName ORDER BY MetricName"
            );
            asked.extend([("a series", series), ("all names", all)]);
        }
    }
    Ok(asked)
}

/// Of spans and of log records alike.
fn of_traces(engine: &Engine, table: &str, service: &str) -> Result<Vec<(&'static str, String)>> {
    let from = format!("FROM {DATABASE}.{table}");
    let trace = some(engine, "TraceId", table)?;
    let by_id = format!("SELECT count() {from} WHERE TraceId = '{trace}'");
    let hour = format!(
        "SELECT count(), max(Timestamp) {from} WHERE ServiceName = '{service}' AND \
         Timestamp >= (SELECT max(Timestamp) {from}) - INTERVAL 1 HOUR"
    );
    let latest = format!("SELECT * {from} ORDER BY Timestamp DESC LIMIT 100");
    Ok(vec![("a trace", by_id), ("a service's hour", hour), ("latest 100", latest)])
}

/// A trace is found by its look-up, and minutes are read from their roll-up, where there is one.
fn of_spans(engine: &Engine, table: &str, service: &str) -> Result<Vec<(&'static str, String)>> {
    let from = format!("FROM {DATABASE}.{table}");
    let has = |suffix: &str| -> Result<bool> {
        let found = number(engine, &format!("EXISTS TABLE {DATABASE}.{table}{suffix}"))?;
        Ok(found == 1)
    };
    let slowest = format!(
        "SELECT toStartOfMinute(Timestamp) AS m, max(Duration), argMax(TraceId, Duration) \
         {from} WHERE ServiceName = '{service}' GROUP BY m ORDER BY m"
    );
    let trace = some(engine, "TraceId", table)?;
    let looked_up = match has("_trace_id_ts")? {
        true => format!(
            "WITH (SELECT (min(Start), max(End) + 1) {from}_trace_id_ts WHERE \
             TraceId = '{trace}') AS around SELECT count() {from} WHERE TraceId = '{trace}' AND \
             Timestamp BETWEEN around.1 AND around.2"
        ),
        false => format!("SELECT count() {from} WHERE TraceId = '{trace}'"),
    };
    let minutes = match has("_minutes")? {
        true => format!(
            "SELECT Minute AS m, ServiceName, sum(Spans), sumIf(Spans, StatusCode = 'Error'), \
             quantilesDDMerge(0.02, 0.5, 0.9, 0.99)(Quantiles) {from}_minutes \
             GROUP BY m, ServiceName ORDER BY m, ServiceName"
        ),
        false => format!(
            "SELECT toStartOfMinute(Timestamp) AS m, ServiceName, count(), \
             countIf(StatusCode = 'Error'), quantileTDigest(0.99)(Duration) {from} \
             GROUP BY m, ServiceName ORDER BY m, ServiceName"
        ),
    };
    Ok(vec![
        ("slowest by minute", slowest),
        ("a trace, looked up", looked_up),
        ("all services' p99 by minute", minutes),
    ])
}
