//! Tables for readers beside those that the OpenTelemetry Collector's exporter makes itself, from
//! the statements in its Go module: columns, keys, indexes, and its own inserts into ours.
//!
//! Not part of `make test-all`: the module comes from its proxy. `make conformance` runs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use millrace_ddl::{
    AttributeStorage, ClientOptions, DdlClient, Declared, Layout, MigrateOptions, Reader, Secret,
    Signals, TableOptions, UserCredentials, migrate_server,
};
use millrace_stack::clickhouse::{Engine, EngineOptions};

const MODULE: &str =
    "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter";
/// The last version whose logs have a column of whole seconds, and the newest that was compared.
const BEFORE_151: &str = "v0.149.0";
const FROM_151: &str = "v0.165.1";
/// Rows that its inserts put into each table.
const ROWS: u32 = 20;

/// The exporter's templates of statements, and our tables' names for them.
const TABLES: [(&str, &str); 7] = [
    ("traces", "otel_traces"),
    ("logs", "otel_logs"),
    ("metrics_gauge", "otel_metrics_gauge"),
    ("metrics_sum", "otel_metrics_sum"),
    ("metrics_histogram", "otel_metrics_histogram"),
    ("metrics_exp_histogram", "otel_metrics_exponential_histogram"),
    ("metrics_summary", "otel_metrics_summary"),
];

/// What is known to differ, each for a reason; everything else must be equal.
const DIFFERENCES: [(&str, &str); 4] = [
    // Ours keep nanoseconds; the exporter's points lie on whole seconds from 0.151 on.
    ("TimeUnix", "DateTime64(9) for DateTime"),
    // Inserts convert either way; a name repeats for every point.
    ("MetricName", "LowCardinality(String) for String"),
    // The order of older tables had the nanoseconds as a number: the same order.
    ("sorting key", "TimeUnix for toUnixTimestamp64Nano(TimeUnix)"),
    // Ours aren't sorted by them: that costs a third of a point's merges.
    ("attributes in a key", "MetricName, toUnixTimestamp64Nano(TimeUnix) without Attributes"),
];

/// The folder of a version's statements, from the module proxy.
fn statements(version: &str) -> Result<PathBuf> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("go.mod"), "module millrace.dev/cache/exporter\n\ngo 1.24\n")?;
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{MODULE}@{version}")])
        .env("GOWORK", "off")
        .env("GOTOOLCHAIN", "local")
        .current_dir(folder.path())
        .output()
        .context("go could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{MODULE}@{version} was not fetched: {said}");
    let said: serde_json::Value = serde_json::from_str(&said)?;
    let folder = said["Dir"].as_str().context("go names no folder")?;
    Ok(Path::new(folder).join("internal/sqltemplates"))
}

/// A template filled in for a table of the database `theirs`: by position in older versions, by
/// name in newer ones, without text indexes, as for servers before 26.2.
fn filled(template: &str, table: &str) -> String {
    let mut text = template
        .replace("{{ident .Database}}", "theirs")
        .replace("{{ident .TableName}}", table)
        .replace("{{.ClusterString}}", "")
        .replace("{{.Engine}}", "MergeTree")
        .replace("{{.TTL}}", "")
        .replace("{{.FeatureColumnNames}}", ", EventName")
        .replace("{{.FeatureColumnPositions}}", ", ?");
    if let Some((before, rest)) = text.split_once("{{- if .HasFullTextSearch}}") {
        let (_, rest) = rest.split_once("{{- else}}").unwrap();
        let (without, after) = rest.split_once("{{- end}}").unwrap();
        text = format!("{before}{without}{after}");
    }
    text = text.replace("%q", "%s");
    for value in ["theirs", table, "", "MergeTree", ""] {
        text = text.replacen("%s", value, 1);
    }
    assert!(!text.contains("{{"), "{text}");
    text
}

/// The columns that an insert names.
fn inserted(template: &str) -> Vec<String> {
    let text = filled(template, "any");
    let (_, list) = text.split_once('(').unwrap();
    let (list, _) = list.split_once(')').unwrap();
    list.split(',').map(|name| format!("`{}`", name.trim().trim_matches('`'))).collect()
}

/// A table as the engine describes it: each part by its name.
fn described(engine: &Engine, database: &str, table: &str) -> Result<BTreeMap<String, String>> {
    let of = format!("database = '{database}' AND table = '{table}'");
    let queries = [
        format!(
            "SELECT concat('column ', name), concat(type, ' ', default_kind, ' ', \
             default_expression) FROM system.columns WHERE {of}"
        ),
        format!(
            "SELECT concat('index ', name), concat(expr, ' ', type_full, ' ', \
             toString(granularity)) FROM system.data_skipping_indices WHERE {of}"
        ),
        format!(
            "SELECT arrayJoin([('partition key', partition_key), ('sorting key', sorting_key), \
             ('primary key', primary_key)]) AS key, key.1, key.2 FROM system.tables WHERE \
             database = '{database}' AND name = '{table}'"
        ),
    ];
    let mut parts = BTreeMap::new();
    for query in queries {
        for line in engine.query(&query)?.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let [.., name, what] = words.as_slice() else { continue };
            parts.insert((*name).to_owned(), (*what).to_owned());
        }
    }
    Ok(parts)
}

/// Whether a difference is one of those that are known.
fn is_known(name: &str, ours: &str, theirs: &str) -> bool {
    let is = |which: &str| DIFFERENCES.iter().any(|(name, _)| *name == which);
    let is_time = name.ends_with("TimeUnix");
    (is_time && is("TimeUnix") && ours == theirs.replace("DateTime", "DateTime64(9)"))
        || (name == "column MetricName"
            && is("MetricName")
            && ours == theirs.replace("String", "LowCardinality(String)"))
        || (name.ends_with("key")
            && is("sorting key")
            && ours == theirs.replace("toUnixTimestamp64Nano(TimeUnix)", "TimeUnix"))
        || (name.ends_with("key")
            && is("attributes in a key")
            && ours == theirs.replace("MetricName, Attributes, ", "MetricName, "))
}

/// Makes both sides' tables, compares them, and gives what differs.
fn differences(engine: &Engine, folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (template, table) in TABLES {
        let read = |what: &str| {
            let path = folder.join(format!("{template}_{what}.sql"));
            fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))
        };
        engine.query(&filled(&read("table")?, table))?;
        let (ours, theirs) =
            (described(engine, "ours", table)?, described(engine, "theirs", table)?);
        for (name, what) in &theirs {
            match ours.get(name) {
                Some(has) if has == what || is_known(name, has, what) => {}
                Some(has) => found.push(format!("{table} {name}: ours {has}, theirs {what}")),
                None => found.push(format!("{table} {name}: {what} is missing")),
            }
        }
        for (name, what) in ours.iter().filter(|(name, _)| !theirs.contains_key(*name)) {
            found.push(format!("{table} {name}: {what} is ours alone"));
        }
        insert(engine, table, &inserted(&read("insert")?))?;
    }
    Ok(found)
}

/// Puts rows into their table by their insert's columns, and by the same columns into ours: the
/// values come back equal.
fn insert(engine: &Engine, table: &str, columns: &[String]) -> Result<()> {
    let types = engine.query(&format!(
        "SELECT name, type FROM system.columns WHERE database = 'theirs' AND table = '{table}'"
    ))?;
    let types: BTreeMap<String, String> = types
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, ty)| (format!("`{name}`"), ty.to_owned()))
        .collect();
    let values: Vec<String> =
        columns.iter().map(|name| value(types.get(name).map_or("", String::as_str))).collect();
    let (names, values) = (columns.join(", "), values.join(", "));
    engine.query(&format!(
        "INSERT INTO theirs.{table} ({names}) SELECT {values} FROM (SELECT number AS n FROM \
         numbers({ROWS}))"
    ))?;
    engine
        .query(&format!("INSERT INTO ours.{table} ({names}) SELECT {names} FROM theirs.{table}"))?;
    let rows = |database: &str| -> Result<Vec<String>> {
        let text = engine.query(&format!("SELECT {names} FROM {database}.{table}"))?;
        // Ours have nanoseconds, which are nought here.
        let mut rows: Vec<String> =
            text.lines().map(|line| line.replace(".000000000", "")).collect();
        rows.sort_unstable();
        Ok(rows)
    };
    let (ours, theirs) = (rows("ours")?, rows("theirs")?);
    ensure!(ours.len() == ROWS as usize, "{} rows in {table}", ours.len());
    ensure!(ours == theirs, "{table}: {ours:?}\n{theirs:?}");
    Ok(())
}

/// A value of each type that differs by row; `n` is the row.
fn value(ty: &str) -> String {
    const MAP: &str = "Map(LowCardinality(String), String)";
    match ty {
        "String" | "LowCardinality(String)" => "concat('v', toString(n))".to_owned(),
        "DateTime64(9)" => "toDateTime64(1790000000 + n, 9)".to_owned(),
        "DateTime" => "toDateTime(1790000000 + n)".to_owned(),
        "Bool" => "(n % 2 = 1)".to_owned(),
        MAP => format!("CAST(map('k8s.pod.name', toString(n)), '{MAP}')"),
        _ => match ty.strip_prefix("Array(").and_then(|rest| rest.strip_suffix(')')) {
            Some(inner) => format!("[{}]", value(inner)),
            None => format!("CAST(n + 1, '{ty}')"),
        },
    }
}

fn compared(reader: Reader, version: &str) -> Result<()> {
    let engine = Engine::start(EngineOptions::default())?;
    let mut options = ClientOptions::new(vec![engine.url().parse()?]);
    let password = Secret::new(engine.password());
    options.credentials = UserCredentials::Password { user: engine.user().to_owned(), password };
    let client = DdlClient::new(options)?;
    let layout = Layout { reader, ..Layout::default() };
    let options =
        TableOptions { attributes: AttributeStorage::Map, layout, ..TableOptions::default() };
    let declared = Declared::uniform("ours".parse()?, "otel".parse()?, Signals::ALL, &options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(migrate_server(&client, &declared, &MigrateOptions::new("test")))?;
    engine.query("CREATE DATABASE theirs")?;
    let found = differences(&engine, &statements(version)?)?;
    ensure!(found.is_empty(), "{version} differs:\n{}", found.join("\n"));
    Ok(())
}

/// Scenario: the tables for the exporter's readers, up to 0.150 and from 0.151 on, beside those the
/// exporter makes; then rows by its own inserts. Guarantee: columns, keys and indexes are the same,
/// but for what is listed above; the rows in ours are those in theirs.
#[test]
fn tables_are_the_exporters_own() -> Result<()> {
    compared(Reader::Otel, BEFORE_151)?;
    compared(Reader::Otel151, FROM_151)
}

/// Scenario: the tables of the one beside the statements of the other. Guarantee: the comparison
/// names what the versions moved: the column of whole seconds, the columns of names, the order.
#[test]
fn another_versions_tables_are_seen_to_differ() {
    let said = compared(Reader::Otel, FROM_151).unwrap_err().to_string();
    for what in [
        "otel_logs column TimestampTime: DateTime DEFAULT",
        "otel_logs column __otel_materialized_k8s.pod.name",
        "otel_logs sorting key: ours ServiceName, TimestampTime, Timestamp, theirs",
        "otel_metrics_sum index idx_time_minmax",
    ] {
        assert!(said.contains(what), "{what} is not in:\n{said}");
    }
}
