//! The operator's own metrics, as text. A metric is declared in the file that records it, as a
//! constant with its complete name, help text and labels, and exists once it is first recorded.
//!
//! Labels come from closed enums, so the number of series is bounded: kinds (5) times results (6).
//! No label carries an object's name, except of an [`ObjectGauge`], which limits its objects.

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_observe::exemplars::Exemplars;
use millrace_observe::otlp::{Export, TraceId, Tracer};
use millrace_observe::process::{self, BuildInfo};
use millrace_observe::text::MetricsFormat;
use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use crate::hash::fingerprint_of;

/// Reconciles take from a few milliseconds (cached, converged) to the timeout of an external call.
const BUCKETS_SECONDS: &[f64] =
    &[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

const ALLOCATOR: &str = "mimalloc";

/// A metric with `N` labels, declared in the file that records it.
#[derive(Debug)]
pub struct Declared<S, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    series: PhantomData<S>,
}

impl<S, const N: usize> Declared<S, N> {
    /// Declares a metric by its complete name; the help text is the reference's.
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self { name, help, labels, series: PhantomData }
    }
}

/// A count of events.
pub type Counter<const N: usize> = Declared<IntCounterVec, N>;
/// A number that rises and falls.
pub type Gauge<const N: usize> = Declared<IntGaugeVec, N>;
/// A histogram of durations.
pub type Seconds<const N: usize> = Declared<HistogramVec, N>;

/// Counts watches that failed: the only metric of several parts, so it is declared below them.
pub(crate) const WATCH_ERRORS: Counter<1> = Counter::new(
    "millrace_operator_watch_errors_total",
    "Watches that failed and were restarted, by kind.",
    ["kind"],
);

/// Series of objects, of a limited number of them: the first labels name an object.
#[derive(Debug)]
pub struct ObjectGauge<const N: usize> {
    declared: Declared<GaugeVec, N>,
    objects_max: usize,
}

impl<const N: usize> ObjectGauge<N> {
    /// Declares a metric by its complete name, for at most `objects_max` objects.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        objects_max: usize,
    ) -> Self {
        Self { declared: Declared::new(name, help, labels), objects_max }
    }
}

/// The series of a metric.
pub trait Series: Collector + Clone + 'static {
    /// Creates them, without any.
    ///
    /// # Errors
    /// When the name or a label is invalid.
    fn create(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error>;
}

impl Series for IntCounterVec {
    fn create(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl Series for IntGaugeVec {
    fn create(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl Series for GaugeVec {
    fn create(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(Opts::new(name, help), labels)
    }
}

impl Series for HistogramVec {
    fn create(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        Self::new(HistogramOpts::new(name, help).buckets(BUCKETS_SECONDS.into()), labels)
    }
}

/// The metrics of this process.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    exemplars: Exemplars,
    tracer: Tracer,
    /// The series of each recorded metric, by its name.
    recorded: Arc<Mutex<BTreeMap<&'static str, Box<dyn Any + Send>>>>,
    /// The objects of each [`ObjectGauge`], by its name.
    objects: Arc<Mutex<BTreeMap<&'static str, ObjectRows>>>,
}

/// The other labels' values, and the series' value.
pub type LabelledValue = (Vec<Cow<'static, str>>, f64);

/// The objects of a metric.
#[derive(Debug, Default)]
struct ObjectRows {
    /// The rows of each object that has series.
    rows: BTreeMap<Vec<String>, Vec<LabelledValue>>,
    /// Hashes of the objects beyond the limit.
    omitted: BTreeSet<u64>,
}

impl Metrics {
    /// Creates the metrics of every program, and the build's.
    ///
    /// # Errors
    /// When a name is registered twice, which is a fault in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let build = BuildInfo { version: env!("CARGO_PKG_VERSION"), allocator: ALLOCATOR };
        build.register(
            &registry,
            "millrace_operator_build_info",
            "Always 1; the labels state the version, commit and allocator.",
        )?;
        process::register_metrics(&registry)?;
        Ok(Self {
            registry,
            exemplars: Exemplars::default(),
            tracer: Tracer::default(),
            recorded: Arc::default(),
            objects: Arc::default(),
        })
    }

    /// Uses an export's sampling of traces, and adds its own metric.
    ///
    /// # Errors
    /// When that metric's name is already registered.
    pub fn with_export(mut self, export: &Export) -> Result<Self, prometheus::Error> {
        export.register(&self.registry)?;
        self.tracer = export.tracer();
        Ok(self)
    }

    /// Returns the tracer, which decides which reconciles' traces are retained.
    #[must_use]
    pub const fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Counts one event.
    pub fn count<const N: usize>(&self, counter: &Counter<N>, labels: [&str; N]) {
        if let Some(series) = self.series(counter) {
            series.with_label_values(&labels).inc();
        }
    }

    /// Sets a number.
    pub fn set<const N: usize>(&self, gauge: &Gauge<N>, labels: [&str; N], value: usize) {
        if let Some(series) = self.series(gauge) {
            series.with_label_values(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// Changes a number.
    pub fn add<const N: usize>(&self, gauge: &Gauge<N>, labels: [&str; N], change: i64) {
        if let Some(series) = self.series(gauge) {
            series.with_label_values(&labels).add(change);
        }
    }

    /// Counts something that exists, until the guard is dropped.
    #[must_use]
    pub fn count_while<const N: usize>(&self, gauge: &Gauge<N>, labels: [&str; N]) -> CountGuard {
        let gauge = self.series(gauge).map(|series| series.with_label_values(&labels));
        if let Some(gauge) = &gauge {
            gauge.inc();
        }
        CountGuard { gauge }
    }

    /// Records a duration; `trace` is its trace, if retained.
    pub fn observe<const N: usize>(
        &self,
        seconds: &Seconds<N>,
        labels: [&str; N],
        took: Duration,
        trace: Option<TraceId>,
    ) {
        let took = took.as_secs_f64();
        if let Some(series) = self.series(seconds) {
            series.with_label_values(&labels).observe(took);
        }
        if let Some(trace) = trace {
            self.exemplars.record_exemplar(seconds.name, &labels, BUCKETS_SECONDS, took, trace);
        }
    }

    /// Replaces an object's series, which end with no rows; unchanged series have no gap. Returns
    /// the number of objects that have none because there are too many.
    pub fn set_rows<const N: usize>(
        &self,
        gauge: &ObjectGauge<N>,
        object: &[&str],
        rows: Vec<LabelledValue>,
    ) -> usize {
        let Some(series) = self.series(&gauge.declared) else { return 0 };
        let mut all = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(gauge.declared.name).or_default();
        let key: Vec<String> = object.iter().map(|&label| label.to_owned()).collect();
        let is_full = known.rows.len() >= gauge.objects_max && !known.rows.contains_key(&key);
        if !rows.is_empty() && is_full {
            known.omitted.insert(fingerprint_of(&object));
            return known.omitted.len();
        }
        known.omitted.remove(&fingerprint_of(&object));
        let labels = |row: &LabelledValue| -> Vec<String> {
            let object = object.iter().map(|&label| label.to_owned());
            object.chain(row.0.iter().map(|label| label.clone().into_owned())).collect()
        };
        for row in &rows {
            series.with_label_values(&labels(row)).set(row.1);
        }
        let before = known.rows.remove(&key).unwrap_or_default();
        for obsolete in before.iter().filter(|old| !rows.iter().any(|row| row.0 == old.0)) {
            // An error means that the series does not exist, as desired.
            let _ = series.remove_label_values(&labels(obsolete));
        }
        if !rows.is_empty() {
            known.rows.insert(key, rows);
        }
        known.omitted.len()
    }

    /// Returns a metric's series, registered when it is first recorded. A declaration that can't be
    /// registered is a fault of its file: it is logged once, and nothing is recorded.
    fn series<S: Series, const N: usize>(&self, declared: &Declared<S, N>) -> Option<S> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recorded.get(declared.name) {
            return known.downcast_ref::<S>().cloned();
        }
        let Declared { name, help, labels, .. } = declared;
        let created = S::create(name, help, labels).and_then(|created| {
            self.registry.register(Box::new(created.clone()))?;
            Ok(created)
        });
        match created {
            Ok(created) => {
                recorded.insert(declared.name, Box::new(created.clone()));
                Some(created)
            }
            Err(error) => {
                tracing::error!(name, %error, "a metric can't be registered, which is a bug");
                recorded.insert(declared.name, Box::new(()));
                None
            }
        }
    }

    /// Renders all metrics as text.
    ///
    /// # Errors
    /// When a metric cannot be encoded, which is a fault in its declaration.
    pub fn render(&self, format: MetricsFormat) -> Result<String, prometheus::Error> {
        format.render_families(&self.registry.gather(), &self.exemplars)
    }
}

/// Counts something that exists, until dropped.
#[derive(Debug)]
pub struct CountGuard {
    gauge: Option<IntGauge>,
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        if let Some(gauge) = &self.gauge {
            gauge.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a guard goes out of scope. Guarantee: nothing counts as running for ever.
    #[test]
    fn what_ended_no_longer_counts() {
        const RUNNING: Gauge<1> = Gauge::new("running", "Running.", ["kind"]);
        let metrics = Metrics::new().unwrap();
        drop(metrics.count_while(&RUNNING, ["EdgePool"]));
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(r#"running{kind="EdgePool"} 0"#), "{text}");
    }

    /// Scenario: one object beyond the limit. Guarantee: it has no series, and it is counted until
    /// it is deleted.
    #[test]
    fn objects_past_the_limit_are_counted() {
        const SHOWN: ObjectGauge<2> = ObjectGauge::new("shown", "Shown.", ["object", "state"], 2);
        let metrics = Metrics::new().unwrap();
        let rows = || vec![(vec![Cow::Borrowed("ready")], 1.0)];
        let omitted = ["a", "b", "c"].map(|object| metrics.set_rows(&SHOWN, &[object], rows()));
        assert_eq!(omitted, [0, 0, 1]);
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(r#"object="b""#) && !text.contains(r#"object="c""#), "{text}");
        assert_eq!(metrics.set_rows(&SHOWN, &["c"], Vec::new()), 0);
    }

    /// Scenario: two files declare one name with other labels. Guarantee: the first has its series,
    /// and the second records nothing instead of ending the operator.
    #[test]
    fn a_name_that_is_declared_twice_does_no_harm() {
        const FIRST: Counter<1> = Counter::new("events_total", "Events.", ["result"]);
        const SECOND: Gauge<0> = Gauge::new("events_total", "Events.", []);
        let metrics = Metrics::new().unwrap();
        metrics.count(&FIRST, ["ok"]);
        metrics.set(&SECOND, [], 3);
        let text = metrics.render(MetricsFormat::Prometheus).unwrap();
        assert!(text.contains(r#"events_total{result="ok"} 1"#), "{text}");
    }
}
