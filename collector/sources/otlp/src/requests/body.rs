//! Collects a request's body under a length cap, and reserves budget from the first byte on.
//!
//! A declared length never allocates memory: the buffer grows with the bytes that arrive. Bodies
//! that no worker has accepted yet share a part of the budget. A worker copies a body's content,
//! and the allocator retains the body's memory for later bodies: without that limit, a burst could
//! use the budget twice.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::decompress::ContentEncoding;
use millrace_wire::framing::MessageFormat;

use crate::answers::denied::Denial;

/// The first capacity of a buffer, in bytes. It is small because 4,000 slow requests may hold one
/// each; doubled eleven times it holds the longest message.
const FIRST_CAPACITY_BYTES: usize = 2 * 1024;

/// Reserves memory for bodies: in the budget, and in the part of it for bodies not yet accepted.
pub(crate) struct Intake {
    budget: Budget,
    unread: Budget,
    /// The unread part always holds the longest request, however small the budget is.
    longest_bytes: u64,
}

/// A complete body with its reserved budget.
#[derive(Debug)]
pub(crate) struct CollectedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) memory: BodyMemory,
}

/// The position of a message in a body, and how it is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MessageLayout {
    /// The message's first byte. The message extends to the end of the body.
    pub(crate) start: usize,
    pub(crate) encoding: Option<ContentEncoding>,
    pub(crate) format: MessageFormat,
}

/// The budget of a body while it is collected and until its memory is freed.
#[derive(Debug)]
pub(crate) struct BodyMemory {
    /// Covers the buffer's capacity. It moves on with the body's decoded content.
    pub(crate) reservation: Reservation,
    /// Covers the buffer among the unread bodies. It is freed with the buffer.
    pub(crate) unread: Reservation,
}

impl Intake {
    /// Reserves from `budget`, for requests of at most `longest_bytes`.
    pub(crate) fn new(budget: Budget, longest_bytes: u64) -> Self {
        let unread = Budget::new(longest_bytes);
        Self { budget, unread, longest_bytes }
    }

    fn empty_memory(&self) -> BodyMemory {
        // The budget follows the process's memory limit, which may change.
        let shares = MemoryShares::of_budget(self.budget.limit_bytes());
        self.unread.set_limit(shares.unread_bodies_bytes(self.longest_bytes));
        BodyMemory {
            reservation: self.budget.empty_reservation(),
            unread: self.unread.empty_reservation(),
        }
    }
}

impl BodyMemory {
    /// Frees the body's memory, and then its reserved budget.
    pub(crate) fn release_body(&mut self, body: &mut Vec<u8>) {
        *body = Vec::new();
        // Shrinking can't fail.
        let _ = self.try_resize(0);
    }

    /// Resizes the reservations to `bytes`. If the budget can't cover the growth, the caller drops
    /// the body and all that it reserved.
    fn try_resize(&mut self, bytes: u64) -> bool {
        self.unread.try_resize(bytes) && self.reservation.try_resize(bytes)
    }
}

/// Reads a body to its end.
///
/// # Errors
/// The body is longer than `limit_bytes`, the budget is full, or the client disconnects.
pub(crate) async fn collect_body<B>(
    mut body: B,
    limit_bytes: usize,
    intake: &Intake,
) -> Result<CollectedBody, Denial>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limit_bytes as u64 {
        return Err(Denial::too_large(limit_bytes));
    }
    let mut bytes = Vec::new();
    let mut room = intake.empty_memory();
    while let Some(frame) = body.frame().await {
        let ended = |_| Denial::new(RefusalReason::Unavailable, "the request ended early");
        let frame = frame.map_err(ended)?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = bytes.len() + data.remaining();
        if length > limit_bytes {
            return Err(Denial::too_large(limit_bytes));
        }
        if length > bytes.capacity() {
            let capacity = grown_capacity(bytes.capacity(), length, limit_bytes);
            if !room.try_resize(capacity as u64) {
                return Err(Denial::full());
            }
            bytes.reserve_exact(capacity - bytes.len());
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            bytes.extend_from_slice(chunk);
            let read = chunk.len();
            data.advance(read);
        }
    }
    Ok(CollectedBody { bytes, memory: room })
}

/// Returns the next capacity: at least `needed`, double the current one, at most the limit.
fn grown_capacity(capacity: usize, needed: usize, limit_bytes: usize) -> usize {
    needed.max(capacity * 2).max(FIRST_CAPACITY_BYTES).min(limit_bytes)
}

#[cfg(test)]
mod tests;
