//! The pods of gateway pools: one listener on the collectors' port answers for all of them, with
//! the metrics of a gateway at rest. Each scrape costs the operator a connection, as in a cluster.

use std::fmt::Write;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

/// The address of every pod: of loopback, where nothing else listens on the collectors' port.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 77, 0, 1);
/// The collectors' admin port.
const PORT: u16 = 9464;
/// Partitions that a pod reports.
const PARTITIONS: usize = 12;
/// Series of which the operator needs nothing, as a collector has.
const OTHERS: usize = 150;

/// Serves until the process ends.
///
/// # Errors
/// When something else listens there.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind((ADDRESS, PORT)).await;
    let listener = listener.with_context(|| format!("cannot listen on {ADDRESS}:{PORT}"))?;
    let text = metrics();
    let router = Router::new().route("/metrics", get(move || async move { text.clone() }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(())
}

fn metrics() -> String {
    let mut text = String::from(
        "millrace_records_in_total{signal=\"traces\"} 1000000\n\
         millrace_records_out_total{signal=\"traces\"} 1000000\n\
         millrace_budget_bytes 67108864\nmillrace_bytes_in_flight 0\n\
         millrace_insert_duration_seconds_sum 150\nmillrace_insert_duration_seconds_count 5000\n\
         millrace_table_inserts_total{table=\"otel_traces\"} 5000\n\
         process_cpu_seconds_total 1000\nprocess_start_time_seconds 1790000000\n\
         process_resident_memory_bytes 67108864\n",
    );
    for number in 0..PARTITIONS {
        let _ = writeln!(
            text,
            "millrace_consumer_lag_messages{{topic=\"otlp-traces\",partition=\"{number}\"}} 0"
        );
    }
    for number in 0..OTHERS {
        let _ = writeln!(text, "millrace_duration_seconds_bucket{{le=\"{number}\"}} {number}");
    }
    text
}
