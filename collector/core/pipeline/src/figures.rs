//! The metrics at one moment, as plain numbers for a page. Read-only; a histogram appears as its
//! `_sum` and `_count`, without buckets.

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

/// One series of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The metric's name.
    pub name: String,
    /// Names and values of its labels, in the order of their names.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// Returns a label's value; empty without that label.
    #[must_use]
    pub fn label_value(&self, name: &str) -> &str {
        let label = self.labels.iter().find(|(known, _)| known == name);
        label.map_or("", |(_, value)| value)
    }
}

/// All series at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MetricsSnapshot(Vec<Figure>);

impl FromIterator<Figure> for MetricsSnapshot {
    fn from_iter<T: IntoIterator<Item = Figure>>(figures: T) -> Self {
        Self(figures.into_iter().collect())
    }
}

impl MetricsSnapshot {
    /// Converts a registry's gathered families.
    pub(crate) fn from_families(families: &[MetricFamily]) -> Self {
        families.iter().flat_map(of_family).collect()
    }

    /// Iterates over the series of one metric.
    pub fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Figure> {
        self.0.iter().filter(move |figure| figure.name == name)
    }

    /// Returns the sum of a metric's series, or `None` if there is none.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.of_name(name).map(|figure| figure.value).reduce(|sum, value| sum + value)
    }

    /// Returns the sum of a metric's series with this value of the label; zero if there is none.
    #[must_use]
    pub fn sum_where(&self, name: &str, label: &str, value: &str) -> f64 {
        let of_label = self.of_name(name).filter(|figure| figure.label_value(label) == value);
        of_label.map(|figure| figure.value).sum()
    }

    /// Returns only the series of these metrics.
    #[must_use]
    pub fn filter_names(&self, names: &[&str]) -> Self {
        self.0.iter().filter(|figure| names.contains(&&*figure.name)).cloned().collect()
    }
}

fn of_family(family: &MetricFamily) -> impl Iterator<Item = Figure> {
    let (name, kind) = (family.name(), family.get_field_type());
    family.get_metric().iter().flat_map(move |metric| of_metric(name, kind, metric))
}

fn of_metric(name: &str, kind: MetricType, metric: &Metric) -> Vec<Figure> {
    let pair = |label: &LabelPair| (label.name().to_owned(), label.value().to_owned());
    let labels: Vec<_> = metric.get_label().iter().map(pair).collect();
    let figure = |suffix: &str, value: f64| Figure {
        name: format!("{name}{suffix}"),
        labels: labels.clone(),
        value,
    };
    match kind {
        MetricType::COUNTER => vec![figure("", metric.get_counter().get_value())],
        MetricType::GAUGE => vec![figure("", metric.get_gauge().get_value())],
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            let count = histogram.get_sample_count() as f64;
            vec![figure("_sum", histogram.get_sample_sum()), figure("_count", count)]
        }
        // The collector registers neither.
        MetricType::SUMMARY | MetricType::UNTYPED => Vec::new(),
    }
}
