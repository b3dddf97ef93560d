//! Collects a request's body: under a cap, and within the byte budget from the first byte on.
//!
//! A declared length never allocates memory: a buffer grows with the bytes that arrive. Bodies that
//! no worker has taken over yet have only a share of the budget. A worker copies a body's content,
//! and the allocator keeps the body's memory for further bodies: without the share, a burst could
//! take the budget twice.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_wire::decompress::Encoding;
use millrace_wire::framing::Format;

use super::denied::Denied;

/// What a buffer begins with at least, in bytes: little, since 4,000 requests that drip may have
/// one each, and doubled eleven times it holds the longest message.
const FIRST_CAPACITY_BYTES: usize = 2 * 1024;

/// The share of the budget for bodies that no worker has taken over yet, as a divisor. Workers
/// take over about as fast as sockets are read, so few bodies wait.
const UNREAD_SHARE: u64 = 4;

/// Where bodies find room: in the budget, and in the share of it for those not yet taken over.
pub(crate) struct Intake {
    budget: Budget,
    unread: Budget,
    /// The share holds the longest request, however small the budget is.
    longest_bytes: u64,
}

/// A body, whole, with the budget it takes.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) bytes: Vec<u8>,
    pub(crate) room: Room,
}

/// Where a message is in a body, and what has to be undone to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The message's first byte; it goes on to the end.
    pub(crate) start: usize,
    pub(crate) encoding: Option<Encoding>,
    pub(crate) format: Format,
}

/// What a body takes while it is collected and until its memory is given back.
#[derive(Debug)]
pub(crate) struct Room {
    /// Covers the buffer's capacity. Goes on with what the body says.
    pub(crate) reservation: Reservation,
    /// Covers it among the bodies not yet taken over. Goes with the buffer.
    pub(crate) unread: Reservation,
}

impl Intake {
    /// Room in a budget, for requests of at most `longest_bytes`.
    pub(crate) fn new(budget: Budget, longest_bytes: u64) -> Self {
        let unread = Budget::new(longest_bytes);
        Self { budget, unread, longest_bytes }
    }

    fn nothing(&self) -> Room {
        // The budget follows the process's memory limit, which may change.
        let share_bytes = self.budget.limit_bytes() / UNREAD_SHARE;
        self.unread.set_limit(share_bytes.max(self.longest_bytes));
        Room { reservation: self.budget.nothing(), unread: self.unread.nothing() }
    }
}

impl Room {
    /// Makes it cover `bytes`. Where there is no room for growth, the body is given up with all it
    /// has.
    fn try_resize(&mut self, bytes: u64) -> bool {
        self.unread.try_resize(bytes) && self.reservation.try_resize(bytes)
    }
}

/// Reads a body to its end.
///
/// # Errors
/// When it is longer than `limit_bytes`, there is no room, or the client breaks off.
pub(crate) async fn collect<B>(
    mut body: B,
    limit_bytes: usize,
    intake: &Intake,
) -> Result<Collected, Denied>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limit_bytes as u64 {
        return Err(too_large(limit_bytes));
    }
    let mut bytes = Vec::new();
    let mut room = intake.nothing();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Denied::unavailable("the request broke off"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = bytes.len() + data.remaining();
        if length > limit_bytes {
            return Err(too_large(limit_bytes));
        }
        if length > bytes.capacity() {
            let capacity = grown(bytes.capacity(), length, limit_bytes);
            if !room.try_resize(capacity as u64) {
                return Err(Denied::full());
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
    Ok(Collected { bytes, room })
}

/// The next capacity: at least what is needed, double what there was, at most the limit.
fn grown(capacity: usize, needed: usize, limit_bytes: usize) -> usize {
    needed.max(capacity * 2).max(FIRST_CAPACITY_BYTES).min(limit_bytes)
}

fn too_large(limit_bytes: usize) -> Denied {
    Denied::too_large(format!(
        "the request has more than {limit_bytes} bytes; send smaller batches"
    ))
}

#[cfg(test)]
#[path = "../../tests/unit/otlp/body.rs"]
mod tests;
