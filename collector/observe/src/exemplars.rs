//! Histograms whose buckets remember a trace each: from a slow bucket of a dashboard to what was
//! slow.
//!
//! Only sampled traces are noted, a few a second, so a lock is no cost. Memory is bounded by the
//! histograms: one trace for each bucket of each series.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::otlp::TraceId;

/// The newest sampled trace of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// The trace.
    pub trace: TraceId,
    /// What was measured of it.
    pub value: f64,
    /// When, in seconds since 1970.
    pub at_seconds: f64,
}

/// By bucket, counted from the lowest.
pub type Buckets = BTreeMap<usize, Exemplar>;

/// A histogram's name and the values of its labels, in the order of their names.
type Series = (&'static str, Vec<String>);

/// All exemplars of a process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Exemplars(Arc<Mutex<BTreeMap<Series, Buckets>>>);

impl Exemplars {
    /// Notes that `value` was measured of a trace. `name` is the histogram's whole name, `labels`
    /// the values of its labels and `bounds` the upper bounds of its buckets, rising.
    pub fn note(
        &self,
        name: &'static str,
        labels: &[&str],
        bounds: &[f64],
        value: f64,
        trace: TraceId,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let exemplar = Exemplar { trace, value, at_seconds: now.as_secs_f64() };
        let bucket = bounds.partition_point(|bound| *bound < value);
        let series = (name, labels.iter().map(|&label| label.to_owned()).collect());
        self.lock().entry(series).or_default().insert(bucket, exemplar);
    }

    /// Those of one series; `labels` in the order of their names.
    pub(crate) fn of(&self, name: &str, labels: &[&str]) -> Buckets {
        let all = self.lock();
        let found = all.iter().find(|((known, values), _)| *known == name && values == labels);
        found.map(|(_, buckets)| buckets.clone()).unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Series, Buckets>> {
        // A whole value is put in at once: a panic leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
