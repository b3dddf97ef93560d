//! Collecting a request's body: under a cap, and within the byte budget from the first byte on.
//!
//! A length that a client declares is never trusted with memory: a buffer grows with what has come.
//! Bodies that no worker has taken over yet have a share of the budget only. A worker copies what a
//! body says to where it goes, and the allocator keeps the body's memory for further bodies:
//! without the share, a burst could leave the budget's size in memory twice.

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
mod tests {
    use super::{Denied, Intake, collect};
    use crate::otlp::denied::Kind;
    use bytes::Bytes;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use millrace_pipeline::budget::Budget;

    fn chunks(lengths: &[usize]) -> impl hyper::body::Body<Data = Bytes> + Unpin {
        let frames: Vec<_> = lengths
            .iter()
            .map(|n| Ok::<_, std::io::Error>(Frame::data(Bytes::from(vec![7; *n]))))
            .collect();
        StreamBody::new(futures::stream::iter(frames))
    }

    /// Scenario: bodies at the limit and one byte past it. Guarantee: exact, and all budget
    /// returns.
    #[tokio::test]
    async fn the_limit_is_exact_and_the_budget_covers_the_buffer() {
        let budget = Budget::new(1 << 20);
        let intake = Intake::new(budget.clone(), 100_000);
        let body = collect(chunks(&[50_000, 30_000, 20_000]), 100_000, &intake).await.unwrap();
        assert_eq!(body.bytes.len(), 100_000);
        assert!(body.room.reservation.bytes() >= body.bytes.capacity() as u64);
        drop(body);
        let over = collect(chunks(&[50_000, 50_001]), 100_000, &intake).await.unwrap_err();
        assert_eq!(over.kind, Kind::TooLarge);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: a budget smaller than the body. Guarantee: refused with a delay, nothing kept.
    #[tokio::test]
    async fn a_body_that_the_budget_cannot_hold_is_refused_with_a_delay() {
        let budget = Budget::new(40_000);
        let intake = Intake::new(budget.clone(), 100_000);
        let Denied { kind, .. } =
            collect(chunks(&[30_000, 30_000]), 100_000, &intake).await.unwrap_err();
        assert!(matches!(kind, Kind::Full(_)));
        assert_eq!(budget.used_bytes(), 0);
    }
    /// Scenario: bodies come faster than workers take them over; one is taken over, and what it
    /// said goes on. Guarantee: they have a quarter of the budget, at least the longest request,
    /// and find room again when memory was given back, not when a request was answered.
    #[tokio::test]
    async fn bodies_that_nobody_has_read_take_a_share_of_the_budget() {
        let budget = Budget::new(400_000);
        let intake = Intake::new(budget.clone(), 70_000);
        let first = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap();
        let Denied { kind, .. } = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap_err();
        assert!(matches!(kind, Kind::Full(_)));
        let goes_on = first.room.reservation;
        drop((first.bytes, first.room.unread));
        let second = collect(chunks(&[60_000]), 70_000, &intake).await.unwrap();
        assert_eq!(budget.used_bytes(), goes_on.bytes() + second.room.reservation.bytes());
        budget.set_limit(200_000);
        drop(second);
        let longest = collect(chunks(&[70_000]), 70_000, &intake).await.unwrap();
        assert_eq!(longest.bytes.len(), 70_000);
        drop((goes_on, longest));
        assert_eq!(budget.used_bytes(), 0);
    }
}
