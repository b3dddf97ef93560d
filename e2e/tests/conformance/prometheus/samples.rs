//! Samples as Prometheus has them, whoever took them.

use std::collections::BTreeMap;

/// The name is the label `__name__`.
pub(crate) type Labels = BTreeMap<String, String>;

/// The bits that Prometheus marks the end of a series with.
pub(crate) const STALE: u64 = 0x7ff0_0000_0000_0002;

/// A sample's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number, by its bits: NaN is NaN, and -0 is not 0.
    Number(u64),
    /// A native histogram.
    Native(Box<Native>),
    /// The series has ended.
    Stale,
}

impl Value {
    /// Of a double that Prometheus has.
    pub(crate) fn of(value: f64) -> Self {
        match value {
            value if value.to_bits() == STALE => Self::Stale,
            // Which NaN it is depends on who computed it.
            value if value.is_nan() => Self::Number(f64::NAN.to_bits()),
            value => Self::Number(value.to_bits()),
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Number(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }
}

/// A native histogram: its buckets by index, empty ones left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Native {
    pub(crate) schema: i32,
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) zero_count: u64,
    pub(crate) positive: BTreeMap<i64, u64>,
    pub(crate) negative: BTreeMap<i64, u64>,
}

/// A sample.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) labels: Labels,
    pub(crate) time_millis: i64,
    pub(crate) value: Value,
}

/// An exemplar: its series (of a histogram all of it, without its bucket), labels and value's bits,
/// and time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exemplar {
    pub(crate) series: Labels,
    pub(crate) labels: Labels,
    pub(crate) value: u64,
    pub(crate) time_millis: i64,
}

/// A bound or a quantile, however it was written.
pub(crate) fn canonical(bound: &str) -> String {
    bound.parse::<f64>().map_or_else(|_| bound.to_owned(), |bound| bound.to_string())
}
