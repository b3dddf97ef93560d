//! What can be said on the command line, or through the variables that `make` passes on.

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;

use crate::case::Size;
use crate::collector::peer::Peer;

/// Benchmarks of the collector: one JSON line a case on standard output, progress on standard
/// error.
#[derive(Debug, Parser)]
#[command(name = "millrace-bench", version)]
pub(crate) struct Args {
    /// Cases by name, or by the word before a dash (`gateway`, `edge`, `engine`, `allocator`,
    /// `rules`, `plain`, `files`, `scrape`, `bill`, `once`); several parted by commas; `all` for every one but
    /// the last two.
    #[arg(long, env = "CASE", default_value = "all")]
    pub(crate) case: String,
    /// Runs of each case; figures are medians. 5, or 3 when quick or with a peer; 1 of the bill.
    #[arg(long, env = "RUNS")]
    runs: Option<usize>,
    /// Ways of storing that the bill is of, parted by semicolons, such as `map; json`; all of them
    /// when absent.
    #[arg(long, env = "WAYS", value_delimiter = ';', value_name = "WAY")]
    ways: Vec<String>,
    /// The bill with merges running while the gateway inserts, as on a server, so that the smaller
    /// its inserts the more is merged; what is in `insert_ns` then holds merges too.
    #[arg(long, env = "MERGING", value_parser = yes_or_no, default_value = "0")]
    pub(crate) merging: bool,
    /// A third of the records.
    #[arg(long, env = "QUICK", value_parser = yes_or_no, default_value = "0")]
    quick: bool,
    /// Records of each kind in the bill; ten million when absent, 500,000 when quick.
    #[arg(long, env = "RECORDS", value_name = "COUNT")]
    pub(crate) records: Option<u64>,
    /// One run of each case under `perf`, and a flame graph of each instead of figures.
    #[arg(long, env = "PROFILE", value_parser = yes_or_no, default_value = "0")]
    pub(crate) profile: bool,
    /// Another collector to run side by side, such as `otelcol --config {config}`.
    #[arg(long, env = "PEER")]
    peer: Option<String>,
    /// The peer's name in results; its program's when absent.
    #[arg(long, env = "PEER_NAME")]
    peer_name: Option<String>,
    /// Settings of the peer as a gateway, with placeholders; the OpenTelemetry Collector's when
    /// absent.
    #[arg(long, env = "PEER_GATEWAY", value_name = "FILE")]
    peer_gateway: Option<PathBuf>,
    /// Settings of the peer as an edge, with placeholders; the OpenTelemetry Collector's when
    /// absent.
    #[arg(long, env = "PEER_EDGE", value_name = "FILE")]
    peer_edge: Option<PathBuf>,
    /// The OpenTelemetry Collector with the filelog receiver, to run beside ours on log files.
    #[arg(long, env = "FILELOG", value_name = "PROGRAM")]
    pub(crate) filelog: Option<PathBuf>,
    /// vlagent, likewise.
    #[arg(long, env = "VLAGENT", value_name = "PROGRAM")]
    pub(crate) vlagent: Option<PathBuf>,
    /// vmagent, to run beside ours on targets.
    #[arg(long, env = "VMAGENT", value_name = "PROGRAM")]
    pub(crate) vmagent: Option<PathBuf>,
    /// Prometheus, likewise, as an agent.
    #[arg(long, env = "PROMETHEUS", value_name = "PROGRAM")]
    pub(crate) prometheus: Option<PathBuf>,
    /// The OpenTelemetry Collector with the Prometheus receiver, likewise.
    #[arg(long, env = "OTELCOL_SCRAPE", value_name = "PROGRAM")]
    pub(crate) otelcol_scrape: Option<PathBuf>,
    /// Where results, settings, logs and flame graphs go.
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// What the harness starts itself as, to send messages from a process of their own.
    #[arg(long, hide = true, value_name = "JSON")]
    pub(crate) produce: Option<String>,
    /// Draw the bills among kept results again, into the folder of results, and stop.
    #[arg(long, value_name = "FILE")]
    pub(crate) redraw: Option<PathBuf>,
    /// Print the cases and stop.
    #[arg(long)]
    pub(crate) list: bool,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "yes" => Ok(true),
        "0" | "false" | "no" | "" => Ok(false),
        _ => Err("write 1 or 0".to_owned()),
    }
}

impl Args {
    /// How much is measured.
    pub(crate) fn size(&self) -> Size {
        if self.quick { Size::Quick } else { Size::Full }
    }

    /// How often: at least once.
    pub(crate) fn runs(&self) -> usize {
        let usual = if self.quick || self.peer.is_some() { 3 } else { 5 };
        if self.profile { 1 } else { self.runs.unwrap_or(usual).max(1) }
    }

    /// The ways of the bill that are asked for; empty for all.
    pub(crate) fn ways(&self) -> Vec<&str> {
        let named = self.ways.iter().map(|way| way.trim());
        named.filter(|way| !way.is_empty()).collect()
    }

    /// How often each way of the bill is measured: it takes hours once.
    pub(crate) fn rounds(&self) -> usize {
        self.runs.unwrap_or(1).max(1)
    }

    /// The other collector, if one is given.
    pub(crate) fn peer(&self) -> Result<Option<Peer>> {
        let Some(command) = self.peer.as_deref().filter(|command| !command.is_empty()) else {
            return Ok(None);
        };
        let (gateway, edge) = (self.peer_gateway.as_deref(), self.peer_edge.as_deref());
        Peer::new(command, self.peer_name.as_deref(), gateway, edge).map(Some)
    }
}
