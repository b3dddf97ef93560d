//! Sorts spans by trace: one request becomes one per bucket, with all spans of a trace in the
//! bucket that its id determines.
//!
//! A span's resource and scope are repeated in each bucket that has spans of that group. Groups
//! without spans are omitted.

use crate::error::{WireError, WireFault};
use crate::otlp::descriptor::{FieldKind, MessageDescriptor, request_message};
use crate::otlp::split::{SplitPart, container_header, put_container};
use crate::protobuf::{Cursor, LENGTH, field_tag};
use crate::signal::Signal;

/// The factor over the request's length that limits what is repeated in total. Beyond it a scope's
/// spans stay together in the first bucket among theirs: a megabyte of resource, repeated in each
/// of a thousand buckets, would be a gigabyte.
const REPEATED_FACTOR: usize = 2;

/// Spreads a trace's id over 64 bits: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bucket's spans, as a separate request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The bucket's index, below the number of buckets.
    pub index: u32,
    /// Its spans with their resources and scopes.
    pub part: SplitPart,
}

/// Sorts the spans of a traces request into `buckets` buckets (at least 1) by trace id. Empty
/// buckets are omitted; the others are in the order of their indexes.
///
/// A trace's bucket depends only on its id and `buckets`, in this and every later version, so
/// parallel collectors agree on it. Spans without an id share one bucket.
///
/// Copies the request and adds what is repeated: at most twice the request's length, because a
/// group with more repetition is not divided.
///
/// # Errors
/// If the request is malformed before its spans. Run [`super::check`] first for the spans
/// themselves.
pub fn split_by_trace(request_bytes: &[u8], buckets: u32) -> Result<Vec<Bucket>, WireError> {
    let mut sorter = Sorter {
        bins: (0..buckets.max(1)).map(|_| Bin::default()).collect(),
        open: Vec::new(),
        repeatable_bytes: request_bytes.len().saturating_mul(REPEATED_FACTOR),
    };
    match sorter.sort_group(request_message(Signal::Traces), request_bytes) {
        Ok(()) => Ok(sorter.into_buckets()),
        Err(fault) => Err(WireError::from_fault(Signal::Traces, request_bytes, fault)),
    }
}

/// A bucket being filled.
#[derive(Default)]
struct Bin {
    /// Finished groups.
    body: Vec<u8>,
    /// The content of the open groups, outermost first; absent levels are empty.
    levels: Vec<Vec<u8>>,
    records: u64,
}

/// An open group: its header, and the bins that contain part of it.
struct OpenGroup {
    tag: u32,
    header: Vec<u8>,
    bins: Vec<usize>,
}

struct Sorter {
    bins: Vec<Bin>,
    /// At most two: resource and scope.
    open: Vec<OpenGroup>,
    /// The bytes that may still be repeated.
    repeatable_bytes: usize,
}

impl Sorter {
    fn sort_group(&mut self, message: &MessageDescriptor, bytes: &[u8]) -> Result<(), WireFault> {
        let mut cursor = Cursor::new(bytes);
        loop {
            let start = cursor.remaining();
            let Some(tag) = cursor.tag()? else {
                return Ok(());
            };
            match message.field(tag >> 3).map(|field| field.kind) {
                Some(FieldKind::Group(inner)) => {
                    let value = cursor.bytes()?;
                    self.open.push(OpenGroup {
                        tag,
                        header: container_header(inner, value)?,
                        bins: Vec::new(),
                    });
                    self.sort_group(inner, value)?;
                    self.close_group();
                }
                Some(FieldKind::Record(_)) => {
                    let span = cursor.bytes()?;
                    let bucket = bucket_of(trace_id(span)?, self.bins.len());
                    self.add_span(bucket, &start[..start.len() - cursor.remaining().len()]);
                }
                _ => cursor.skip(tag)?,
            }
        }
    }

    /// Adds a span, including tag and length, to the open groups of a bucket.
    fn add_span(&mut self, bucket: usize, span: &[u8]) {
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

    /// Whether a bucket already has the open groups, or they may be repeated in it.
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

    /// Ends the innermost group in every bucket that contains part of it.
    fn close_group(&mut self) {
        let Some(OpenGroup { tag, header, bins }) = self.open.pop() else { return };
        let depth = self.open.len();
        for bucket in bins {
            let bin = &mut self.bins[bucket];
            let body = bin.levels.pop().unwrap_or_default();
            let outer = match depth.checked_sub(1) {
                Some(outer) => &mut bin.levels[outer],
                None => &mut bin.body,
            };
            put_container(outer, tag, &header, &body);
        }
    }

    fn into_buckets(self) -> Vec<Bucket> {
        let filled = (0..).zip(self.bins).filter(|(_, bin)| bin.records > 0);
        filled
            .map(|(index, Bin { body, records, .. })| Bucket {
                index,
                part: SplitPart { bytes: body, records },
            })
            .collect()
    }
}

/// Returns a span's trace id: its first field, as every encoder writes it, or any later one.
fn trace_id(span: &[u8]) -> Result<&[u8], WireFault> {
    const TRACE_ID: u32 = field_tag(1, LENGTH);
    let mut cursor = Cursor::new(span);
    while let Some(tag) = cursor.tag()? {
        if tag == TRACE_ID {
            return cursor.bytes();
        }
        cursor.skip(tag)?;
    }
    Ok(&[])
}

/// Returns the bucket of an id. Every byte counts, because some ids begin with a time.
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

    /// A trace's bucket never changes between versions: collectors of two versions run in parallel
    /// during a rollout.
    #[test]
    fn the_buckets_of_known_ids_stay() {
        let ids: Vec<Vec<u8>> = (0..5_u8).map(|n| (0..16).map(|i| n * 16 + i).collect()).collect();
        let found: Vec<usize> = ids.iter().map(|id| bucket_of(id, 24)).collect();
        assert_eq!(found, [19, 12, 6, 2, 17]);
        assert_eq!(bucket_of(&[], 24), 0);
    }

    /// Ids that differ only in one half are spread evenly, for any number of buckets.
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
