//! Millrace's own telemetry on its own way, all parts real: from a bucket that Prometheus scraped to
//! the trace of an insert, which the same gateway stored.

use std::fs;
use std::io::stderr;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use millrace_e2e::lab::Lab;
use millrace_e2e::process::Process;
use millrace_e2e::{http, wait};
use millrace_stack::progress::Timed;
use millrace_stack::prometheus::{self, Program};
use millrace_stack::service::free_port;
use serde_json::{Value, json};

/// Everything is there well within this.
const LIMIT: Duration = Duration::from_secs(120);

/// The traces that Prometheus knows of a histogram.
fn exemplars(server: SocketAddr, histogram: &str) -> anyhow::Result<Vec<String>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let path = format!(
        "/api/v1/query_exemplars?query={histogram}_bucket&start={}&end={}",
        now - 600,
        now + 60
    );
    let answer: Value = serde_json::from_str(&http::get(server, &path)?.text())?;
    let series = answer["data"].as_array().context("no data")?.iter();
    let exemplars = series.flat_map(|it| it["exemplars"].as_array().into_iter().flatten());
    let traces = exemplars.filter_map(|it| it["labels"]["trace_id"].as_str());
    Ok(traces.map(str::to_owned).collect())
}

/// Scenario: a gateway sends its own traces and logs to the edge before it, so that it stores them
/// itself; a load goes through; a Prometheus with storage for exemplars scrapes the gateway.
/// Guarantee: Prometheus reads the whole text and knows a trace of a bucket; the engine has that
/// trace, an insert with its try below it, and the lines of the log; inserts of nothing but own
/// telemetry, as those of logs are here, have no trace. Slow: a broker, an engine and Prometheus
/// start, and 20,000 spans pass.
#[test]
fn a_slow_bucket_leads_to_the_row_of_its_trace() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let extra = format!(
        "telemetry:\n  otlp:\n    endpoint: http://{}\n    tracesPerSecond: 100\n",
        edge.ports.http
    );
    let gateway = lab.gateway("gateway", &extra).unwrap();
    let load = lab.load(&edge, 91, 20_000);
    let verdict = load.run(lab.folder(), LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);

    let host = Ipv4Addr::LOCALHOST.into();
    let server = SocketAddr::new(host, free_port(host).unwrap());
    let settings = json!({
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": "gateway", "static_configs":
            [{"targets": [gateway.ports.admin.to_string()]}]}],
    });
    let file = lab.folder().join("prometheus.yaml");
    fs::write(&file, settings.to_string()).unwrap();
    let program = prometheus::find_or_fetch(Program::Prometheus, &Timed::new(stderr())).unwrap();
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", lab.folder().join("series").display()))
        .arg(format!("--web.listen-address={server}"))
        .arg("--enable-feature=exemplar-storage");
    let log = lab.folder().join("prometheus.log");
    let _prometheus = Process::start("prometheus", &mut command, &log).unwrap();

    let trace = wait::until("a trace of a bucket", LIMIT, || {
        let found = exemplars(server, "millrace_insert_duration_seconds")?;
        found.into_iter().next_back().context("none yet")
    })
    .unwrap();
    let ask = |sql: &str| lab.engine.query(sql).map(|text| text.trim().to_owned());
    let spans = format!(
        "SELECT arrayStringConcat(arraySort(groupArray(SpanName)), ', ') FROM otel.otel_traces \
         WHERE TraceId = '{trace}'"
    );
    wait::until("the trace's rows", LIMIT, || {
        let spans = ask(&spans)?;
        ensure!(spans == "clickhouse insert, insert otel.otel_traces", "{spans}");
        Ok(())
    })
    .unwrap();
    let lines = "SELECT count() FROM otel.otel_logs WHERE ServiceName = 'millrace-collector' \
                 AND Body = 'starting'";
    wait::until("the log's rows", LIMIT, || {
        let lines = ask(lines)?;
        ensure!(lines == "1", "{lines}");
        Ok(())
    })
    .unwrap();
    let own = "SELECT count() FROM otel.otel_traces WHERE SpanName = 'insert otel.otel_logs'";
    assert_eq!(ask(own).unwrap(), "0");
    let up = http::get(server, "/api/v1/query?query=up").unwrap().text();
    assert!(up.contains("\"1\""), "{up}");
}
