//! A view of metrics.

use crate::error::{WireErrorKind, WireFault};
use crate::otlp::common::{Repeated, skip_other};
use crate::otlp::walk::walk;
use crate::protobuf::{Cursor, LENGTH, field_tag};

/// The points of a metric: values of its repeated `data_points` field.
pub type Points<'a> = Repeated<'a>;

/// A metric: a name and points of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Metric<'a> {
    /// Name.
    pub name: &'a [u8],
    /// Description.
    pub description: &'a [u8],
    /// Unit, as UCUM code.
    pub unit: &'a [u8],
    /// The points.
    pub data: MetricData<'a>,
}

/// The points of a metric, by kind. Temporality is `AggregationTemporality` by number.
#[derive(Clone, Copy, Debug)]
pub enum MetricData<'a> {
    /// None, or of an unknown kind.
    Empty,
    /// Each a [`crate::otlp::NumberPoint`].
    Gauge(Points<'a>),
    /// Each a [`crate::otlp::NumberPoint`].
    Sum {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
        /// Whether the sum only grows.
        monotonic: bool,
    },
    /// Each a [`crate::otlp::HistogramPoint`].
    Histogram {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
    },
    /// Each an [`crate::otlp::ExponentialHistogramPoint`].
    ExponentialHistogram {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
    },
    /// Each a [`crate::otlp::SummaryPoint`].
    Summary(Points<'a>),
}

impl<'a> Metric<'a> {
    /// Reads a `Metric` message without parsing points.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        const NAME: u32 = field_tag(1, LENGTH);
        const DESCRIPTION: u32 = field_tag(2, LENGTH);
        const UNIT: u32 = field_tag(3, LENGTH);
        const GAUGE: u32 = field_tag(5, LENGTH);
        const SUM: u32 = field_tag(7, LENGTH);
        const HISTOGRAM: u32 = field_tag(9, LENGTH);
        const EXPONENTIAL: u32 = field_tag(10, LENGTH);
        const SUMMARY: u32 = field_tag(11, LENGTH);
        const METADATA: u32 = field_tag(12, LENGTH);
        let mut cursor = Cursor::new(message);
        let mut metric = Self { name: &[], description: &[], unit: &[], data: MetricData::Empty };
        while let Some(tag) = cursor.tag()? {
            match tag {
                NAME => metric.name = cursor.bytes()?,
                DESCRIPTION => metric.description = cursor.bytes()?,
                UNIT => metric.unit = cursor.bytes()?,
                GAUGE | SUM | HISTOGRAM | EXPONENTIAL | SUMMARY
                    if !matches!(metric.data, MetricData::Empty) =>
                {
                    return Err(cursor.fault_here(WireErrorKind::DataTwice));
                }
                GAUGE => metric.data = MetricData::Gauge(Data::points_only(cursor.bytes()?)?),
                SUM => {
                    let Data { points, temporality, monotonic } = Data::parse_sum(cursor.bytes()?)?;
                    metric.data = MetricData::Sum { points, temporality, monotonic };
                }
                HISTOGRAM => {
                    let Data { points, temporality, .. } = Data::parse_histogram(cursor.bytes()?)?;
                    metric.data = MetricData::Histogram { points, temporality };
                }
                EXPONENTIAL => {
                    let Data { points, temporality, .. } = Data::parse_histogram(cursor.bytes()?)?;
                    metric.data = MetricData::ExponentialHistogram { points, temporality };
                }
                SUMMARY => metric.data = MetricData::Summary(Data::points_only(cursor.bytes()?)?),
                METADATA => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b1_1110_1010_1110)?,
            }
        }
        Ok(metric)
    }
}

/// The union of the fields of `Gauge`, `Sum`, `Histogram`, `ExponentialHistogram` and `Summary`.
#[derive(Default)]
struct Data<'a> {
    points: Points<'a>,
    temporality: i32,
    monotonic: bool,
}

impl<'a> Data<'a> {
    fn points_only(message: &'a [u8]) -> Result<Points<'a>, WireFault> {
        let mut data = Self::default();
        walk! { message => data { 1 repeated points } }
        Ok(data.points)
    }

    fn parse_histogram(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut data = Self::default();
        walk! { message => data { 1 repeated points, 2 int32 temporality } }
        Ok(data)
    }

    fn parse_sum(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut data = Self::default();
        walk! { message => data { 1 repeated points, 2 int32 temporality, 3 flag monotonic } }
        Ok(data)
    }
}
