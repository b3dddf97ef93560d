//! Views of metric points and exemplars.

use crate::error::WireFault;
use crate::otlp::common::{KeyValues, Repeated};
use crate::otlp::views::numbers::Numbers;
use crate::otlp::walk::walk;

/// A point of a gauge or sum. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberPoint<'a> {
    /// Start of the interval; 0 if unknown.
    pub start_time_unix_nano: u64,
    /// Time of the point.
    pub time_unix_nano: u64,
    /// The value; integers are converted, exact up to 2^53. 0 if none is set.
    pub value: f64,
    /// `DataPointFlags`: 1 means that no value was recorded.
    pub flags: u32,
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Exemplars: each an [`Exemplar`] message.
    pub exemplars: Repeated<'a>,
}

impl<'a> NumberPoint<'a> {
    /// Reads a `NumberDataPoint` message without parsing attributes and exemplars.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut point = Self::default();
        walk! { message => point {
            2 fixed64 start_time_unix_nano,
            3 fixed64 time_unix_nano,
            4 double value,
            5 repeated exemplars,
            6 sfixed64_to_double value,
            7 repeated attributes,
            8 uint32 flags,
        } }
        Ok(point)
    }
}

/// A histogram's point. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct HistogramPoint<'a> {
    /// Start of the interval; 0 if unknown.
    pub start_time_unix_nano: u64,
    /// Time of the point.
    pub time_unix_nano: u64,
    /// Number of values.
    pub count: u64,
    /// Sum of the values; 0 if not set.
    pub sum: f64,
    /// Smallest value; 0 if not set.
    pub min: f64,
    /// Largest value; 0 if not set.
    pub max: f64,
    /// `DataPointFlags`.
    pub flags: u32,
    /// Values per bucket: `fixed64`.
    pub bucket_counts: Numbers<'a>,
    /// Upper bounds of the buckets: doubles, read as `fixed64`.
    pub explicit_bounds: Numbers<'a>,
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Exemplars: each an [`Exemplar`] message.
    pub exemplars: Repeated<'a>,
}

impl<'a> HistogramPoint<'a> {
    /// Reads a `HistogramDataPoint` message without parsing repeated fields.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut point = Self::default();
        walk! { message => point {
            2 fixed64 start_time_unix_nano,
            3 fixed64 time_unix_nano,
            4 fixed64 count,
            5 double sum,
            6 numbers64 bucket_counts,
            7 numbers64 explicit_bounds,
            8 repeated exemplars,
            9 repeated attributes,
            10 uint32 flags,
            11 double min,
            12 double max,
        } }
        Ok(point)
    }
}

/// An exponential histogram's point. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExponentialHistogramPoint<'a> {
    /// Start of the interval; 0 if unknown.
    pub start_time_unix_nano: u64,
    /// Time of the point.
    pub time_unix_nano: u64,
    /// Number of values.
    pub count: u64,
    /// Sum of the values; 0 if not set.
    pub sum: f64,
    /// Smallest value; 0 if not set.
    pub min: f64,
    /// Largest value; 0 if not set.
    pub max: f64,
    /// Resolution: base is 2^(2^-scale).
    pub scale: i32,
    /// Values in the zero bucket.
    pub zero_count: u64,
    /// Buckets of positive values.
    pub positive: Buckets<'a>,
    /// Buckets of negative values.
    pub negative: Buckets<'a>,
    /// `DataPointFlags`.
    pub flags: u32,
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Exemplars: each an [`Exemplar`] message.
    pub exemplars: Repeated<'a>,
}

impl<'a> ExponentialHistogramPoint<'a> {
    /// Reads an `ExponentialHistogramDataPoint` message without parsing attributes and exemplars.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut point = Self::default();
        walk! { message => point {
            1 repeated attributes,
            2 fixed64 start_time_unix_nano,
            3 fixed64 time_unix_nano,
            4 fixed64 count,
            5 double sum,
            6 sint32 scale,
            7 fixed64 zero_count,
            8 merge positive,
            9 merge negative,
            10 uint32 flags,
            11 repeated exemplars,
            12 double min,
            13 double max,
            14 skip_fixed64,
        } }
        Ok(point)
    }
}

/// The buckets on one side of zero. The counts of a repeated message replace the earlier ones: no
/// encoder repeats it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buckets<'a> {
    /// Index of the first bucket.
    pub offset: i32,
    /// Values per bucket: varints.
    pub counts: Numbers<'a>,
}

impl<'a> Buckets<'a> {
    fn merge(&mut self, message: &'a [u8]) -> Result<(), WireFault> {
        let mut read = Self { offset: self.offset, counts: Numbers::default() };
        walk! { message => read { 1 sint32 offset, 2 varints counts } }
        self.offset = read.offset;
        if !read.counts.is_empty() {
            self.counts = read.counts;
        }
        Ok(())
    }
}

/// A summary's point. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryPoint<'a> {
    /// Start of the interval; 0 if unknown.
    pub start_time_unix_nano: u64,
    /// Time of the point.
    pub time_unix_nano: u64,
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: f64,
    /// `DataPointFlags`.
    pub flags: u32,
    /// Quantiles: each a [`Quantile`] message.
    pub quantiles: Repeated<'a>,
    /// Attributes.
    pub attributes: KeyValues<'a>,
}

impl<'a> SummaryPoint<'a> {
    /// Reads a `SummaryDataPoint` message without parsing attributes and quantiles.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut point = Self::default();
        walk! { message => point {
            2 fixed64 start_time_unix_nano,
            3 fixed64 time_unix_nano,
            4 fixed64 count,
            5 double sum,
            6 repeated quantiles,
            7 repeated attributes,
            8 uint32 flags,
        } }
        Ok(point)
    }
}

/// A value at a quantile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantile {
    /// The quantile, 0.0 to 1.0.
    pub quantile: f64,
    /// Its value.
    pub value: f64,
}

impl Quantile {
    /// Reads a `ValueAtQuantile` message.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn parse(message: &[u8]) -> Result<Self, WireFault> {
        let mut quantile = Self::default();
        walk! { message => quantile {
            1 double quantile,
            2 double value,
        } }
        Ok(quantile)
    }
}

/// A sample value of a point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exemplar<'a> {
    /// The sample's time, in nanoseconds since 1970.
    pub time_unix_nano: u64,
    /// The value; integers are converted, exact up to 2^53. 0 if none is set.
    pub value: f64,
    /// 8 bytes, or none.
    pub span_id: &'a [u8],
    /// 16 bytes, or none.
    pub trace_id: &'a [u8],
    /// Attributes that the point doesn't have.
    pub filtered_attributes: KeyValues<'a>,
}

impl<'a> Exemplar<'a> {
    /// Reads an `Exemplar` message without parsing attributes.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut exemplar = Self::default();
        walk! { message => exemplar {
            2 fixed64 time_unix_nano,
            3 double value,
            4 bytes span_id,
            5 bytes trace_id,
            6 sfixed64_to_double value,
            7 repeated filtered_attributes,
        } }
        Ok(exemplar)
    }
}
