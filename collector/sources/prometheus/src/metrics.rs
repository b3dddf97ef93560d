//! Metrics of the scraper of targets.

use prometheus::{IntCounter, IntGauge};

use millrace_pipeline::telemetry::{Telemetry, TelemetryError};

/// The metrics of the scraper of targets.
#[derive(Debug, Clone)]
pub(crate) struct ScrapeMetrics {
    /// Targets from the settings and from lists.
    pub(crate) targets: IntGauge,
    /// Entries of lists that aren't scraped.
    pub(crate) targets_dropped: IntGauge,
    /// Lists that currently can't be read.
    pub(crate) lists_failing: IntGauge,
    /// Lists read.
    pub(crate) list_reads: IntCounter,
    /// Failed reads of lists.
    pub(crate) list_failures: IntCounter,
    /// Targets whose last scrape succeeded.
    pub(crate) targets_up: IntGauge,
    /// Remembered series.
    pub(crate) series: IntGauge,
    /// The memory of the series.
    pub(crate) series_bytes: IntGauge,
    /// Scrapes whose points are safe.
    pub(crate) scrapes: IntCounter,
    /// Scrapes that failed, among those.
    pub(crate) failed: IntCounter,
    /// Scrapes that weren't made, or whose points were dropped.
    pub(crate) skipped: IntCounter,
    /// Samples read.
    pub(crate) samples: IntCounter,
    /// Samples dropped.
    pub(crate) dropped: IntCounter,
}

impl ScrapeMetrics {
    /// Creates and registers the metrics.
    pub(crate) fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let counter = |name, help| telemetry.counter(name, help);
        let gauge = |name, help| telemetry.gauge(name, help);
        Ok(Self {
            targets: gauge("millrace_scrape_targets", "Targets that are scraped.")?,
            targets_dropped: gauge(
                "millrace_scrape_targets_dropped",
                "Discovered targets that are not scraped: dropped by relabeling, invalid, \
                 duplicate, over the limit.",
            )?,
            lists_failing: gauge(
                "millrace_scrape_lists_failing",
                "Target lists that can't be read; their last valid version stays in use.",
            )?,
            list_reads: counter(
                "millrace_scrape_list_reads_total",
                "Target lists read from files and over HTTP.",
            )?,
            list_failures: counter(
                "millrace_scrape_list_failures_total",
                "Failed attempts to read a target list.",
            )?,
            targets_up: gauge(
                "millrace_scrape_targets_up",
                "Targets whose last scrape succeeded.",
            )?,
            series: gauge(
                "millrace_scrape_series",
                "Series of the targets' last scrapes; a histogram or summary is one.",
            )?,
            series_bytes: gauge(
                "millrace_scrape_series_bytes",
                "Memory for the state of the targets' series in bytes.",
            )?,
            scrapes: counter(
                "millrace_scrapes_total",
                "Scrapes whose points were accepted downstream, including failed scrapes.",
            )?,
            failed: counter(
                "millrace_scrapes_failed_total",
                "Failed scrapes: no connection, no answer in time, or an invalid answer.",
            )?,
            skipped: counter(
                "millrace_scrapes_skipped_total",
                "Scrapes skipped or abandoned before the next one was due: no memory, or not \
                 accepted downstream.",
            )?,
            samples: counter("millrace_scrape_samples_total", "Samples read from targets.")?,
            dropped: counter(
                "millrace_scrape_dropped_samples_total",
                "Samples skipped: duplicates, incomplete histograms and summaries, gauge \
                 histograms, timestamps out of range.",
            )?,
        })
    }
}
