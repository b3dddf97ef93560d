//! Decides which times of records are accepted, and removes other records from a request.
//!
//! A record's time decides its table partition: a client with a broken clock would make a part for
//! each day that its records name.

use crate::error::{WireError, WireFault};
use crate::otlp::descriptor::{FieldKind, MessageDescriptor, request_message};
use crate::protobuf::{Cursor, put_varint};
use crate::signal::Signal;

/// The reason of records refused for their times, in metric labels and dead-letter headers.
pub const TIME_OUT_OF_RANGE: &str = "time_out_of_range";

/// An earlier time on this machine is wrong: this program didn't exist before November 2026.
const EARLIEST_NOW_UNIX_NANOS: u64 = 1_793_491_200 * 1_000_000_000;

/// Accepted times of records, in nanoseconds since 1970, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    first: u64,
    length: u64,
}

impl TimeRange {
    /// Every time.
    pub const ALL: Self = Self { first: 0, length: u64::MAX };

    /// Returns the range from `past_nanos` before `now` to `future_nanos` after it.
    #[must_use]
    pub const fn around(now: u64, past_nanos: u64, future_nanos: u64) -> Self {
        let first = now.saturating_sub(past_nanos);
        Self { first, length: now.saturating_add(future_nanos) - first }
    }

    /// Returns the range around this machine's own clock, `now`. While the clock is evidently
    /// wrong, as before a node's first synchronisation, every time is accepted.
    #[must_use]
    pub const fn around_local_clock(now: u64, past_nanos: u64, future_nanos: u64) -> Self {
        if now < EARLIEST_NOW_UNIX_NANOS {
            return Self::ALL;
        }
        Self::around(now, past_nanos, future_nanos)
    }

    /// Whether a record with this time is accepted. 0 is OTLP's "unknown".
    #[inline]
    #[must_use]
    pub const fn contains(&self, unix_nano: u64) -> bool {
        unix_nano.wrapping_sub(self.first) <= self.length || unix_nano == 0
    }
}

/// Returns a request without the records whose times are outside of `times`: the others unchanged,
/// in order, with their surroundings. Groups without records are omitted.
///
/// It is meant for requests in which [`super::check`] found such records
/// ([`super::Checked::out_of_range`]). It allocates once, as much as the request has.
///
/// # Errors
/// If the request is malformed on the way.
pub fn retain_in_range(
    signal: Signal,
    request_bytes: &[u8],
    times: &TimeRange,
) -> Result<Vec<u8>, WireError> {
    // The result is never longer than the request, also while it is written, so the buffer never
    // grows.
    let mut out = Vec::with_capacity(request_bytes.len());
    match retain_records(request_message(signal), request_bytes, times, &mut out) {
        Ok(_) => Ok(out),
        Err(fault) => Err(WireError::from_fault(signal, request_bytes, fault)),
    }
}

/// Appends the retained content of a container. Returns whether it has records.
fn retain_records(
    message: &MessageDescriptor,
    bytes: &[u8],
    times: &TimeRange,
    out: &mut Vec<u8>,
) -> Result<bool, WireFault> {
    let mut cursor = Cursor::new(bytes);
    let mut has_records = false;
    loop {
        let field = cursor.remaining();
        let Some(tag) = cursor.tag()? else { return Ok(has_records) };
        let tag_bytes = field.len() - cursor.remaining().len();
        let is_retained = match message.field(tag >> 3).map(|field| field.kind) {
            Some(FieldKind::Group(inner)) => {
                let start = out.len();
                out.extend_from_slice(&field[..tag_bytes]);
                let content = out.len();
                if retain_records(inner, cursor.bytes()?, times, out)? {
                    put_length_before(out, content);
                    has_records = true;
                } else {
                    out.truncate(start);
                }
                false
            }
            Some(FieldKind::Record(inner)) => {
                let is_accepted = times.contains(effective_time(times_of(inner, cursor.bytes()?)?));
                has_records |= is_accepted;
                is_accepted
            }
            _ => {
                cursor.skip(tag)?;
                true
            }
        };
        if is_retained {
            out.extend_from_slice(&field[..field.len() - cursor.remaining().len()]);
        }
    }
}

/// Inserts the length of the bytes from `content` on before them.
fn put_length_before(out: &mut Vec<u8>, content: usize) {
    let end = out.len();
    put_varint(out, (end - content) as u64);
    let length_bytes = out.len() - end;
    out[content..].rotate_right(length_bytes);
}

/// Returns the time of a record, and the one that applies if that is 0.
pub(super) fn times_of(message: &MessageDescriptor, record: &[u8]) -> Result<[u64; 2], WireFault> {
    let mut times = [0; 2];
    let mut cursor = Cursor::new(record);
    while let Some(tag) = cursor.tag()? {
        match message.field(tag >> 3).map(|field| field.kind) {
            Some(kind @ (FieldKind::Time | FieldKind::SecondTime)) if kind.carried_by(tag & 7) => {
                times[usize::from(matches!(kind, FieldKind::SecondTime))] = cursor.fixed64()?;
            }
            _ => cursor.skip(tag)?,
        }
    }
    Ok(times)
}

/// Returns the time with which a record is stored.
#[inline]
pub(super) const fn effective_time([time, second]: [u64; 2]) -> u64 {
    if time == 0 { second } else { time }
}
