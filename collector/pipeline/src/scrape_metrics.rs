//! What a scraper of targets says about itself.

use prometheus::{IntCounter, IntGauge};

use crate::telemetry::{Telemetry, TelemetryError};

/// The metrics of a scraper of targets.
#[derive(Debug, Clone)]
pub struct ScrapeMetrics {
    /// Targets of the settings and of lists.
    pub targets: IntGauge,
    /// Entries of lists that aren't scraped.
    pub targets_dropped: IntGauge,
    /// Lists that can't be read now.
    pub lists_failing: IntGauge,
    /// Lists read.
    pub list_reads: IntCounter,
    /// Lists that couldn't be read.
    pub list_failures: IntCounter,
    /// Those whose last scrape succeeded.
    pub targets_up: IntGauge,
    /// Series that are remembered.
    pub series: IntGauge,
    /// What they take.
    pub series_bytes: IntGauge,
    /// Scrapes whose points are safe.
    pub scrapes: IntCounter,
    /// Those of them that failed.
    pub failed: IntCounter,
    /// Scrapes that weren't made, or whose points were given up.
    pub skipped: IntCounter,
    /// Samples read.
    pub samples: IntCounter,
    /// Samples left out.
    pub dropped: IntCounter,
}

impl ScrapeMetrics {
    /// Makes and registers them.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let counter = |name, help| telemetry.counter(name, help);
        let gauge = |name, help| telemetry.gauge(name, help);
        Ok(Self {
            targets: gauge("millrace_scrape_targets", "Targets that are scraped.")?,
            targets_dropped: gauge(
                "millrace_scrape_targets_dropped",
                "Targets of lists that are not scraped: dropped by relabeling, unusable, there twice, \
                 too many.",
            )?,
            lists_failing: gauge(
                "millrace_scrape_lists_failing",
                "Lists of targets that can't be read; the last ones that could stand.",
            )?,
            list_reads: counter(
                "millrace_scrape_list_reads_total",
                "Lists of targets read from files and over HTTP.",
            )?,
            list_failures: counter(
                "millrace_scrape_list_failures_total",
                "Tries to read a list of targets that failed.",
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
                "Memory for what is known of the targets' series.",
            )?,
            scrapes: counter(
                "millrace_scrapes_total",
                "Scrapes whose points were taken downstream, failed ones included.",
            )?,
            failed: counter(
                "millrace_scrapes_failed_total",
                "Scrapes that failed: no connection, no answer in time, or one that can't be used.",
            )?,
            skipped: counter(
                "millrace_scrapes_skipped_total",
                "Scrapes not made or given up: no memory, or nothing is taken downstream, until the \
                 next one was due.",
            )?,
            samples: counter("millrace_scrape_samples_total", "Samples read from targets.")?,
            dropped: counter(
                "millrace_scrape_dropped_samples_total",
                "Samples left out: duplicates, histograms and summaries that are not whole, gauge \
                 histograms, times out of range.",
            )?,
        })
    }
}
