//! Collecting a request's body: under a cap, and within the byte budget from the first byte on.
//!
//! A length that a client declares is never trusted with memory: a buffer grows with what has come.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;
use millrace_pipeline::budget::{Budget, Reservation};

use super::denied::Denied;

/// What a buffer begins with, in bytes: one HTTP/2 frame of the default size.
const FIRST_CAPACITY_BYTES: usize = 16 * 1024;

/// A body, whole, with the budget it takes.
#[derive(Debug)]
pub(crate) struct Collected {
    pub(crate) bytes: Vec<u8>,
    /// Covers the buffer's capacity.
    pub(crate) reservation: Reservation,
}

/// Reads a body to its end.
///
/// # Errors
/// When it is longer than `limit_bytes`, the budget has no room, or the client breaks off.
pub(crate) async fn collect<B>(
    mut body: B,
    limit_bytes: usize,
    budget: &Budget,
) -> Result<Collected, Denied>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limit_bytes as u64 {
        return Err(too_large(limit_bytes));
    }
    let mut bytes = Vec::new();
    let mut reservation = budget.try_reserve(0).ok_or_else(Denied::full)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Denied::unavailable("the request broke off"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        let length = bytes.len() + data.remaining();
        if length > limit_bytes {
            return Err(too_large(limit_bytes));
        }
        if length > bytes.capacity() {
            let capacity = grown(bytes.capacity(), length, limit_bytes);
            if !reservation.try_resize(capacity as u64) {
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
    Ok(Collected { bytes, reservation })
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
    use super::{Denied, collect};
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
        let body = collect(chunks(&[50_000, 30_000, 20_000]), 100_000, &budget).await.unwrap();
        assert_eq!(body.bytes.len(), 100_000);
        assert!(body.reservation.bytes() >= body.bytes.capacity() as u64);
        drop(body);
        let over = collect(chunks(&[50_000, 50_001]), 100_000, &budget).await.unwrap_err();
        assert_eq!(over.kind, Kind::TooLarge);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: a budget smaller than the body. Guarantee: refused with a delay, nothing kept.
    #[tokio::test]
    async fn a_body_that_the_budget_cannot_hold_is_refused_with_a_delay() {
        let budget = Budget::new(40_000);
        let Denied { kind, .. } =
            collect(chunks(&[30_000, 30_000]), 100_000, &budget).await.unwrap_err();
        assert!(matches!(kind, Kind::Full(_)));
        assert_eq!(budget.used_bytes(), 0);
    }
}
