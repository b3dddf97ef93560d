//! What `docs/migrating.md` tells to run, on tables as other writers make them: its commands take
//! tables over, its statements copy rows.

use std::process::Command;

use crate::tables::columns::tables::Tables;
use crate::tables::ddl::foreign::Writer;
use millrace_ddl::{AttributeStorage, Layout, TableOrigin};
use millrace_e2e::binaries;
use millrace_stack::clickhouse::{Engine, EngineOptions};

const PAGE: &str = include_str!("../../../docs/migrating.md");

/// The blocks of one language that follow a heading.
fn blocks(heading: &str, language: &str) -> Vec<&'static str> {
    let section = PAGE.split_once(&format!("\n{heading}\n")).unwrap().1;
    // Up to the next heading of this level or above.
    let level = heading.split(' ').next().unwrap();
    let ends = [format!("\n{level} "), "\n## ".to_owned()];
    let end = ends.iter().filter_map(|end| section.find(end.as_str())).min();
    let section = &section[..end.unwrap_or(section.len())];
    let fence = format!("```{language}\n");
    let blocks = section.split(&fence).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().trim()).collect()
}

/// Runs the page's commands against `engine`; what each printed.
fn run(engine: &Engine, attributes: AttributeStorage) -> Vec<String> {
    let commands = blocks("## Adopt existing tables", "console");
    let ran = commands.iter().flat_map(|block| block.lines()).map(|line| {
        let line = line.replace("http://clickhouse:8123", &engine.url());
        let mut words = line.split_whitespace();
        let mut command = Command::new(binaries::path(words.next().unwrap()).unwrap());
        command.args(words).args(["--user", engine.user()]);
        if attributes == AttributeStorage::Json {
            command.arg("--enable-json");
        }
        let output = command.env("CLICKHOUSE_PASSWORD", engine.password()).output().unwrap();
        let said = [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap());
        assert_eq!(output.status.code(), Some(0), "{line}\n{}", said.join("\n"));
        said.join("\n")
    });
    ran.collect()
}

/// Scenario: tables of the Collector's exporter and of Rotel with a retention of thirty days; the
/// page's commands. Guarantee: the plan has metadata alone, the rows are there afterwards, and the
/// tables verify. Slow: three engines start, one for each writer.
#[test]
fn the_pages_commands_take_tables_over() {
    for (whose, attributes) in [
        (TableOrigin::Collector, AttributeStorage::Map),
        (TableOrigin::Collector, AttributeStorage::Json),
        (TableOrigin::Rotel, AttributeStorage::Map),
    ] {
        let engine = Engine::start(EngineOptions::default()).unwrap();
        for statement in Writer::new(whose, attributes).statements() {
            engine
                .query(&statement.replace(" db.", " otel.").replace("DATABASE db", "DATABASE otel"))
                .unwrap();
        }
        for (table, time) in retained(&engine) {
            let sql =
                format!("ALTER TABLE otel.{table} MODIFY TTL toDateTime({time}) + INTERVAL 30 DAY");
            engine.query(&sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        }
        engine
            .query(
                "INSERT INTO otel.otel_logs (Timestamp, Body) \
                 SELECT now64(9), 'old' FROM numbers(7)",
            )
            .unwrap();
        let said = run(&engine, attributes);
        for class in ["mutation", "rewrite", "destructive"] {
            assert!(!said[0].contains(class), "{whose} {attributes:?}: {}", said[0]);
        }
        assert!(said[0].contains("metadata only"), "{}", said[0]);
        let rows = engine.query("SELECT count() FROM otel.otel_logs WHERE Body = 'old'").unwrap();
        assert_eq!(rows.trim(), "7", "{whose} {attributes:?}");
    }
}

/// The tables, each with the column by which its rows go after a time.
fn retained(engine: &Engine) -> Vec<(String, &'static str)> {
    let tables = engine
        .query("SELECT name FROM system.tables WHERE database = 'otel' AND engine = 'MergeTree'")
        .unwrap();
    let with_time = tables.lines().map(|table| {
        let time = match table {
            "otel_traces_trace_id_ts" => "Start",
            "otel_traces" | "otel_logs" => "Timestamp",
            _ => "TimeUnix",
        };
        (table.to_owned(), time)
    });
    with_time.collect()
}

/// A table as guides make it for Vector's `kubernetes_logs`.
const VECTOR: &str = "CREATE TABLE vector.logs (file String, timestamp DateTime64(3), \
     kubernetes_container_name LowCardinality(String), kubernetes_pod_labels \
     Map(LowCardinality(String), String), kubernetes_pod_name LowCardinality(String), \
     kubernetes_pod_namespace LowCardinality(String), kubernetes_pod_node_name \
     LowCardinality(String), kubernetes_pod_uid LowCardinality(String), message String, stream \
     Enum8('stdout' = 1, 'stderr' = 2)) ENGINE = MergeTree ORDER BY (kubernetes_container_name, \
     timestamp)";

/// The table of klogs.
const KLOGS: &str = "CREATE TABLE logs.logs (timestamp DateTime64(3), cluster \
     LowCardinality(String), namespace LowCardinality(String), app LowCardinality(String), \
     pod_name LowCardinality(String), container_name LowCardinality(String), host \
     LowCardinality(String), fields_string Map(LowCardinality(String), String), fields_number \
     Map(LowCardinality(String), Float64), log String) ENGINE = MergeTree ORDER BY (cluster, \
     namespace, app, pod_name, container_name, host, timestamp)";

fn other_tables(engine: &Engine) {
    for database in ["vector", "logs"] {
        engine.query(&format!("CREATE DATABASE {database}")).unwrap();
    }
    engine.query(VECTOR).unwrap();
    engine.query(KLOGS).unwrap();
    // A hundred records of the day that is copied, ten of the next one.
    let when = "toDateTime64('2026-11-01 12:00:00', 3) + if(number < 100, number, 86400)";
    let vector = format!(
        "INSERT INTO vector.logs SELECT '/var/log', {when}, 'main', \
         if(number % 2 = 0, map('app.kubernetes.io/name', 'shop'), map()), 'shop-1', 'prod', \
         'node-1', 'uid-1', concat('line ', toString(number)), 'stderr' FROM numbers(110)"
    );
    let klogs = format!(
        "INSERT INTO logs.logs SELECT {when}, 'east', 'prod', 'cart', 'cart-1', 'main', \
         'node-1', map('level', 'info'), map('took_ms', 12.5), concat('line ', toString(number)) \
         FROM numbers(110)"
    );
    engine.query(&vector).unwrap();
    engine.query(&klogs).unwrap();
}

/// The page's rule for JSON attributes: each map is cast.
fn for_json(sql: &str) -> String {
    let mut out = String::new();
    let mut rest = sql;
    while let Some(at) = rest.find("map") {
        // The whole call, its inner ones with it.
        let (head, call) = rest.split_at(at);
        let open = call.find('(').unwrap();
        let mut depth = 0;
        let length = call
            .char_indices()
            .find(|(_, letter)| {
                depth += i32::from(*letter == '(') - i32::from(*letter == ')');
                depth == 0 && *letter == ')'
            })
            .map(|(at, _)| at + 1)
            .unwrap();
        assert!(open < length);
        out.push_str(head);
        out.push_str(&call[..length]);
        out.push_str("::JSON");
        rest = &call[length..];
    }
    out.push_str(rest);
    out.replace("LogAttributes['log.source']", "LogAttributes.`log.source`")
}

/// Scenario: tables of Vector and of klogs with two days' records; the page's statements, with Map
/// and with JSON attributes. Guarantee: the day is copied, whole, with its names; its copies can be
/// removed and nothing else. Slow: two engines start, one for each variant.
#[test]
fn the_pages_statements_copy_a_day() {
    for attributes in [AttributeStorage::Map, AttributeStorage::Json] {
        let tables = Tables::laid_out(attributes, Layout::default());
        other_tables(&tables.engine);
        tables.query(
            "INSERT INTO otel.otel_logs (Timestamp, Body) VALUES ('2026-11-01 01:00:00', 'ours')",
        );
        let written = |sql: &str| match attributes {
            AttributeStorage::Map => sql.to_owned(),
            AttributeStorage::Json => for_json(sql),
        };
        let one = |heading| {
            let found = blocks(heading, "sql");
            written(found.first().unwrap())
        };
        let (vector, fluent_bit) = (one("### Vector"), one("### Fluent Bit"));
        let (remove, count) = (one("## Copy rows"), written(blocks("### Fluent Bit", "sql")[1]));
        for (copy, services) in [(vector, "main\t50\nshop\t50"), (fluent_bit, "cart\t100")] {
            tables.query(&copy);
            assert_eq!(tables.query(&count), "100", "{attributes:?}");
            let by_service = tables.query(
                "SELECT ServiceName, count() FROM otel.otel_logs WHERE Body LIKE 'line %' AND \
                 Timestamp >= '2026-11-01 12:00:00' GROUP BY ServiceName ORDER BY ServiceName",
            );
            assert_eq!(by_service, services, "{attributes:?}");
            let pods = match attributes {
                AttributeStorage::Map => "ResourceAttributes['k8s.namespace.name']",
                AttributeStorage::Json => "ResourceAttributes.`k8s.namespace.name`::String",
            };
            let prod = format!("SELECT count() FROM otel.otel_logs WHERE {pods} = 'prod'");
            assert_eq!(tables.query(&prod), "100", "{attributes:?}");
            tables.query(&format!("{remove} SETTINGS mutations_sync = 1"));
            assert_eq!(tables.query("SELECT count() FROM otel.otel_logs"), "1", "{attributes:?}");
        }
    }
}
