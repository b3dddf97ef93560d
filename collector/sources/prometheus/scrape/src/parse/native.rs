//! Parses values of the protobuf format: counters, histograms, summaries, exemplars.
//!
//! A native histogram becomes an exponential one. Native buckets are indexed by their upper bounds,
//! OTLP's by their lower ones, so each index is one less. Gaps between spans are filled with zeros.
//! If that would take too many buckets, neighbours are merged and the scale decreases, on both
//! sides alike.

use millrace_wire::protobuf::{Cursor, FIXED64, LENGTH, VARINT, field_tag, unzigzag};

use crate::limits::{DENSE_BUCKETS_MAX, FaultKind};
use crate::otlp::encode::{put_exemplar_label, put_exemplar_value};
use crate::otlp::group::exact_integer;
use crate::parse::label_pair::{LABEL, decode_label};
use crate::parse::line::SampleExemplar;

/// The value of gauges, counters and untyped metrics.
pub(crate) const VALUE: u32 = field_tag(1, FIXED64);

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Resolutions that both formats have.
const SCHEMAS: std::ops::RangeInclusive<i64> = -4..=8;

#[derive(Debug, Default)]
pub(crate) struct Counter<'a> {
    pub(crate) value: f64,
    pub(crate) exemplar: Option<&'a [u8]>,
    pub(crate) created_unix_nano: Option<u64>,
}

impl<'a> Counter<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, FaultKind> {
        let (mut cursor, mut counter) = (Cursor::new(message), Self::default());
        while let Some(one) = cursor.tag()? {
            match one {
                VALUE => counter.value = cursor.double()?,
                EXEMPLAR => counter.exemplar = Some(cursor.bytes()?),
                CREATED => {
                    counter.created_unix_nano = u64::try_from(decode_time(cursor.bytes()?)?).ok()
                }
                _ => cursor.skip(one)?,
            }
        }
        Ok(counter)
    }
}

const EXEMPLAR: u32 = field_tag(2, LENGTH);
const CREATED: u32 = field_tag(3, LENGTH);

/// A histogram or summary.
#[derive(Debug, Default)]
pub(crate) struct HistogramParts<'a> {
    pub(crate) count: f64,
    pub(crate) sum: Option<f64>,
    /// Bounds and cumulative counts; or quantiles and values.
    pub(crate) pairs: Vec<(f64, f64)>,
    /// Exemplars, each with the index of its bucket; a native histogram's own come after the last
    /// one.
    pub(crate) exemplars: Vec<(usize, &'a [u8])>,
    pub(crate) created_unix_nano: Option<u64>,
    /// Set for a native histogram; the inner value is `None` if OTLP can't represent it.
    pub(crate) native: Option<Option<Native>>,
}

/// A native histogram in OTLP's form.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Native {
    pub(crate) count: u64,
    pub(crate) scale: i32,
    pub(crate) zero_threshold: f64,
    pub(crate) zero_count: u64,
    pub(crate) positive: Side,
    pub(crate) negative: Side,
}

/// The buckets on one side of zero.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Side {
    pub(crate) offset: i32,
    pub(crate) counts: Vec<u64>,
}

/// One side in the native form: spans and counts.
#[derive(Debug, Default)]
struct Sparse {
    /// For each span the distance from the end of the one before, and its length.
    spans: Vec<(i64, u64)>,
    /// Counts, each as the difference from the one before.
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

impl<'a> HistogramParts<'a> {
    /// Returns the number of samples that the text format would have.
    pub(crate) fn sample_count(&self) -> u64 {
        if self.native.is_some() { 1 } else { self.pairs.len() as u64 + 2 }
    }

    pub(crate) fn of_summary(message: &'a [u8]) -> Result<Self, FaultKind> {
        let (mut cursor, mut parts) = (Cursor::new(message), Self::default());
        while let Some(one) = cursor.tag()? {
            match (one >> 3, one & 7) {
                (1, VARINT) => parts.count = cursor.varint()? as f64,
                (2, FIXED64) => parts.sum = Some(cursor.double()?),
                (3, LENGTH) => parts.pairs.push(decode_quantile(cursor.bytes()?)?),
                (4, LENGTH) => {
                    parts.created_unix_nano = u64::try_from(decode_time(cursor.bytes()?)?).ok()
                }
                _ => cursor.skip(one)?,
            }
        }
        Ok(parts)
    }

    pub(crate) fn of_histogram(message: &'a [u8]) -> Result<Self, FaultKind> {
        let (mut cursor, mut parts) = (Cursor::new(message), Self::default());
        let (mut schema, mut threshold, mut zero, mut float_count) = (0, 0.0, 0.0, None);
        let mut integer_count = 0;
        let [mut negative, mut positive] = [Sparse::default(), Sparse::default()];
        while let Some(one) = cursor.tag()? {
            match (one >> 3, one & 7) {
                (1, VARINT) => integer_count = cursor.varint()?,
                (2, FIXED64) => parts.sum = Some(cursor.double()?),
                (3, LENGTH) => parts.decode_bucket(cursor.bytes()?)?,
                (4, FIXED64) => float_count = Some(cursor.double()?).filter(|count| *count > 0.0),
                (5, VARINT) => schema = unzigzag(cursor.varint()?),
                (6, FIXED64) => threshold = cursor.double()?,
                (7, VARINT) => zero = cursor.varint()? as f64,
                (8, FIXED64) => zero = cursor.double()?,
                (9, LENGTH) => negative.spans.push(decode_span(cursor.bytes()?)?),
                (10, _) => put_deltas(&mut cursor, one, &mut negative.deltas)?,
                (11, _) => put_doubles(&mut cursor, one, &mut negative.counts)?,
                (12, LENGTH) => positive.spans.push(decode_span(cursor.bytes()?)?),
                (13, _) => put_deltas(&mut cursor, one, &mut positive.deltas)?,
                (14, _) => put_doubles(&mut cursor, one, &mut positive.counts)?,
                (15, LENGTH) => {
                    parts.created_unix_nano = u64::try_from(decode_time(cursor.bytes()?)?).ok();
                }
                (16, LENGTH) => parts.exemplars.push((usize::MAX, cursor.bytes()?)),
                _ => cursor.skip(one)?,
            }
        }
        parts.count = float_count.unwrap_or(integer_count as f64);
        let has_spans = !negative.spans.is_empty() || !positive.spans.is_empty();
        if has_spans || threshold > 0.0 || zero > 0.0 {
            let sides = [positive, negative];
            parts.native = Some(build_native(parts.count, schema, (threshold, zero), &sides));
        } else if parts.pairs.last().is_none_or(|(bound, _)| *bound != f64::INFINITY) {
            // Clients omit the last bucket; the text format has it.
            parts.pairs.push((f64::INFINITY, parts.count));
        }
        Ok(parts)
    }

    /// Decodes a bucket of a classic histogram.
    fn decode_bucket(&mut self, message: &'a [u8]) -> Result<(), FaultKind> {
        let (mut cursor, mut bound, mut count) = (Cursor::new(message), f64::INFINITY, 0.0);
        while let Some(one) = cursor.tag()? {
            match (one >> 3, one & 7) {
                (1, VARINT) => count = cursor.varint()? as f64,
                (2, FIXED64) => bound = cursor.double()?,
                (3, LENGTH) => self.exemplars.push((self.pairs.len(), cursor.bytes()?)),
                (4, FIXED64) => {
                    count = Some(cursor.double()?).filter(|it| *it > 0.0).unwrap_or(count)
                }
                _ => cursor.skip(one)?,
            }
        }
        self.pairs.push((bound, count));
        Ok(())
    }
}

/// Builds a native histogram; `None` if OTLP lacks its resolution, or its counts are not whole
/// numbers or contradict each other.
fn build_native(
    count: f64,
    schema: i64,
    (zero_threshold, zero): (f64, f64),
    sides: &[Sparse; 2],
) -> Option<Native> {
    let (count, zero_count) = (exact_integer(count)?, exact_integer(zero)?);
    if !SCHEMAS.contains(&schema) {
        return None;
    }
    let [positive, negative] = [sides[0].indexed_buckets()?, sides[1].indexed_buckets()?];
    let mut all = positive.iter().chain(&negative).map(|(_, count)| *count);
    let sum = all.try_fold(zero_count, |sum: u64, one| sum.checked_add(one))?;
    if sum > count {
        return None;
    }
    let mut shift = 0;
    let is_long = |buckets: &[(i64, u64)], shift: u32| match (buckets.first(), buckets.last()) {
        (Some(first), Some(last)) => (last.0 >> shift) - (first.0 >> shift) >= DENSE_BUCKETS_MAX,
        _ => false,
    };
    while is_long(&positive, shift) || is_long(&negative, shift) {
        shift += 1;
    }
    Some(Native {
        count,
        scale: schema as i32 - shift as i32,
        zero_threshold,
        zero_count,
        positive: dense_side(&positive, shift)?,
        negative: dense_side(&negative, shift)?,
    })
}

impl Sparse {
    /// Returns OTLP's indexes and the counts of the buckets that aren't empty, in order; `None` if
    /// spans and counts don't match.
    fn indexed_buckets(&self) -> Option<Vec<(i64, u64)>> {
        let mut counts = Vec::with_capacity(self.deltas.len() + self.counts.len());
        let mut sum = 0_i64;
        for delta in &self.deltas {
            sum = sum.checked_add(*delta)?;
            counts.push(u64::try_from(sum).ok()?);
        }
        for count in &self.counts {
            counts.push(exact_integer(*count)?);
        }
        let (mut counts, mut buckets, mut index) = (counts.into_iter(), Vec::new(), -1_i64);
        for (number, (offset, length)) in self.spans.iter().enumerate() {
            if number > 0 && *offset < 0 {
                return None;
            }
            index += offset;
            for _ in 0..*length {
                let count = counts.next()?;
                if count > 0 {
                    buckets.push((index, count));
                }
                index += 1;
            }
        }
        counts.next().is_none().then_some(buckets)
    }
}

/// Returns all buckets from the first to the last one, `2^shift` merged to one; `None` if an index
/// is out of range.
fn dense_side(buckets: &[(i64, u64)], shift: u32) -> Option<Side> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return Some(Side::default());
    };
    let start = first.0 >> shift;
    let length = usize::try_from((last.0 >> shift) - start + 1).ok()?;
    let mut counts = vec![0; length];
    for (index, count) in buckets {
        *counts.get_mut(usize::try_from((index >> shift) - start).ok()?)? += count;
    }
    Some(Side { offset: i32::try_from(start).ok()?, counts })
}

/// Decodes a quantile and its value.
fn decode_quantile(message: &[u8]) -> Result<(f64, f64), FaultKind> {
    let (mut cursor, mut pair) = (Cursor::new(message), (0.0, 0.0));
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            (1, FIXED64) => pair.0 = cursor.double()?,
            (2, FIXED64) => pair.1 = cursor.double()?,
            _ => cursor.skip(one)?,
        }
    }
    Ok(pair)
}

fn decode_span(message: &[u8]) -> Result<(i64, u64), FaultKind> {
    let (mut cursor, mut span) = (Cursor::new(message), (0, 0));
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            // Both are 32-bit integers.
            (1, VARINT) => span.0 = unzigzag(u64::from(cursor.varint()? as u32)),
            (2, VARINT) => span.1 = u64::from(cursor.varint()? as u32),
            _ => cursor.skip(one)?,
        }
    }
    Ok(span)
}

/// Decodes one integer, or a packed list.
fn put_deltas(cursor: &mut Cursor<'_>, one: u32, out: &mut Vec<i64>) -> Result<(), FaultKind> {
    match one & 7 {
        VARINT => out.push(unzigzag(cursor.varint()?)),
        LENGTH => {
            let mut packed = Cursor::new(cursor.bytes()?);
            while !packed.is_empty() {
                out.push(unzigzag(packed.varint()?));
            }
        }
        _ => return Err(FaultKind::Protobuf),
    }
    Ok(())
}

fn put_doubles(cursor: &mut Cursor<'_>, one: u32, out: &mut Vec<f64>) -> Result<(), FaultKind> {
    match one & 7 {
        FIXED64 => out.push(cursor.double()?),
        LENGTH => {
            let mut packed = Cursor::new(cursor.bytes()?);
            while !packed.is_empty() {
                out.push(packed.double()?);
            }
        }
        _ => return Err(FaultKind::Protobuf),
    }
    Ok(())
}

/// Decodes a time to nanoseconds since 1970.
pub(crate) fn decode_time(message: &[u8]) -> Result<i64, FaultKind> {
    let (mut cursor, mut seconds, mut nanos) = (Cursor::new(message), 0, 0);
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            (1, VARINT) => seconds = cursor.varint()? as i64,
            (2, VARINT) => nanos = i64::from(cursor.varint()? as i32),
            _ => cursor.skip(one)?,
        }
    }
    Ok(seconds.saturating_mul(NANOS_PER_SECOND).saturating_add(nanos))
}

/// Decodes an exemplar's value and time.
pub(crate) fn decode_exemplar(message: &[u8]) -> Result<SampleExemplar, FaultKind> {
    let (mut cursor, mut value, mut time) = (Cursor::new(message), 0.0, None);
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            (2, FIXED64) => value = cursor.double()?,
            (3, LENGTH) => time = Some(decode_time(cursor.bytes()?)?),
            _ => cursor.skip(one)?,
        }
    }
    Ok(SampleExemplar { value, time })
}

/// Writes the content of OTLP's exemplar message.
pub(crate) fn put_exemplar(
    out: &mut Vec<u8>,
    message: &[u8],
    time_unix_nano: u64,
) -> Result<(), FaultKind> {
    let SampleExemplar { value, time } = decode_exemplar(message)?;
    let at = time.and_then(|at| u64::try_from(at).ok()).unwrap_or(time_unix_nano);
    put_exemplar_value(out, at, value);
    let mut cursor = Cursor::new(message);
    while let Some(one) = cursor.tag()? {
        if one == LABEL {
            let (name, value) = decode_label(cursor.bytes()?)?;
            put_exemplar_label(out, name, value);
        } else {
            cursor.skip(one)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
