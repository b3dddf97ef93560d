//! The content of metric point `i`: which metric it belongs to, and what it measured.

use super::Set;
use crate::mix::Draw;
use crate::plan::{Keys, Plan, STEP_NANOS};

/// Neighbouring points that share a metric.
const POINTS_PER_METRIC: u64 = 5;

/// How long before the plan's start counting began.
const COUNTED_SINCE_NANOS: u64 = 60_000_000_000;

/// The points of a metric, with OTLP's numbers for temporality: 1 delta, 2 cumulative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Sum { temporality: u8, is_monotonic: bool },
    Histogram { temporality: u8 },
    ExponentialHistogram { temporality: u8 },
    Summary,
}

/// What the points of a metric share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
}

const fn metric(
    kind: Kind,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
) -> Metric {
    Metric { name, description, unit, kind }
}

const fn sum(temporality: u8, is_monotonic: bool) -> Kind {
    Kind::Sum { temporality, is_monotonic }
}

const DELTA: u8 = 1;
const CUMULATIVE: u8 = 2;
const CPU_TIME: &str = "Seconds each CPU spent in each state";

/// A service's metrics, in the order of its points.
const METRICS: [Metric; 20] = [
    metric(Kind::Gauge, "system.memory.utilization", "1", "Share of memory in use"),
    metric(sum(CUMULATIVE, true), "system.cpu.time", "s", CPU_TIME),
    metric(Kind::Gauge, "jvm.memory.used", "By", "Memory in use, \"heap\" and other"),
    metric(sum(CUMULATIVE, true), "system.network.io", "By", ""),
    metric(
        Kind::Histogram { temporality: CUMULATIVE },
        "http.server.request.duration",
        "s",
        "Duration of HTTP server requests",
    ),
    metric(Kind::Gauge, "system.cpu.utilization", "1", ""),
    metric(sum(CUMULATIVE, false), "http.server.active_requests", "{request}", "Under way now"),
    metric(Kind::Gauge, "system.paging.utilization", "1", "Share of swap in use"),
    metric(sum(DELTA, true), "shop.orders", "{order}", "Orders taken since the last report"),
    metric(
        Kind::ExponentialHistogram { temporality: DELTA },
        "db.client.operation.duration",
        "s",
        "Duration of database operations",
    ),
    metric(Kind::Gauge, "process.open_file_descriptors", "{count}", ""),
    metric(sum(CUMULATIVE, true), "process.cpu.time", "s", CPU_TIME),
    metric(Kind::Gauge, "kafka.consumer.lag", "{message}", "Messages behind the end"),
    metric(sum(CUMULATIVE, false), "shop.stock", "{item}", "Items in stock, über all Läger"),
    metric(
        Kind::Histogram { temporality: DELTA },
        "rpc.client.duration",
        "ms",
        "Duration of outbound calls",
    ),
    metric(Kind::Gauge, "shop.temperature", "Cel", "May be below zero"),
    metric(sum(DELTA, false), "queue.size.change", "{message}", ""),
    metric(
        Kind::Histogram { temporality: CUMULATIVE },
        "http.client.request.body.size",
        "By",
        "Size of request bodies",
    ),
    metric(
        Kind::ExponentialHistogram { temporality: CUMULATIVE },
        "messaging.process.duration",
        "s",
        "",
    ),
    metric(Kind::Summary, "go.gc.duration", "s", "Pauses of the garbage collector"),
];

/// Bounds as HTTP durations have them.
const BOUNDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
const QUANTILES: [f64; 4] = [0.0, 0.5, 0.99, 1.0];

/// A measured number, of one of OTLP's two types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i64),
    Double(f64),
}

impl Number {
    /// As the tables hold it.
    pub(crate) fn as_double(self) -> f64 {
        match self {
            // Below 2^53, so exact.
            Self::Int(number) => number as f64,
            Self::Double(number) => number,
        }
    }
}

/// What both kinds of histograms have; absent ones are stored as 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Totals {
    pub(crate) count: u64,
    pub(crate) sum: Option<f64>,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
}

/// A histogram with explicit bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HistogramData {
    pub(crate) totals: Totals,
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
    pub(crate) totals: Totals,
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

    /// None or up to three.
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

/// What a point measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Data {
    Number(Number),
    Histogram(HistogramData),
    Exponential(ExponentialData),
    Summary(SummaryData),
}

/// One measurement behind an aggregated point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exemplar {
    pub(crate) time_nanos: u64,
    pub(crate) value: Number,
    /// 0: outside of any trace, and so is the span.
    pub(crate) trace_id: u128,
    pub(crate) span_id: u64,
    pub(crate) attributes: Set,
}

/// All of one point but its resource, scope and metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    /// 0: not known.
    pub(crate) start_nanos: u64,
    pub(crate) time_nanos: u64,
    pub(crate) flags: u32,
    pub(crate) attributes: Set,
    pub(crate) data: Data,
    exemplars: [Option<Exemplar>; 2],
}

impl Point {
    pub(crate) fn exemplars(&self) -> impl Iterator<Item = &Exemplar> {
        self.exemplars.iter().flatten()
    }
}

/// Makes points of one plan.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    keys: Keys,
    group_points: u64,
    start_nanos: u64,
}

impl Points {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            keys: plan.keys(),
            group_points: u64::from(plan.records_per_resource),
            start_nanos: plan.start_unix_nanos,
        }
    }

    /// The metric of a point.
    pub(crate) fn metric(&self, index: u64) -> &'static Metric {
        let place = index % self.group_points;
        &METRICS[(place / POINTS_PER_METRIC) as usize % METRICS.len()]
    }

    /// One past the last point in the metric of point `index`.
    pub(crate) fn metric_end(&self, index: u64) -> u64 {
        let place = index % self.group_points;
        let end = (place / POINTS_PER_METRIC + 1) * POINTS_PER_METRIC;
        index - place + end.min(self.group_points)
    }

    /// The content of a point.
    pub(crate) fn at(&self, index: u64) -> Point {
        let draw = self.keys.draw(index);
        let more = draw.next();
        let kind = self.metric(index).kind;
        let time_nanos = self.start_nanos + index * STEP_NANOS;
        let start_nanos = match kind {
            Kind::Gauge => 0,
            _ => self.start_nanos.saturating_sub(COUNTED_SINCE_NANOS),
        };
        let count = match (kind, draw.bits(0, 4)) {
            (Kind::Summary, _) | (_, 2..) => 0,
            (_, count) => 1 + count,
        };
        let exemplar = |at| (at < count).then(|| self.exemplar(index, time_nanos - at, more));
        Point {
            start_nanos,
            time_nanos,
            // OTLP's only flag: nothing was recorded.
            flags: u32::from(draw.is_rare(4, 6)),
            attributes: Set::point(draw, index),
            data: data(kind, draw, more),
            exemplars: [exemplar(0), exemplar(1)],
        }
    }

    fn exemplar(&self, index: u64, time_nanos: u64, draw: Draw) -> Exemplar {
        let is_traced = !draw.is_rare(60, 2);
        let with_attributes = draw.bits(59, 1) == 1;
        Exemplar {
            time_nanos,
            value: number(draw),
            trace_id: if is_traced { self.keys.trace_id(index / self.group_points) } else { 0 },
            span_id: if is_traced { self.keys.span_id(index) } else { 0 },
            attributes: if with_attributes { Set::exemplar(draw) } else { Set::NOTHING },
        }
    }
}

/// One in two is a double; one in eight is negative.
fn number(draw: Draw) -> Number {
    let size = draw.bits(8, 30) as i64;
    let signed = if draw.is_rare(5, 3) { -size } else { size };
    if draw.bits(38, 1) == 0 { Number::Int(signed) } else { Number::Double(signed as f64 / 1024.0) }
}

fn data(kind: Kind, draw: Draw, more: Draw) -> Data {
    match kind {
        Kind::Gauge | Kind::Sum { .. } => Data::Number(number(draw)),
        Kind::Histogram { .. } => {
            let buckets: [u64; 11] = std::array::from_fn(|at| more.bits(5 * at as u32, 5));
            Data::Histogram(HistogramData {
                totals: totals(draw, buckets.iter().sum()),
                buckets,
                // One in 16 has a single bucket, which is sent as none.
                has_buckets: !draw.is_rare(56, 4),
            })
        }
        Kind::ExponentialHistogram { .. } => {
            let counts: [u64; 8] = std::array::from_fn(|at| more.bits(7 * at as u32, 8));
            let negative_count = draw.bits(56, 2) as usize;
            let zero_count = draw.bits(52, 4);
            let negative: u64 = counts[..negative_count].iter().sum();
            Data::Exponential(ExponentialData {
                totals: totals(draw, counts.iter().sum::<u64>() + negative + zero_count),
                scale: draw.bits(48, 4) as i32 - 4,
                zero_count,
                zero_threshold: if draw.is_rare(50, 2) { 1e-6 } else { 0.0 },
                positive_offset: draw.bits(20, 8) as i32 - 128,
                negative_offset: draw.bits(28, 4) as i32,
                counts,
                negative_count,
            })
        }
        Kind::Summary => {
            let unit = more.bits(0, 16) as f64 / 65_536.0;
            Data::Summary(SummaryData {
                count: draw.bits(8, 20),
                sum: draw.bits(8, 30) as f64 / 64.0,
                values: [unit / 8.0, unit, unit * 4.0, unit * 16.0],
            })
        }
    }
}

/// Sum, smallest and largest are absent now and then, as OTLP allows.
fn totals(draw: Draw, count: u64) -> Totals {
    let extreme = |at, value| (!draw.is_rare(at, 3)).then_some(value);
    Totals {
        count,
        sum: (!draw.is_rare(33, 4)).then_some(draw.bits(8, 24) as f64 / 256.0),
        min: extreme(36, draw.bits(8, 8) as f64 / 512.0),
        max: extreme(39, 1.0 + draw.bits(16, 8) as f64 / 4.0),
    }
}
