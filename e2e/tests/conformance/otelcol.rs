//! The OpenTelemetry Collector beside the lab's parts: as a gateway and as an edge.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use millrace_e2e::lab::{Lab, Variant};
use millrace_e2e::process::Process;
use millrace_e2e::wait;
use millrace_stack::paths::Paths;
use millrace_stack::progress::Silent;
use millrace_stack::{otelcol, service};

/// From start to "Everything is ready".
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Where the Collector writes a variant's rows.
pub(crate) fn database(variant: Variant) -> String {
    format!("theirs_{}", variant.database())
}

/// Kafka to ClickHouse: all signals, into the tables of both variants; metrics, for which it has no
/// JSON, into maps alone.
pub(crate) fn gateway(lab: &Lab) -> Result<Process> {
    let exporter = |variant: Variant| {
        format!(
            "  clickhouse/{}:\n    endpoint: \"{}\"\n    database: {}\n    username: {}\n    \
             password: \"${{env:CLICKHOUSE_PASSWORD}}\"\n    create_schema: false\n    json: {}\n    \
             async_insert: false\n    compress: lz4\n    timeout: 120s\n    \
             metrics_tables: {{exponential_histogram: {{name: otel_metrics_exponential_histogram}}}}\n",
            variant.database(),
            lab.engine.url(),
            database(variant),
            lab.engine.user(),
            variant == Variant::Json,
        )
    };
    let config = format!(
        "receivers:\n  kafka:\n    brokers: [\"{}\"]\n    group_id: otelcol\n    \
         initial_offset: earliest\n    traces: {{topics: [otlp_traces], encoding: otlp_proto}}\n    \
         logs: {{topics: [otlp_logs], encoding: otlp_proto}}\n    \
         metrics: {{topics: [otlp_metrics], encoding: otlp_proto}}\n\
         exporters:\n{}{}\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    \
         traces: {{receivers: [kafka], exporters: [clickhouse/otel, clickhouse/otel_map]}}\n    \
         logs: {{receivers: [kafka], exporters: [clickhouse/otel, clickhouse/otel_map]}}\n    \
         metrics: {{receivers: [kafka], exporters: [clickhouse/otel_map]}}\n",
        lab.broker.bootstrap(),
        exporter(Variant::Json),
        exporter(Variant::Map),
    );
    start(lab, "otelcol-gateway", &config)
}

/// OTLP to Kafka; gives its endpoint too.
pub(crate) fn edge(lab: &Lab) -> Result<(Process, String)> {
    let port = service::free_port(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    let config = format!(
        "receivers:\n  otlp: {{protocols: {{grpc: {{endpoint: \"127.0.0.1:{port}\"}}}}}}\n\
         exporters:\n  kafka:\n    brokers: [\"{}\"]\n    \
         traces: {{topic: otlp_traces, encoding: otlp_proto}}\n    \
         logs: {{topic: otlp_logs, encoding: otlp_proto}}\n    \
         metrics: {{topic: otlp_metrics, encoding: otlp_proto}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n    \
         traces: {{receivers: [otlp], exporters: [kafka]}}\n    \
         logs: {{receivers: [otlp], exporters: [kafka]}}\n    \
         metrics: {{receivers: [otlp], exporters: [kafka]}}\n",
        lab.broker.bootstrap(),
    );
    Ok((start(lab, "otelcol-edge", &config)?, format!("http://127.0.0.1:{port}")))
}

fn start(lab: &Lab, name: &str, config: &str) -> Result<Process> {
    let program = otelcol::build(&Paths::from_env()?, &Silent)?;
    let file = lab.folder().join(format!("{name}.yaml"));
    fs::write(&file, config)?;
    let mut command = Command::new(program);
    command.arg("--config").arg(&file).env("CLICKHOUSE_PASSWORD", lab.engine.password());
    let log = lab.folder().join(format!("{name}.log"));
    let mut process = Process::start(name, &mut command, &log)?;
    wait::until("the Collector to be ready", READY_LIMIT, || {
        process.still_runs()?;
        process.output().contains("Everything is ready").then_some(()).context("not ready yet")
    })?;
    Ok(process)
}
