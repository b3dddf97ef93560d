//! A view over metrics.

use crate::error::{Fault, WireErrorKind};
use crate::otlp::common::{Repeated, skip_other};
use crate::protobuf::{Cursor, LENGTH, VARINT, tag};

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
    /// None set, or of a kind not known here.
    Empty,
    /// Each a [`super::NumberPoint`].
    Gauge(Points<'a>),
    /// Each a [`super::NumberPoint`].
    Sum {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
        /// Whether the sum only grows.
        monotonic: bool,
    },
    /// Each a [`super::HistogramPoint`].
    Histogram {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
    },
    /// Each an [`super::ExponentialHistogramPoint`].
    ExponentialHistogram {
        /// The points.
        points: Points<'a>,
        /// Temporality.
        temporality: i32,
    },
    /// Each a [`super::SummaryPoint`].
    Summary(Points<'a>),
}

impl<'a> Metric<'a> {
    /// Reads a `Metric` message; points are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const NAME: u32 = tag(1, LENGTH);
        const DESCRIPTION: u32 = tag(2, LENGTH);
        const UNIT: u32 = tag(3, LENGTH);
        const GAUGE: u32 = tag(5, LENGTH);
        const SUM: u32 = tag(7, LENGTH);
        const HISTOGRAM: u32 = tag(9, LENGTH);
        const EXPONENTIAL: u32 = tag(10, LENGTH);
        const SUMMARY: u32 = tag(11, LENGTH);
        const METADATA: u32 = tag(12, LENGTH);
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
                    return Err(cursor.fault(WireErrorKind::DataTwice));
                }
                GAUGE => {
                    metric.data = MetricData::Gauge(Data::parse(cursor.bytes()?, 0b10)?.points);
                }
                SUM => {
                    let Data { points, temporality, monotonic } =
                        Data::parse(cursor.bytes()?, 0b1110)?;
                    metric.data = MetricData::Sum { points, temporality, monotonic };
                }
                HISTOGRAM => {
                    let Data { points, temporality, .. } = Data::parse(cursor.bytes()?, 0b110)?;
                    metric.data = MetricData::Histogram { points, temporality };
                }
                EXPONENTIAL => {
                    let Data { points, temporality, .. } = Data::parse(cursor.bytes()?, 0b110)?;
                    metric.data = MetricData::ExponentialHistogram { points, temporality };
                }
                SUMMARY => {
                    metric.data = MetricData::Summary(Data::parse(cursor.bytes()?, 0b10)?.points);
                }
                METADATA => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b1_1110_1010_1110)?,
            }
        }
        Ok(metric)
    }
}

/// What `Gauge`, `Sum`, `Histogram`, `ExponentialHistogram` and `Summary` hold between them.
#[derive(Default)]
struct Data<'a> {
    points: Points<'a>,
    temporality: i32,
    monotonic: bool,
}

impl<'a> Data<'a> {
    fn parse(message: &'a [u8], known: u32) -> Result<Self, Fault> {
        const POINTS: u32 = tag(1, LENGTH);
        const TEMPORALITY: u32 = tag(2, VARINT);
        const MONOTONIC: u32 = tag(3, VARINT);
        let mut cursor = Cursor::new(message);
        let mut data = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(data);
            };
            match tag {
                POINTS => {
                    cursor.bytes()?;
                    data.points.extend(tag, message, before, cursor.rest());
                }
                TEMPORALITY if known & 0b100 != 0 => data.temporality = cursor.varint()? as i32,
                MONOTONIC if known & 0b1000 != 0 => data.monotonic = cursor.varint()? != 0,
                other => skip_other(&mut cursor, other, known)?,
            }
        }
    }
}
