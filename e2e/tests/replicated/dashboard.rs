//! The dashboard of tables (`charts/millrace/dashboards/tables.json`), asked of a real engine, with
//! plain tables and with replicated ones. Grafana itself isn't there: its macros and variables are
//! written out as its plugin's source does.
//!
//! What the engine here can't have, and so is not seen with a figure: a second replica (nothing
//! fetches, so no delay and no queue), and merges that still run when they are asked for.

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use millrace_ddl::{Declared, Signals, TableOptions, Ttl};
use millrace_e2e::{binaries, wait};
use millrace_stack::clickhouse::Engine;
use millrace_stack::zookeeper::Size;
use serde_json::Value;

use crate::replicated::tables::{make, writable};
use crate::replicated::{engine, ensemble, replicated};
use crate::tables::ddl::client::client;

/// Each insert's rows, a second apart; and how many inserts a table gets.
const ROWS: u64 = 1_000;
const INSERTS: u64 = 3;
/// What the chosen time is cut into.
const INTERVAL_SECONDS: u64 = 60;
/// The log of parts is written twice a second.
const LIMIT: Duration = Duration::from_secs(60);
const TABLES: [&str; 8] = [
    "otel_logs",
    "otel_metrics_exponential_histogram",
    "otel_metrics_gauge",
    "otel_metrics_histogram",
    "otel_metrics_sum",
    "otel_metrics_summary",
    "otel_traces",
    "otel_traces_trace_id_ts",
];

/// A panel's title, whether it is of rows, and its query for a database, with an hour chosen.
fn panels(page: &Value, database: &str) -> Vec<(String, bool, String)> {
    let panel = |panel: &Value| {
        let target = &panel["targets"][0];
        assert_eq!(target["datasource"]["type"], "grafana-clickhouse-datasource");
        let title = panel["title"].as_str().unwrap().to_owned();
        let sql = written_out(target["rawSql"].as_str().unwrap(), database);
        (title, target["format"] == 1, sql)
    };
    page["panels"].as_array().unwrap().iter().map(panel).collect()
}

fn written_out(sql: &str, database: &str) -> String {
    let mut sql = sql
        .replace("${database:singlequote}", &format!("'{database}'"))
        .replace("$__interval_s", &INTERVAL_SECONDS.to_string());
    let between =
        |column: &str, from: &str, to: &str| format!("{column} >= {from} AND {column} <= {to}");
    while let Some((head, rest)) = sql.split_once("$__") {
        let (name, rest) = rest.split_once('(').unwrap();
        let (column, rest) = rest.split_once(')').unwrap();
        let text = match name {
            "timeInterval" => {
                format!(
                    "toStartOfInterval(toDateTime({column}), INTERVAL {INTERVAL_SECONDS} second)"
                )
            }
            "timeFilter" => between(column, "now() - 3600", "now()"),
            "dateFilter" => between(column, "toDate(now() - 3600)", "toDate(now())"),
            other => panic!("the plugin has no {other}"),
        };
        sql = format!("{head}{text}{rest}");
    }
    assert!(!sql.contains('$'), "{sql}");
    sql
}

fn rows(engine: &Engine, sql: &str) -> Vec<Value> {
    let sql = format!("{sql}\nFORMAT JSON SETTINGS output_format_json_quote_64bit_integers = 0");
    let answer: Value = serde_json::from_str(&engine.query(&sql).unwrap()).unwrap();
    answer["data"].as_array().unwrap().clone()
}

/// The tables with rows of today, then with the troubles that panels are for: rows of logs past their
/// time, a part that was detached, a mutation that fails.
fn fill(engine: &Engine, database: &str) {
    let run = |sql: &str| engine.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    // As merges make them of what is more than some 10 MB: only such parts tell their columns' sizes.
    run(&format!("ALTER TABLE {database}.otel_logs MODIFY SETTING min_bytes_for_wide_part = 0"));
    for table in TABLES {
        let time = if table.contains("metrics") { "TimeUnix" } else { "Timestamp" };
        if table.ends_with("_ts") {
            continue; // its view fills it
        }
        let id = if table == "otel_traces" { "TraceId" } else { "ServiceName" };
        for insert in 0..INSERTS {
            run(&format!(
                // Of one day, so that an insert is one part after midnight too.
                "INSERT INTO {database}.{table} ({time}, {id}) SELECT \
                 greatest(now64(9) - number, toDateTime64(today(), 9)), 'id-{insert}' \
                 FROM numbers({ROWS})"
            ));
        }
        run(&format!("OPTIMIZE TABLE {database}.{table} FINAL"));
    }
    run(&format!("SYSTEM STOP TTL MERGES {database}.otel_logs"));
    run(&format!(
        "INSERT INTO {database}.otel_logs (Timestamp) SELECT now64(9) - INTERVAL 40 DAY \
         FROM numbers({ROWS})"
    ));
    run(&format!(
        "INSERT INTO {database}.otel_traces (Timestamp) SELECT now64(9) - INTERVAL 5 DAY \
         FROM numbers({ROWS})"
    ));
    let old = run(&format!(
        "SELECT DISTINCT partition FROM system.parts WHERE active AND database = '{database}' AND \
         table = 'otel_traces' AND partition < toString(today() - 3)"
    ));
    run(&format!("ALTER TABLE {database}.otel_traces DETACH PARTITION '{}'", old.trim()));
    run(&format!(
        "ALTER TABLE {database}.otel_metrics_gauge UPDATE Value = throwIf(Value < 1, 'never') WHERE 1 \
         SETTINGS mutations_sync = 0"
    ));
}

/// A panel's row of a table.
fn of_table<'r>(rows: &'r [Value], table: &str) -> &'r Value {
    rows.iter().find(|row| row["Table"] == table).unwrap_or_else(|| panic!("{table}: {rows:?}"))
}

/// The dashboard's panels for one database of an engine.
struct Dashboard<'e> {
    engine: &'e Engine,
    database: &'e str,
    panels: Vec<(String, bool, String)>,
}

impl Dashboard<'_> {
    fn ask(&self, title: &str) -> Vec<Value> {
        let (_, _, sql) = self.panels.iter().find(|(it, _, _)| it == title).unwrap();
        rows(self.engine, sql)
    }

    fn figure(&self, title: &str, table: &str, column: &str) -> f64 {
        let rows = self.ask(title);
        let row = of_table(&rows, table);
        row[column].as_f64().unwrap_or_else(|| panic!("{title} {table} {column}: {row}"))
    }

    /// Waits until no panel is empty, each that lists tables has all of them, and the mutation has
    /// failed.
    fn filled(&self) {
        let database = self.database;
        wait::until("parts in their log, and a mutation that failed", LIMIT, || {
            self.engine.query("SYSTEM FLUSH LOGS")?;
            for (title, is_rows, sql) in &self.panels {
                let rows = rows(self.engine, sql);
                ensure!(!rows.is_empty(), "{database}: {title} is empty: {sql}");
                if *is_rows && rows[0].get("Table").is_some() && title != "Columns" {
                    for table in TABLES {
                        ensure!(rows.iter().any(|it| it["Table"] == table), "{title}: {table}");
                    }
                }
            }
            let mutations = self.ask("Mutations");
            let mutation = of_table(&mutations, "otel_metrics_gauge");
            ensure!(mutation["Last failure"].as_str().unwrap().contains("never"), "{mutation}");
            Ok(())
        })
        .unwrap();
    }

    fn tells_what_is_there(&self) {
        let sent = (ROWS * INSERTS) as f64;
        assert_eq!(self.figure("Tables", "otel_metrics_sum", "Rows"), sent);
        assert_eq!(self.figure("Tables", "otel_logs", "Rows"), sent + ROWS as f64);
        let age = self.figure("Freshness", "otel_metrics_sum", "Age");
        assert!((0.0..600.0).contains(&age), "{age}");
        assert_eq!(self.figure("Parts of a partition", "otel_metrics_sum", "Refused at"), 3_000.0);
        let remembered = self.figure("Deduplication", "otel_metrics_sum", "Inserts remembered");
        assert_eq!(remembered, 10_000.0);
        let most = self.figure("Deduplication", "otel_metrics_sum", "Inserts a minute, at most");
        assert!((1.0..=INSERTS as f64).contains(&most), "{most}");
        let columns = self.ask("Columns");
        let largest = &columns[0];
        assert_eq!(largest["Table"], "otel_logs", "{largest}");
        assert!(largest["On disk"].as_f64() > Some(0.0), "{largest}");
        let written = self.ask("Written");
        for by in ["inserts", "merges"] {
            assert!(written.iter().any(|it| it["by"] == by), "{by}: {written:?}");
        }
    }

    fn tells_the_troubles(&self) {
        assert_eq!(self.figure("Retention", "otel_logs", "Rows due"), ROWS as f64);
        assert!(self.figure("Retention", "otel_logs", "Overdue by") > 9.0 * 86_400.0);
        assert_eq!(self.figure("Retention", "otel_metrics_sum", "Rows due"), 0.0);
        assert_eq!(self.figure("Detached parts", "otel_traces", "Detached parts"), 1.0);
        assert_eq!(self.figure("Detached parts", "otel_logs", "Detached parts"), 0.0);
        let mutations = self.figure("Mutations", "otel_metrics_gauge", "Unfinished mutations");
        assert_eq!(mutations, 1.0);
    }
}

/// Scenario: every query of the dashboard, of plain tables and of replicated ones, with rows and with
/// a part of each trouble. Guarantee: no panel is empty; each that lists tables has all eight; the
/// troubles are seen with their figures, in the table that has them. Slow: a ZooKeeper and an
/// engine start, and 17 queries are put to each of two databases until none is empty.
#[test]
fn no_panel_of_tables_is_empty() {
    let ensemble = ensemble(Size::One);
    let engine = engine(&ensemble);
    let path = binaries::root().join("charts/millrace/dashboards/tables.json");
    let page: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    // The one replica that there can be here.
    for (database, replica) in [("plain", ("not replicated", 0)), ("replicated", ("replica-1", 1))]
    {
        let ttl = Some("30d".parse::<Ttl>().unwrap());
        let mut options = TableOptions { ttl, ..TableOptions::default() };
        if database == "replicated" {
            options.engine = replicated();
        }
        let name = |text: &str| text.parse().unwrap();
        let wanted = Declared::uniform(name(database), name("otel"), Signals::ALL, &options);
        make(&client(&engine), &wanted);
        if database == "replicated" {
            writable(&engine);
        }
        fill(&engine, database);
        let dashboard = Dashboard { engine: &engine, database, panels: panels(&page, database) };
        assert_eq!(dashboard.panels.len(), 17);
        dashboard.filled();
        dashboard.tells_what_is_there();
        dashboard.tells_the_troubles();
        let replicas = dashboard.ask("Replicas");
        let told = of_table(&replicas, "otel_logs");
        assert_eq!(
            (&told["Replica"], &told["Of"]),
            (&replica.0.into(), &replica.1.into()),
            "{told}"
        );
    }
}
