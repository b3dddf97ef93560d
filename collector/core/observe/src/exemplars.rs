//! Histograms whose buckets each remember a trace, which leads from a slow bucket in a dashboard to
//! a slow request.
//!
//! Only sampled traces are recorded, a few per second, so a lock costs nothing noticeable. The
//! histograms bound the memory: one trace per bucket of each series.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::otlp::TraceId;

/// The newest sampled trace of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketExemplar {
    /// The trace.
    pub trace: TraceId,
    /// The measured value.
    pub value: f64,
    /// The time, in seconds since 1970.
    pub at_seconds: f64,
}

/// Exemplars by bucket, counted from the lowest.
pub type Buckets = BTreeMap<usize, BucketExemplar>;

/// A histogram's name and the values of its labels, in the order of their names.
type SeriesKey = (&'static str, Vec<String>);

/// All exemplars of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Exemplars(Arc<Mutex<BTreeMap<SeriesKey, Buckets>>>);

impl Exemplars {
    /// Records that `value` was measured for a trace. `name` is the histogram's full name, `labels`
    /// the values of its labels and `bounds` the ascending upper bounds of its buckets.
    pub fn record_exemplar(
        &self,
        name: &'static str,
        labels: &[&str],
        bounds: &[f64],
        value: f64,
        trace: TraceId,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let exemplar = BucketExemplar { trace, value, at_seconds: now.as_secs_f64() };
        let bucket = bounds.partition_point(|bound| *bound < value);
        let series = (name, labels.iter().map(|&label| label.to_owned()).collect());
        self.lock().entry(series).or_default().insert(bucket, exemplar);
    }

    /// Returns the exemplars of one series; `labels` in the order of their names.
    pub(crate) fn series_buckets(&self, name: &str, labels: &[&str]) -> Buckets {
        let all = self.lock();
        let found = all.iter().find(|((known, values), _)| *known == name && values == labels);
        found.map(|(_, buckets)| buckets.clone()).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<SeriesKey, Buckets>> {
        // Each change inserts one complete value, so a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
