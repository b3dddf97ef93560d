//! What it takes to make OTLP of a target's body, on one thread, without a socket: megabytes of the
//! body and samples per second of CPU time, and what each series is remembered in.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use cpu_time::ThreadTime;
use millrace_scrape::{
    BodyFormat, BodyLimits, Scrape, ScrapeBuffers, ScrapeReport, SeriesMemory, TargetAttributes,
};
use serde_json::json;

use super::bodies::{self, Make};
use crate::case::Size;

/// Scrapes of a round: 64 of a body of some 150 kB are longer than a timer's ticks.
const SCRAPES: u64 = 64;
/// Pods of the kube-state-metrics body: some 130 kB.
const PARSED_PODS: u64 = 40;
/// What comes from a socket at once.
const PIECE_BYTES: usize = 16 * 1024;
/// When the first one is.
const NOW: u64 = 1_764_000_000_000_000_000;
const INTERVAL: u64 = 15_000_000_000;
const LIMITS: BodyLimits = BodyLimits { body_bytes: 1 << 30, samples: 1 << 30, labels: 64 };

/// Bodies: one line of JSON for each, of the best round.
pub(crate) fn run(size: Size) -> Result<Vec<String>> {
    let rounds = match size {
        Size::Full => 15,
        Size::Quick => 5,
    };
    let bodies: [(&str, BodyFormat, Make); 6] = [
        ("node-exporter", BodyFormat::Prometheus, bodies::node_exporter),
        ("kube-state-metrics", BodyFormat::Prometheus, |turn| {
            bodies::kube_state_metrics(PARSED_PODS, turn)
        }),
        ("cadvisor", BodyFormat::Prometheus, bodies::cadvisor),
        ("java", BodyFormat::Prometheus, bodies::java),
        ("histograms", BodyFormat::Prometheus, bodies::histograms),
        ("counters-openmetrics", BodyFormat::OpenMetrics, bodies::counters),
    ];
    let mut lines = Vec::new();
    for (name, format, make) in bodies {
        let turns: Vec<String> = (0..SCRAPES).map(make).collect();
        let bytes: usize = turns.iter().map(String::len).sum();
        let mut best = Duration::MAX;
        let (mut samples, mut memory) = (0, SeriesMemory::default());
        for _ in 0..rounds {
            let start = ThreadTime::now();
            (samples, memory) = read(format, &turns)?;
            best = best.min(start.elapsed());
        }
        let per_second = |count: f64| (count / best.as_secs_f64()).round();
        let line = json!({
            "case": "scrape-parse",
            "body": name,
            "samples": samples / SCRAPES,
            "bytes": bytes / turns.len(),
            "mib_per_cpu_second": per_second(bytes as f64 / (1 << 20) as f64),
            "samples_per_cpu_second": per_second(samples as f64),
            "remembered_bytes_per_series": memory.held_bytes() / memory.series_count().max(1) as u64,
        });
        lines.push(line.to_string());
    }
    Ok(lines)
}

/// How many points a scrape of a body becomes, those of the scrape itself included.
pub(super) fn points(body: &str) -> Result<u64> {
    let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), Vec::new(), false, true);
    let mut memory = SeriesMemory::default();
    let mut scrape = Scrape::new(&target, &mut memory, LIMITS, NOW, Box::default());
    let mut points = feed(&mut scrape, body)?;
    scrape.end_body()?;
    while !scrape.write_remaining(&ScrapeReport { duration_seconds: 0.01 }) {
        points += take(&mut scrape)?;
    }
    Ok(points + take(&mut scrape)?)
}

/// Gives a body in pieces. How many points it has, but the last.
fn feed(scrape: &mut Scrape<'_>, body: &str) -> Result<u64> {
    let mut written = 0;
    for piece in body.as_bytes().chunks(PIECE_BYTES) {
        let mut at = 0;
        while at < piece.len() {
            at += scrape.feed(&piece[at..])?;
            if scrape.is_full() {
                written += take(scrape)?;
            }
        }
    }
    Ok(written)
}

/// Scrapes bodies of one target in turn, as a receiver does. The number of samples.
fn read(format: BodyFormat, turns: &[String]) -> Result<(u64, SeriesMemory)> {
    let labels = vec![("env".to_owned(), "production".to_owned())];
    let target = TargetAttributes::new("node", ("http", "10.0.0.1", 9100), labels, false, true);
    let mut memory = SeriesMemory::default();
    let (mut samples, mut buffers) = (0, Box::<ScrapeBuffers>::default());
    for (turn, body) in turns.iter().enumerate() {
        let time = NOW + turn as u64 * INTERVAL;
        let mut scrape = Scrape::new(&target, &mut memory, LIMITS, time, buffers);
        scrape.set_format(format);
        let mut written = feed(&mut scrape, body)?;
        scrape.end_body()?;
        while !scrape.write_remaining(&ScrapeReport { duration_seconds: 0.01 }) {
            written += take(&mut scrape)?;
        }
        written += take(&mut scrape)?;
        let counts = scrape.counts();
        if counts.dropped > 0 || written == 0 {
            bail!("{} samples were dropped", counts.dropped);
        }
        samples += counts.samples;
        buffers = scrape.commit_memory();
    }
    Ok((samples, memory))
}

/// Takes what was written as if it was sent. How many points it has.
fn take(scrape: &mut Scrape<'_>) -> Result<u64> {
    let request = scrape.take_request().context("no request")?;
    let points = request.points;
    scrape.return_request(request);
    Ok(points)
}
