//! The content of metric point `i`: its metric and its measurements.

use super::Set;
use crate::mix::Draw;
use crate::plan::{Keys, LoadPlan, STEP_NANOS};

/// Neighbouring points that share a metric.
const POINTS_PER_METRIC: u64 = 5;

/// How long before the plan's start the counters started.
const COUNTED_SINCE_NANOS: u64 = 60_000_000_000;

/// The points of a metric, with OTLP's numbers for temporality: 1 delta, 2 cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Gauge,
    Sum { temporality: u8, is_monotonic: bool },
    Histogram { temporality: u8 },
    ExponentialHistogram { temporality: u8 },
    Summary,
}

/// The fields that the points of a metric share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricContent {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: MetricKind,
}

const fn metric(
    kind: MetricKind,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
) -> MetricContent {
    MetricContent { name, description, unit, kind }
}

const fn sum(temporality: u8, is_monotonic: bool) -> MetricKind {
    MetricKind::Sum { temporality, is_monotonic }
}

const DELTA: u8 = 1;
const CUMULATIVE: u8 = 2;
const CPU_TIME: &str = "Seconds each CPU spent in each state";

/// A service's metrics, in the order of its points.
const METRICS: [MetricContent; 20] = [
    metric(MetricKind::Gauge, "system.memory.utilization", "1", "Share of memory in use"),
    metric(sum(CUMULATIVE, true), "system.cpu.time", "s", CPU_TIME),
    metric(MetricKind::Gauge, "jvm.memory.used", "By", "Memory in use, \"heap\" and other"),
    metric(sum(CUMULATIVE, true), "system.network.io", "By", ""),
    metric(
        MetricKind::Histogram { temporality: CUMULATIVE },
        "http.server.request.duration",
        "s",
        "Duration of HTTP server requests",
    ),
    metric(MetricKind::Gauge, "system.cpu.utilization", "1", ""),
    metric(sum(CUMULATIVE, false), "http.server.active_requests", "{request}", "Under way now"),
    metric(MetricKind::Gauge, "system.paging.utilization", "1", "Share of swap in use"),
    metric(sum(DELTA, true), "shop.orders", "{order}", "Orders taken since the last report"),
    metric(
        MetricKind::ExponentialHistogram { temporality: DELTA },
        "db.client.operation.duration",
        "s",
        "Duration of database operations",
    ),
    metric(MetricKind::Gauge, "process.open_file_descriptors", "{count}", ""),
    metric(sum(CUMULATIVE, true), "process.cpu.time", "s", CPU_TIME),
    metric(MetricKind::Gauge, "kafka.consumer.lag", "{message}", "Messages behind the end"),
    metric(sum(CUMULATIVE, false), "shop.stock", "{item}", "Items in stock, über all Läger"),
    metric(
        MetricKind::Histogram { temporality: DELTA },
        "rpc.client.duration",
        "ms",
        "Duration of outbound calls",
    ),
    metric(MetricKind::Gauge, "shop.temperature", "Cel", "May be below zero"),
    metric(sum(DELTA, false), "queue.size.change", "{message}", ""),
    metric(
        MetricKind::Histogram { temporality: CUMULATIVE },
        "http.client.request.body.size",
        "By",
        "Size of request bodies",
    ),
    metric(
        MetricKind::ExponentialHistogram { temporality: CUMULATIVE },
        "messaging.process.duration",
        "s",
        "",
    ),
    metric(MetricKind::Summary, "go.gc.duration", "s", "Pauses of the garbage collector"),
];

/// Typical bounds of HTTP durations.
const BOUNDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
const QUANTILES: [f64; 4] = [0.0, 0.5, 0.99, 1.0];

/// A measured number, of one of OTLP's two types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measurement {
    Int(i64),
    Double(f64),
}

impl Measurement {
    /// Returns the number as the tables store it.
    pub(crate) fn as_double(self) -> f64 {
        match self {
            // Below 2^53, so exact.
            Self::Int(number) => number as f64,
            Self::Double(number) => number,
        }
    }
}

/// The totals of both kinds of histograms; absent ones are stored as 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HistogramTotals {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// A histogram with explicit bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HistogramData {
    pub(crate) totals: HistogramTotals,
    buckets: [u64; BOUNDS.len() + 1],
    has_buckets: bool,
}

impl HistogramData {
    pub(crate) fn buckets(&self) -> &[u64] {
        if self.has_buckets { &self.buckets } else { &[] }
    }

    pub(crate) fn bounds(&self) -> &'static [f64] {
        if self.has_buckets { &BOUNDS } else { &[] }
    }
}

/// An exponential histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExponentialData {
    pub(crate) totals: HistogramTotals,
    pub(crate) scale: i32,
    pub(crate) zero_count: u64,
    pub(crate) zero_threshold: f64,
    pub(crate) positive_offset: i32,
    pub(crate) negative_offset: i32,
    counts: [u64; 8],
    negative_count: usize,
}

impl ExponentialData {
    pub(crate) fn positive(&self) -> &[u64] {
        &self.counts
    }

    /// Up to three buckets, or none.
    pub(crate) fn negative(&self) -> &[u64] {
        &self.counts[..self.negative_count]
    }
}

/// A summary: quantiles and their values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SummaryData {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    values: [f64; QUANTILES.len()],
}

impl SummaryData {
    pub(crate) fn quantiles(&self) -> &'static [f64] {
        &QUANTILES
    }

    pub(crate) fn values(&self) -> &[f64] {
        &self.values
    }
}

/// The measurement of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    Number(Measurement),
    Histogram(HistogramData),
    Exponential(ExponentialData),
    Summary(SummaryData),
}

/// One measurement behind an aggregated point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExemplarContent {
    pub(crate) time_nanos: u64,
    pub(crate) value: Measurement,
    /// 0: outside of any trace, as is the span.
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) attributes: Set,
}

/// All of one point except its resource, scope and metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointContent {
    /// 0: unknown.
    pub(crate) start_nanos: u64,
    pub(crate) time_nanos: u64,
    pub(crate) flags: u32,
    pub(crate) attributes: Set,
    pub(crate) data: Data,
    exemplars: [Option<ExemplarContent>; 2],
}

impl PointContent {
    pub(crate) fn exemplars(&self) -> impl Iterator<Item = &ExemplarContent> {
        self.exemplars.iter().flatten()
    }
}

/// Creates points of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    keys: Keys,
    group_points: u64,
    start_nanos: u64,
}

impl Points {
    pub(crate) fn new(plan: &LoadPlan) -> Self {
        Self {
            keys: plan.stream_keys(),
            group_points: u64::from(plan.records_per_resource),
            start_nanos: plan.start_unix_nanos,
        }
    }

    /// Returns the metric of a point.
    pub(crate) fn metric_at(&self, index: u64) -> &'static MetricContent {
        let offset = index % self.group_points;
        &METRICS[(offset / POINTS_PER_METRIC) as usize % METRICS.len()]
    }

    /// Returns one past the last point in the metric of point `index`.
    pub(crate) fn metric_end(&self, index: u64) -> u64 {
        let offset = index % self.group_points;
        let end = (offset / POINTS_PER_METRIC + 1) * POINTS_PER_METRIC;
        index - offset + end.min(self.group_points)
    }

    /// Returns the content of a point.
    pub(crate) fn point_at(&self, index: u64) -> PointContent {
        let draw = self.keys.record_draw(index);
        let more = draw.next();
        let kind = self.metric_at(index).kind;
        let time_nanos = self.start_nanos + index * STEP_NANOS;
        let start_nanos = match kind {
            MetricKind::Gauge => 0,
            _ => self.start_nanos.saturating_sub(COUNTED_SINCE_NANOS),
        };
        let count = match (kind, draw.bits(0, 4)) {
            (MetricKind::Summary, _) | (_, 2..) => 0,
            (_, count) => 1 + count,
        };
        let exemplar = |at| (at < count).then(|| self.draw_exemplar(index, time_nanos - at, more));
        PointContent {
            start_nanos,
            time_nanos,
            // OTLP's only flag: nothing was recorded.
            flags: u32::from(draw.is_rare(4, 6)),
            attributes: Set::point(draw, index),
            data: draw_data(kind, draw, more),
            exemplars: [exemplar(0), exemplar(1)],
        }
    }

    fn draw_exemplar(&self, index: u64, time_nanos: u64, draw: Draw) -> ExemplarContent {
        let is_traced = !draw.is_rare(60, 2);
        let with_attributes = draw.bits(59, 1) == 1;
        ExemplarContent {
            time_nanos,
            value: draw_number(draw),
            trace_id: if is_traced { self.keys.trace_id(index / self.group_points) } else { 0 },
            span_id: if is_traced { self.keys.span_id(index) } else { 0 },
            attributes: if with_attributes { Set::exemplar(draw) } else { Set::NOTHING },
        }
    }
}

/// Draws a number: one in two is a double; one in eight is negative.
fn draw_number(draw: Draw) -> Measurement {
    let size = draw.bits(8, 30) as i64;
    let signed = if draw.is_rare(5, 3) { -size } else { size };
    if draw.bits(38, 1) == 0 {
        Measurement::Int(signed)
    } else {
        Measurement::Double(signed as f64 / 1024.0)
    }
}

fn draw_data(kind: MetricKind, draw: Draw, more: Draw) -> Data {
    match kind {
        MetricKind::Gauge | MetricKind::Sum { .. } => Data::Number(draw_number(draw)),
        MetricKind::Histogram { .. } => {
            let buckets: [u64; 11] = std::array::from_fn(|at| more.bits(5 * at as u32, 5));
            Data::Histogram(HistogramData {
                totals: draw_totals(draw, buckets.iter().sum()),
                buckets,
                // One in 16 has a single bucket, which is sent as no buckets.
                has_buckets: !draw.is_rare(56, 4),
            })
        }
        MetricKind::ExponentialHistogram { .. } => {
            let counts: [u64; 8] = std::array::from_fn(|at| more.bits(7 * at as u32, 8));
            let negative_count = draw.bits(56, 2) as usize;
            let zero_count = draw.bits(52, 4);
            let negative: u64 = counts[..negative_count].iter().sum();
            Data::Exponential(ExponentialData {
                totals: draw_totals(draw, counts.iter().sum::<u64>() + negative + zero_count),
                scale: draw.bits(48, 4) as i32 - 4,
                zero_count,
                zero_threshold: if draw.is_rare(50, 2) { 1e-6 } else { 0.0 },
                positive_offset: draw.bits(20, 8) as i32 - 128,
                negative_offset: draw.bits(28, 4) as i32,
                counts,
                negative_count,
            })
        }
        MetricKind::Summary => {
            let unit = more.bits(0, 16) as f64 / 65_536.0;
            Data::Summary(SummaryData {
                count: draw.bits(8, 20),
                sum: draw.bits(8, 30) as f64 / 64.0,
                values: [unit / 8.0, unit, unit * 4.0, unit * 16.0],
            })
        }
    }
}

/// Draws totals: sum, minimum and maximum are sometimes absent, as OTLP allows.
fn draw_totals(draw: Draw, count: u64) -> HistogramTotals {
    let extreme = |at, value| (!draw.is_rare(at, 3)).then_some(value);
    HistogramTotals {
        count,
        sum: (!draw.is_rare(33, 4)).then_some(draw.bits(8, 24) as f64 / 256.0),
        min: extreme(36, draw.bits(8, 8) as f64 / 512.0),
        max: extreme(39, 1.0 + draw.bits(16, 8) as f64 / 4.0),
    }
}
