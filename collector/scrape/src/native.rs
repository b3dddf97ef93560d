//! Values of the protobuf format: counters, histograms, summaries, exemplars.
//!
//! A native histogram becomes an exponential one: its buckets are counted by their upper bounds,
//! and OTLP's by their lower ones, so each place is one less. Gaps between spans are written out.
//! Where that would be too long, neighbours are joined and the scale falls, for both sides alike.

use millrace_wire::protobuf::{Cursor, FIXED64, LENGTH, VARINT, tag, unzigzag};

use crate::encode::{put_exemplar_label, put_exemplar_value};
use crate::group::whole;
use crate::limits::{DENSE_BUCKETS_MAX, FaultKind};
use crate::protobuf::{LABEL, label};

/// The value of gauges, counters and untyped metrics.
pub(crate) const VALUE: u32 = tag(1, FIXED64);

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Resolutions that both sides have.
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
                CREATED => counter.created_unix_nano = u64::try_from(time(cursor.bytes()?)?).ok(),
                _ => cursor.skip(one)?,
            }
        }
        Ok(counter)
    }
}

const EXEMPLAR: u32 = tag(2, LENGTH);
const CREATED: u32 = tag(3, LENGTH);

/// A histogram or summary.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a> {
    pub(crate) count: f64,
    pub(crate) sum: Option<f64>,
    /// Bounds and counts up to them; or quantiles and values.
    pub(crate) pairs: Vec<(f64, f64)>,
    /// Exemplars, each with the place of its bucket; a native histogram's own are behind the last.
    pub(crate) exemplars: Vec<(usize, &'a [u8])>,
    pub(crate) created_unix_nano: Option<u64>,
    /// There if it is a native one; nothing in it if it can't be written.
    pub(crate) native: Option<Option<Native>>,
}

/// A native histogram, as OTLP has it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Native {
    pub(crate) count: u64,
    pub(crate) scale: i32,
    pub(crate) zero_threshold: f64,
    pub(crate) zero_count: u64,
    pub(crate) positive: Side,
    pub(crate) negative: Side,
}

/// Buckets on one side of zero.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Side {
    pub(crate) offset: i32,
    pub(crate) counts: Vec<u64>,
}

/// A side as it is read: where buckets are, and what is in them.
#[derive(Debug, Default)]
struct Sparse {
    /// How far from the end of the one before, and how many.
    spans: Vec<(i64, u64)>,
    /// Each less the one before.
    deltas: Vec<i64>,
    counts: Vec<f64>,
}

impl<'a> Parts<'a> {
    /// What comes for each of them in the text format.
    pub(crate) fn samples(&self) -> u64 {
        if self.native.is_some() { 1 } else { self.pairs.len() as u64 + 2 }
    }

    pub(crate) fn of_summary(message: &'a [u8]) -> Result<Self, FaultKind> {
        let (mut cursor, mut parts) = (Cursor::new(message), Self::default());
        while let Some(one) = cursor.tag()? {
            match (one >> 3, one & 7) {
                (1, VARINT) => parts.count = cursor.varint()? as f64,
                (2, FIXED64) => parts.sum = Some(cursor.double()?),
                (3, LENGTH) => parts.pairs.push(pair(cursor.bytes()?)?),
                (4, LENGTH) => parts.created_unix_nano = u64::try_from(time(cursor.bytes()?)?).ok(),
                _ => cursor.skip(one)?,
            }
        }
        Ok(parts)
    }

    pub(crate) fn of_histogram(message: &'a [u8]) -> Result<Self, FaultKind> {
        let (mut cursor, mut parts) = (Cursor::new(message), Self::default());
        let (mut schema, mut threshold, mut zero, mut float_count) = (0, 0.0, 0.0, None);
        let mut whole_count = 0;
        let [mut negative, mut positive] = [Sparse::default(), Sparse::default()];
        while let Some(one) = cursor.tag()? {
            match (one >> 3, one & 7) {
                (1, VARINT) => whole_count = cursor.varint()?,
                (2, FIXED64) => parts.sum = Some(cursor.double()?),
                (3, LENGTH) => parts.bucket(cursor.bytes()?)?,
                (4, FIXED64) => float_count = Some(cursor.double()?).filter(|count| *count > 0.0),
                (5, VARINT) => schema = unzigzag(cursor.varint()?),
                (6, FIXED64) => threshold = cursor.double()?,
                (7, VARINT) => zero = cursor.varint()? as f64,
                (8, FIXED64) => zero = cursor.double()?,
                (9, LENGTH) => negative.spans.push(span(cursor.bytes()?)?),
                (10, _) => put_deltas(&mut cursor, one, &mut negative.deltas)?,
                (11, _) => put_doubles(&mut cursor, one, &mut negative.counts)?,
                (12, LENGTH) => positive.spans.push(span(cursor.bytes()?)?),
                (13, _) => put_deltas(&mut cursor, one, &mut positive.deltas)?,
                (14, _) => put_doubles(&mut cursor, one, &mut positive.counts)?,
                (15, LENGTH) => {
                    parts.created_unix_nano = u64::try_from(time(cursor.bytes()?)?).ok();
                }
                (16, LENGTH) => parts.exemplars.push((usize::MAX, cursor.bytes()?)),
                _ => cursor.skip(one)?,
            }
        }
        parts.count = float_count.unwrap_or(whole_count as f64);
        let has_spans = !negative.spans.is_empty() || !positive.spans.is_empty();
        if has_spans || threshold > 0.0 || zero > 0.0 {
            let sides = [positive, negative];
            parts.native = Some(native(parts.count, schema, (threshold, zero), &sides));
        } else if parts.pairs.last().is_none_or(|(bound, _)| *bound != f64::INFINITY) {
            // Clients leave the last bucket out; in the text format it is there.
            parts.pairs.push((f64::INFINITY, parts.count));
        }
        Ok(parts)
    }

    /// A bucket of a classic histogram.
    fn bucket(&mut self, message: &'a [u8]) -> Result<(), FaultKind> {
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

/// A native histogram; none if its resolution is none of OTLP's, its counts aren't whole numbers,
/// or they contradict each other.
fn native(
    count: f64,
    schema: i64,
    (zero_threshold, zero): (f64, f64),
    sides: &[Sparse; 2],
) -> Option<Native> {
    let (count, zero_count) = (whole(count)?, whole(zero)?);
    if !SCHEMAS.contains(&schema) {
        return None;
    }
    let [positive, negative] = [sides[0].buckets()?, sides[1].buckets()?];
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
        positive: dense(&positive, shift)?,
        negative: dense(&negative, shift)?,
    })
}

impl Sparse {
    /// Places as OTLP counts them, and counts, of those that aren't empty; in order. None if spans
    /// and counts don't fit together.
    fn buckets(&self) -> Option<Vec<(i64, u64)>> {
        let mut counts = Vec::with_capacity(self.deltas.len() + self.counts.len());
        let mut sum = 0_i64;
        for delta in &self.deltas {
            sum = sum.checked_add(*delta)?;
            counts.push(u64::try_from(sum).ok()?);
        }
        for count in &self.counts {
            counts.push(whole(*count)?);
        }
        let (mut counts, mut buckets, mut place) = (counts.into_iter(), Vec::new(), -1_i64);
        for (number, (offset, length)) in self.spans.iter().enumerate() {
            if number > 0 && *offset < 0 {
                return None;
            }
            place += offset;
            for _ in 0..*length {
                let count = counts.next()?;
                if count > 0 {
                    buckets.push((place, count));
                }
                place += 1;
            }
        }
        counts.next().is_none().then_some(buckets)
    }
}

/// All buckets from the first to the last one, `2^shift` joined to one. None if a place is too far.
fn dense(buckets: &[(i64, u64)], shift: u32) -> Option<Side> {
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else {
        return Some(Side::default());
    };
    let start = first.0 >> shift;
    let length = usize::try_from((last.0 >> shift) - start + 1).ok()?;
    let mut counts = vec![0; length];
    for (place, count) in buckets {
        *counts.get_mut(usize::try_from((place >> shift) - start).ok()?)? += count;
    }
    Some(Side { offset: i32::try_from(start).ok()?, counts })
}

/// A quantile and its value.
fn pair(message: &[u8]) -> Result<(f64, f64), FaultKind> {
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

fn span(message: &[u8]) -> Result<(i64, u64), FaultKind> {
    let (mut cursor, mut span) = (Cursor::new(message), (0, 0));
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            // As 32 bits, both of them.
            (1, VARINT) => span.0 = unzigzag(u64::from(cursor.varint()? as u32)),
            (2, VARINT) => span.1 = u64::from(cursor.varint()? as u32),
            _ => cursor.skip(one)?,
        }
    }
    Ok(span)
}

/// Reads one number, or many behind a length.
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

/// A time as nanoseconds since 1970.
pub(crate) fn time(message: &[u8]) -> Result<i64, FaultKind> {
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

/// An exemplar's value and time.
pub(crate) fn exemplar(message: &[u8]) -> Result<(f64, Option<i64>), FaultKind> {
    let (mut cursor, mut value, mut at) = (Cursor::new(message), 0.0, None);
    while let Some(one) = cursor.tag()? {
        match (one >> 3, one & 7) {
            (2, FIXED64) => value = cursor.double()?,
            (3, LENGTH) => at = Some(time(cursor.bytes()?)?),
            _ => cursor.skip(one)?,
        }
    }
    Ok((value, at))
}

/// Writes an exemplar as the content of OTLP's message.
pub(crate) fn put_exemplar(
    out: &mut Vec<u8>,
    message: &[u8],
    time_unix_nano: u64,
) -> Result<(), FaultKind> {
    let (value, at) = exemplar(message)?;
    let at = at.and_then(|at| u64::try_from(at).ok()).unwrap_or(time_unix_nano);
    put_exemplar_value(out, at, value);
    let mut cursor = Cursor::new(message);
    while let Some(one) = cursor.tag()? {
        if one == LABEL {
            let (name, value) = label(cursor.bytes()?)?;
            put_exemplar_label(out, name, value);
        } else {
            cursor.skip(one)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/native.rs"]
mod tests;
