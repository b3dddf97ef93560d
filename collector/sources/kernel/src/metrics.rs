//! Metrics of the kernel log reader.

use prometheus::IntCounter;

use millrace_pipeline::telemetry::{Telemetry, TelemetryError};

/// The metrics of the kernel log reader.
#[derive(Debug, Clone)]
pub(crate) struct KernelMetrics {
    /// Records made of the log's records.
    pub(crate) records: IntCounter,
    /// Records that were overwritten before they were read.
    pub(crate) lost: IntCounter,
    /// Records whose header can't be parsed.
    pub(crate) unparsed: IntCounter,
    /// Records in which invalid UTF-8 was replaced.
    pub(crate) invalid_utf8: IntCounter,
    /// Times that the position could not be written.
    pub(crate) positions_failed: IntCounter,
}

impl KernelMetrics {
    /// Creates and registers the metrics.
    pub(crate) fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let counter = |name, help| telemetry.counter(name, help);
        Ok(Self {
            records: counter("millrace_kernel_records_total", "Records read from the kernel log.")?,
            lost: counter(
                "millrace_kernel_lost_records_total",
                "Records of the kernel log that were overwritten before they were read, by their \
                 sequence numbers.",
            )?,
            unparsed: counter(
                "millrace_kernel_unparsed_total",
                "Records of the kernel log with an invalid header, stored unchanged.",
            )?,
            invalid_utf8: counter(
                "millrace_kernel_invalid_utf8_total",
                "Records of the kernel log in which bytes that are not UTF-8 were replaced.",
            )?,
            positions_failed: counter(
                "millrace_kernel_positions_failed_total",
                "Times that the position in the kernel log could not be written.",
            )?,
        })
    }
}
