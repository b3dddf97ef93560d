//! Metrics of a reader of the kernel's log.

use prometheus::IntCounter;

use crate::telemetry::{Telemetry, TelemetryError};

/// The metrics of a reader of the kernel's log.
#[derive(Debug, Clone)]
pub struct KernelMetrics {
    /// Records made of the log's.
    pub records: IntCounter,
    /// Records that were overwritten before they were read.
    pub lost: IntCounter,
    /// Records whose head can't be read.
    pub unparsed: IntCounter,
    /// Records in which bytes that aren't text were replaced.
    pub invalid_utf8: IntCounter,
    /// Times that the position could not be written.
    pub positions_failed: IntCounter,
}

impl KernelMetrics {
    /// Makes and registers them.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn register(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let counter = |name, help| telemetry.counter(name, help);
        Ok(Self {
            records: counter("millrace_kernel_records_total", "Records of the kernel's log read.")?,
            lost: counter(
                "millrace_kernel_lost_records_total",
                "Records of the kernel's log that were overwritten before they were read, by their \
                 numbers.",
            )?,
            unparsed: counter(
                "millrace_kernel_unparsed_total",
                "Records of the kernel's log whose head can't be read, kept as they stand.",
            )?,
            invalid_utf8: counter(
                "millrace_kernel_invalid_utf8_total",
                "Records of the kernel's log in which bytes that are not UTF-8 were replaced.",
            )?,
            positions_failed: counter(
                "millrace_kernel_positions_failed_total",
                "Times that the position in the kernel's log could not be written.",
            )?,
        })
    }
}
