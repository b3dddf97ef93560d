//! Sorting spans by trace: one request becomes one for each bucket, with all spans of a trace in
//! the bucket that its id names.
//!
//! What surrounds a span is repeated in each bucket that has spans of that group. Groups without
//! spans are left out.

use crate::error::{Fault, WireError};
use crate::otlp::descriptor::{Kind, Message, request};
use crate::otlp::split::{Part, header, wrap};
use crate::protobuf::{Cursor, LENGTH, tag};
use crate::signal::Signal;

/// What is repeated around spans may be this many times as long as the request, in all. Past it a
/// scope's spans stay together in the first bucket among theirs: a megabyte of resource, repeated
/// in each of a thousand buckets, would be a gigabyte.
const REPEATED_FACTOR: usize = 2;

/// Spreads a trace's id over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bucket's spans, as a request of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Which bucket, below the number of buckets.
    pub index: u32,
    /// Its spans with all that is around them.
    pub part: Part,
}

/// Sorts the spans of a traces request into `buckets` buckets (at least 1) by trace id. Buckets
/// without spans are left out; the others come in the order of their numbers.
///
/// A trace's bucket depends on nothing but its id and `buckets`, in this and every later version:
/// collectors side by side agree on it. Spans without an id share one bucket.
///
/// Costs a copy of the request, and is longer than it by what is repeated: at most twice the
/// request's length, because groups whose surroundings would take more are not taken apart.
///
/// # Errors
/// The request is malformed on the way to its spans. Run [`super::check`] first for the spans
/// themselves.
pub fn split_by_trace(request_bytes: &[u8], buckets: u32) -> Result<Vec<Bucket>, WireError> {
    let mut sorter = Sorter {
        bins: (0..buckets.max(1)).map(|_| Bin::default()).collect(),
        open: Vec::new(),
        repeatable_bytes: request_bytes.len().saturating_mul(REPEATED_FACTOR),
    };
    match sorter.group(request(Signal::Traces), request_bytes) {
        Ok(()) => Ok(sorter.finish()),
        Err(fault) => Err(WireError::locate(Signal::Traces, request_bytes, fault)),
    }
}

/// A bucket being filled.
#[derive(Default)]
struct Bin {
    /// Finished groups.
    body: Vec<u8>,
    /// What is in the open groups, outermost first; absent levels are empty.
    levels: Vec<Vec<u8>>,
    records: u64,
}

/// A group that is open: its header, and which bins have something in it.
struct Level {
    tag: u32,
    header: Vec<u8>,
    bins: Vec<usize>,
}

struct Sorter {
    bins: Vec<Bin>,
    /// Two at most: resource and scope.
    open: Vec<Level>,
    /// What may still be repeated.
    repeatable_bytes: usize,
}

impl Sorter {
    fn group(&mut self, message: &Message, bytes: &[u8]) -> Result<(), Fault> {
        let mut cursor = Cursor::new(bytes);
        loop {
            let start = cursor.rest();
            let Some(tag) = cursor.tag()? else {
                return Ok(());
            };
            match message.field(tag >> 3).map(|field| field.kind) {
                Some(Kind::Group(inner)) => {
                    let value = cursor.bytes()?;
                    self.open.push(Level { tag, header: header(inner, value)?, bins: Vec::new() });
                    self.group(inner, value)?;
                    self.close();
                }
                Some(Kind::Record(_)) => {
                    let span = cursor.bytes()?;
                    let bucket = bucket_of(trace_id(span)?, self.bins.len());
                    self.span(bucket, &start[..start.len() - cursor.rest().len()]);
                }
                _ => cursor.skip(tag)?,
            }
        }
    }

    /// Adds a span, tag and length included, to the open groups of a bucket.
    fn span(&mut self, bucket: usize, span: &[u8]) {
        let Some(scope) = self.open.len().checked_sub(1) else { return };
        let bucket = match self.open[scope].bins.first().copied() {
            Some(first) if !self.may_enter(bucket) => first,
            _ => bucket,
        };
        let bin = &mut self.bins[bucket];
        bin.levels.resize_with(self.open.len(), Vec::new);
        bin.levels[scope].extend_from_slice(span);
        bin.records += 1;
        for level in &mut self.open {
            if level.bins.last() != Some(&bucket) && !level.bins.contains(&bucket) {
                level.bins.push(bucket);
            }
        }
    }

    /// Whether a bucket has the open groups already, or they may be repeated in it.
    fn may_enter(&mut self, bucket: usize) -> bool {
        let new = self.open.iter().filter(|level| !level.bins.contains(&bucket));
        let repeated_bytes: usize = new.map(|level| level.header.len()).sum();
        match self.repeatable_bytes.checked_sub(repeated_bytes) {
            Some(rest) => {
                self.repeatable_bytes = rest;
                true
            }
            None => false,
        }
    }

    /// Ends the innermost group in every bucket that has something in it.
    fn close(&mut self) {
        let Some(Level { tag, header, bins }) = self.open.pop() else { return };
        let depth = self.open.len();
        for bucket in bins {
            let bin = &mut self.bins[bucket];
            let body = bin.levels.pop().unwrap_or_default();
            let outer = match depth.checked_sub(1) {
                Some(outer) => &mut bin.levels[outer],
                None => &mut bin.body,
            };
            wrap(outer, tag, &header, &body);
        }
    }

    fn finish(self) -> Vec<Bucket> {
        let filled = (0..).zip(self.bins).filter(|(_, bin)| bin.records > 0);
        filled
            .map(|(index, Bin { body, records, .. })| Bucket {
                index,
                part: Part { bytes: body, records },
            })
            .collect()
    }
}

/// A span's trace id: its first field, as every encoder writes it, or any later one.
fn trace_id(span: &[u8]) -> Result<&[u8], Fault> {
    const TRACE_ID: u32 = tag(1, LENGTH);
    let mut cursor = Cursor::new(span);
    while let Some(tag) = cursor.tag()? {
        if tag == TRACE_ID {
            return cursor.bytes();
        }
        cursor.skip(tag)?;
    }
    Ok(&[])
}

/// The bucket of an id. Every byte counts, because some ids begin with a time.
fn bucket_of(trace_id: &[u8], buckets: usize) -> usize {
    let halves = trace_id.chunks(8).map(|half| {
        let mut bytes = [0; 8];
        bytes[..half.len()].copy_from_slice(half);
        u64::from_be_bytes(bytes)
    });
    let hash = halves.fold(0_u64, |hash, half| {
        let product = (hash ^ half).wrapping_mul(SPREAD);
        // The high bits of a product depend on all bits of its factors, the low ones don't.
        product ^ product >> 32
    });
    // The high half of the product is below `buckets`, evenly.
    ((u128::from(hash) * buckets as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::bucket_of;

    /// A trace's bucket never changes from version to version: collectors of two versions run side
    /// by side during a rollout.
    #[test]
    fn the_buckets_of_known_ids_stay() {
        let ids: Vec<Vec<u8>> = (0..5_u8).map(|n| (0..16).map(|i| n * 16 + i).collect()).collect();
        let found: Vec<usize> = ids.iter().map(|id| bucket_of(id, 24)).collect();
        assert_eq!(found, [19, 12, 6, 2, 17]);
        assert_eq!(bucket_of(&[], 24), 0);
    }

    /// Ids that differ in one half only are spread evenly, whatever the number of buckets.
    #[test]
    fn ids_are_spread_evenly() {
        for half in [0, 8] {
            for buckets in [2, 7, 24] {
                let mut counts = vec![0_u32; buckets];
                for number in 0..10_000_u64 {
                    let mut id = [7; 16];
                    id[half..half + 8].copy_from_slice(&number.to_be_bytes());
                    counts[bucket_of(&id, buckets)] += 1;
                }
                let expected = 10_000 / buckets as u32;
                let even = |count: &u32| (expected / 2..expected * 2).contains(count);
                assert!(counts.iter().all(even), "{counts:?}");
            }
        }
    }
}
