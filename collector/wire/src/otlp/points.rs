//! Views over metric points and exemplars.

use crate::error::Fault;
use crate::otlp::common::{KeyValues, Repeated, skip_other};
use crate::otlp::numbers::Numbers;
use crate::protobuf::{Cursor, FIXED64, LENGTH, VARINT, tag, unzigzag};

/// A point of a gauge or sum. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberPoint<'a> {
    /// Start of the interval; 0 if unknown.
    pub start_time_unix_nano: u64,
    /// Time of the point.
    pub time_unix_nano: u64,
    /// The value; integers are converted, exact up to 2^53. 0 if none is set.
    pub value: f64,
    /// `DataPointFlags`: 1 says that no value was recorded.
    pub flags: u32,
    /// Attributes.
    pub attributes: KeyValues<'a>,
    /// Exemplars: each an [`Exemplar`] message.
    pub exemplars: Repeated<'a>,
}

impl<'a> NumberPoint<'a> {
    /// Reads a `NumberDataPoint` message; attributes and exemplars are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const START: u32 = tag(2, FIXED64);
        const TIME: u32 = tag(3, FIXED64);
        const AS_DOUBLE: u32 = tag(4, FIXED64);
        const EXEMPLARS: u32 = tag(5, LENGTH);
        const AS_INT: u32 = tag(6, FIXED64);
        const ATTRIBUTES: u32 = tag(7, LENGTH);
        const FLAGS: u32 = tag(8, VARINT);
        let mut cursor = Cursor::new(message);
        let mut point = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(point);
            };
            match tag {
                START => point.start_time_unix_nano = cursor.fixed64()?,
                TIME => point.time_unix_nano = cursor.fixed64()?,
                AS_DOUBLE => point.value = cursor.double()?,
                AS_INT => point.value = cursor.fixed64()?.cast_signed() as f64,
                FLAGS => point.flags = cursor.varint()? as u32,
                EXEMPLARS => {
                    cursor.bytes()?;
                    point.exemplars.extend(tag, message, before, cursor.rest());
                }
                ATTRIBUTES => {
                    cursor.bytes()?;
                    point.attributes.extend(tag, message, before, cursor.rest());
                }
                other => skip_other(&mut cursor, other, 0b1_1111_1100)?,
            }
        }
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
    /// Reads a `HistogramDataPoint` message; repeated fields are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const START: u32 = tag(2, FIXED64);
        const TIME: u32 = tag(3, FIXED64);
        const COUNT: u32 = tag(4, FIXED64);
        const SUM: u32 = tag(5, FIXED64);
        const BUCKET_COUNTS: u32 = tag(6, LENGTH);
        const BUCKET_COUNT: u32 = tag(6, FIXED64);
        const EXPLICIT_BOUNDS: u32 = tag(7, LENGTH);
        const EXPLICIT_BOUND: u32 = tag(7, FIXED64);
        const EXEMPLARS: u32 = tag(8, LENGTH);
        const ATTRIBUTES: u32 = tag(9, LENGTH);
        const FLAGS: u32 = tag(10, VARINT);
        const MIN: u32 = tag(11, FIXED64);
        const MAX: u32 = tag(12, FIXED64);
        let mut cursor = Cursor::new(message);
        let mut point = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(point);
            };
            match tag {
                START => point.start_time_unix_nano = cursor.fixed64()?,
                TIME => point.time_unix_nano = cursor.fixed64()?,
                COUNT => point.count = cursor.fixed64()?,
                SUM => point.sum = cursor.double()?,
                MIN => point.min = cursor.double()?,
                MAX => point.max = cursor.double()?,
                FLAGS => point.flags = cursor.varint()? as u32,
                BUCKET_COUNTS | BUCKET_COUNT => {
                    cursor.skip(tag)?;
                    point.bucket_counts.extend(tag >> 3, message, before, cursor.rest());
                }
                EXPLICIT_BOUNDS | EXPLICIT_BOUND => {
                    cursor.skip(tag)?;
                    point.explicit_bounds.extend(tag >> 3, message, before, cursor.rest());
                }
                EXEMPLARS => {
                    cursor.bytes()?;
                    point.exemplars.extend(tag, message, before, cursor.rest());
                }
                ATTRIBUTES => {
                    cursor.bytes()?;
                    point.attributes.extend(tag, message, before, cursor.rest());
                }
                other => skip_other(&mut cursor, other, 0b1_1111_1111_1100)?,
            }
        }
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
    /// Reads an `ExponentialHistogramDataPoint` message; attributes and exemplars are not looked
    /// into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const ATTRIBUTES: u32 = tag(1, LENGTH);
        const START: u32 = tag(2, FIXED64);
        const TIME: u32 = tag(3, FIXED64);
        const COUNT: u32 = tag(4, FIXED64);
        const SUM: u32 = tag(5, FIXED64);
        const SCALE: u32 = tag(6, VARINT);
        const ZERO_COUNT: u32 = tag(7, FIXED64);
        const POSITIVE: u32 = tag(8, LENGTH);
        const NEGATIVE: u32 = tag(9, LENGTH);
        const FLAGS: u32 = tag(10, VARINT);
        const EXEMPLARS: u32 = tag(11, LENGTH);
        const MIN: u32 = tag(12, FIXED64);
        const MAX: u32 = tag(13, FIXED64);
        const ZERO_THRESHOLD: u32 = tag(14, FIXED64);
        let mut cursor = Cursor::new(message);
        let mut point = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(point);
            };
            match tag {
                START => point.start_time_unix_nano = cursor.fixed64()?,
                TIME => point.time_unix_nano = cursor.fixed64()?,
                COUNT => point.count = cursor.fixed64()?,
                SUM => point.sum = cursor.double()?,
                MIN => point.min = cursor.double()?,
                MAX => point.max = cursor.double()?,
                SCALE => point.scale = unzigzag(cursor.varint()?) as i32,
                ZERO_COUNT => point.zero_count = cursor.fixed64()?,
                POSITIVE => point.positive.merge(cursor.bytes()?)?,
                NEGATIVE => point.negative.merge(cursor.bytes()?)?,
                FLAGS => point.flags = cursor.varint()? as u32,
                EXEMPLARS => {
                    cursor.bytes()?;
                    point.exemplars.extend(tag, message, before, cursor.rest());
                }
                ATTRIBUTES => {
                    cursor.bytes()?;
                    point.attributes.extend(tag, message, before, cursor.rest());
                }
                ZERO_THRESHOLD => cursor.skip(tag)?,
                other => skip_other(&mut cursor, other, 0b111_1111_1111_1110)?,
            }
        }
    }
}

/// The buckets on one side of zero. Of a message that occurs twice the later counts replace the
/// earlier: no encoder writes it twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buckets<'a> {
    /// Index of the first bucket.
    pub offset: i32,
    /// Values per bucket: varints.
    pub counts: Numbers<'a>,
}

impl<'a> Buckets<'a> {
    fn merge(&mut self, message: &'a [u8]) -> Result<(), Fault> {
        const OFFSET: u32 = tag(1, VARINT);
        const COUNTS: u32 = tag(2, LENGTH);
        const COUNT: u32 = tag(2, VARINT);
        let mut cursor = Cursor::new(message);
        let mut counts = Numbers::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else { break };
            match tag {
                OFFSET => self.offset = unzigzag(cursor.varint()?) as i32,
                COUNTS | COUNT => {
                    cursor.skip(tag)?;
                    counts.extend(tag >> 3, message, before, cursor.rest());
                }
                other => skip_other(&mut cursor, other, 0b110)?,
            }
        }
        if !counts.is_empty() {
            self.counts = counts;
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
    /// Reads a `SummaryDataPoint` message; attributes and quantiles are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const START: u32 = tag(2, FIXED64);
        const TIME: u32 = tag(3, FIXED64);
        const COUNT: u32 = tag(4, FIXED64);
        const SUM: u32 = tag(5, FIXED64);
        const QUANTILES: u32 = tag(6, LENGTH);
        const ATTRIBUTES: u32 = tag(7, LENGTH);
        const FLAGS: u32 = tag(8, VARINT);
        let mut cursor = Cursor::new(message);
        let mut point = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(point);
            };
            match tag {
                START => point.start_time_unix_nano = cursor.fixed64()?,
                TIME => point.time_unix_nano = cursor.fixed64()?,
                COUNT => point.count = cursor.fixed64()?,
                SUM => point.sum = cursor.double()?,
                FLAGS => point.flags = cursor.varint()? as u32,
                QUANTILES => {
                    cursor.bytes()?;
                    point.quantiles.extend(tag, message, before, cursor.rest());
                }
                ATTRIBUTES => {
                    cursor.bytes()?;
                    point.attributes.extend(tag, message, before, cursor.rest());
                }
                other => skip_other(&mut cursor, other, 0b1_1111_1100)?,
            }
        }
    }
}

/// A value at a quantile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantile {
    /// 0.0 to 1.0.
    pub quantile: f64,
    /// The value there.
    pub value: f64,
}

impl Quantile {
    /// Reads a `ValueAtQuantile` message.
    ///
    /// # Errors
    /// The bytes are malformed.
    pub fn parse(message: &[u8]) -> Result<Self, Fault> {
        const QUANTILE: u32 = tag(1, FIXED64);
        const VALUE: u32 = tag(2, FIXED64);
        let mut cursor = Cursor::new(message);
        let mut quantile = Self::default();
        while let Some(tag) = cursor.tag()? {
            match tag {
                QUANTILE => quantile.quantile = cursor.double()?,
                VALUE => quantile.value = cursor.double()?,
                other => skip_other(&mut cursor, other, 0b110)?,
            }
        }
        Ok(quantile)
    }
}

/// A sample value kept with a point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exemplar<'a> {
    /// When, in nanoseconds since 1970.
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
    /// Reads an `Exemplar` message; attributes are not looked into.
    ///
    /// # Errors
    /// The bytes are malformed.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Fault> {
        const TIME: u32 = tag(2, FIXED64);
        const AS_DOUBLE: u32 = tag(3, FIXED64);
        const SPAN_ID: u32 = tag(4, LENGTH);
        const TRACE_ID: u32 = tag(5, LENGTH);
        const AS_INT: u32 = tag(6, FIXED64);
        const ATTRIBUTES: u32 = tag(7, LENGTH);
        let mut cursor = Cursor::new(message);
        let mut exemplar = Self::default();
        loop {
            let before = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(exemplar);
            };
            match tag {
                TIME => exemplar.time_unix_nano = cursor.fixed64()?,
                AS_DOUBLE => exemplar.value = cursor.double()?,
                AS_INT => exemplar.value = cursor.fixed64()?.cast_signed() as f64,
                SPAN_ID => exemplar.span_id = cursor.bytes()?,
                TRACE_ID => exemplar.trace_id = cursor.bytes()?,
                ATTRIBUTES => {
                    cursor.bytes()?;
                    exemplar.filtered_attributes.extend(tag, message, before, cursor.rest());
                }
                other => skip_other(&mut cursor, other, 0b1111_1100)?,
            }
        }
    }
}
