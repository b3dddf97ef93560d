//! Counts what became of a body's samples.

/// Counts of a body's samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples: lines of the body that are neither empty nor comments.
    pub samples: u64,
    /// Samples of series that the last scrape didn't have.
    pub added: u64,
    /// Skipped samples: duplicates, incomplete histograms and summaries, gauge histograms, times
    /// that OTLP can't represent, a second `target_info`.
    pub dropped: u64,
    /// Samples that metric rules dropped.
    pub removed: u64,
}
