//! `keeper-bench suite --clickhouse`: one small round of a real ZooKeeper becomes rows of a real
//! engine by Millrace's own collector, and is told by SQL.
//!
//! `make test ONLY=suite_stored::`. About 30 s; it limits servers where it is root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_stack::clickhouse::{Engine, EngineOptions, Fault, FaultKind};
use rustix::fs::{Access, access};
use serde_json::Value;

const MATRIX: &str = r#"
name: small
repeats: 9
pipeline: 4
servers: [{version: "3.9", count: 1, heap_mib: 128, cpus: 1.5, memory_mib: 512}]
workloads: [clickhouse-load]
sessions: [3]
operations: [15000]
"#;

/// Where the collector and `clickhouse-ddl` are: compiled with the tests.
fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_keeper-bench")).parent().unwrap()
}

struct Lab {
    engine: Engine,
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self {
            engine: Engine::start(EngineOptions { test_faults: true, ..Default::default() })
                .unwrap(),
            dir: tempfile::tempdir().unwrap(),
        };
        fs::write(lab.file("matrix.yaml"), MATRIX).unwrap();
        fs::write(lab.file("password"), lab.engine.password()).unwrap();
        lab
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What it says; it has to succeed.
    fn suite(&self, database: &str, repeats: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeper-bench"));
        command.arg("suite").arg("--out").arg(self.file("out"));
        command.arg("--matrix").arg(self.file("matrix.yaml")).args(["--repeats", repeats]);
        command.args(["--clickhouse", &self.engine.url(), "--database", database]);
        command.args(["--user", self.engine.user()]);
        command.arg("--password-file").arg(self.file("password"));
        let output = command.arg("--programs").arg(programs()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let log = fs::read_to_string(self.file("out/collector/collector.log")).unwrap_or_default();
        assert!(output.status.success(), "{said}\n{log}");
        said
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file("out").join(name)).unwrap()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn ask(&self, sql: &str) -> String {
        self.engine.query(sql).unwrap()
    }

    /// Each value of each sample on file is one row, and there is no other.
    fn has_just(&self, database: &str, expected: &BTreeSet<String>) {
        let answer = self.ask(&format!(
            "SELECT toUnixTimestamp64Milli(TimeUnix), Attributes['server'], MetricName, Value, \
             Attributes['value'] FROM {database}.otel_metrics_gauge \
             WHERE ServiceName = 'keeper-bench' AND Attributes['run'] != '' FORMAT TSVRaw"
        ));
        let rows: Vec<&str> = answer.lines().collect();
        let stored: BTreeSet<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let wrong: Vec<&String> = stored.symmetric_difference(expected).take(5).collect();
        assert!(wrong.is_empty(), "on one side only: {wrong:?}");
        assert_eq!(rows.len(), expected.len(), "a row is there twice");
    }
}

/// Every series of the samples as a row: time, server, name, number, word.
fn expected(samples: &[Value]) -> BTreeSet<String> {
    let own = [
        ("second", "keeper_bench_round_seconds"),
        ("cpu_seconds", "keeper_bench_cpu_seconds"),
        ("memory_bytes", "keeper_bench_memory_bytes"),
    ];
    let mut rows = BTreeSet::new();
    for sample in samples {
        let head = format!("{}\t{}", sample["time_ms"], sample["server"]);
        for (field, name) in own {
            rows.insert(format!("{head}\t{name}\t{}\t", sample[field].as_f64().unwrap()));
        }
        for (name, value) in sample["mntr"].as_object().unwrap() {
            let value = value.as_str().unwrap();
            rows.insert(match value.parse::<f64>() {
                Ok(number) => format!("{head}\t{name}\t{number}\t"),
                Err(_) => format!("{head}\t{name}\t1\t{value}"),
            });
        }
    }
    rows
}

/// The figures of the one cell: by the suite itself, which writes `X (X to X)` for one round, and by
/// SQL, as percentiles.
fn figures(report: &str) -> Vec<(String, String)> {
    let rows: Vec<Vec<&str>> = report
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches(['|', ' ']).split(" | ").collect())
        .collect();
    let (heads, own) = (&rows[0][2..], &rows[2][2..]);
    let pairs = heads.iter().zip(own).map(|(head, own)| {
        let by_sql = rows.iter().find(|row| row[1] == *head).unwrap();
        let (least, median, most) = (by_sql[3], by_sql[6], by_sql[9]);
        assert!(by_sql[3..].iter().all(|percentile| *percentile == median), "{by_sql:?}");
        ((*own).to_owned(), format!("{median} ({least} to {most})"))
    });
    pairs.collect()
}

/// Scenario: one round into a database; the suite again; the same round, on record, into another
/// database. Guarantee: each value of each sample on file is one row, with its time, number and
/// word, and no other row is there; the result's line is the record's body; nothing is stored
/// twice; the second database gets the same rows later. SQL gives the figures that the result has,
/// and the report has them. Slow: 15,000 operations pass, a collector starts for each of three
/// suites, and it scrapes a sample of each server a second.
#[test]
fn samples_and_results_are_rows() {
    if access("/sys/fs/cgroup", Access::WRITE_OK).is_err() {
        return; // `suite_command` has what is said without root.
    }
    let lab = Lab::new();
    lab.suite("live", "1");
    let samples = lab.lines("samples.jsonl");
    let expected = expected(&samples);
    lab.has_just("live", &expected);
    let body = "SELECT Body FROM live.otel_logs FORMAT TSVRaw";
    assert_eq!(lab.ask(body), lab.read("results.jsonl").trim());

    let report = lab.read("report.md");
    let run = lab.read("run");
    let said = format!(
        "In ClickHouse as run `{}`: 1 results, {} samples in {} rows.",
        run.trim(),
        samples.len(),
        expected.len()
    );
    assert!(report.contains(&said), "{said}\n{report}");
    let figures = figures(&report);
    assert_eq!(figures.len(), 5);
    figures.iter().for_each(|(own, by_sql)| assert_eq!(own, by_sql));
    assert!(lab.read("load-0-time.svg").contains("<polyline points=\""));

    lab.suite("live", "1");
    lab.has_just("live", &expected);
    assert_eq!(lab.ask("SELECT count() FROM live.otel_logs"), "1");

    let said = lab.suite("later", "1");
    assert!(said.contains("storing 1 rounds that are on record"), "{said}");
    lab.has_just("later", &expected);
    assert_eq!(lab.ask(&body.replace("live", "later")), lab.read("results.jsonl").trim());
}

/// Scenario: a round that is on record is stored, and the table refuses the first rows. Guarantee:
/// what the collector gave up is noticed, served again, and there in the end. Slow: 15,000
/// operations pass, a collector scrapes a sample of each server a second, and rows that were
/// refused are waited for 10 s.
#[test]
fn samples_that_were_given_up_are_served_again() {
    if access("/sys/fs/cgroup", Access::WRITE_OK).is_err() {
        return;
    }
    let lab = Lab::new();
    lab.suite("measured", "1");
    // INCORRECT_DATA: a batch of one request isn't tried again. Samples are offered as soon as the
    // collector is ready, one for each second's scrape; a scrape before them takes one refusal, and
    // the ones that wait for what is missing take what is left.
    let kind = FaultKind::Error { code: 117 };
    let matching = "`otel_metrics_gauge` (`".to_owned();
    lab.engine.inject(&Fault { kind, matching, times: 5 }).unwrap();
    let said = lab.suite("refused", "1");
    assert!(said.contains("are not stored and served again"), "{said}");
    lab.has_just("refused", &expected(&lab.lines("samples.jsonl")));
}
