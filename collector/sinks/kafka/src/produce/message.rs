//! Messages: open, while requests are joined to them, and closed, while they wait for their
//! partition.

use std::borrow::Cow;
use std::time::Instant;

use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{CombinedOutline, RequestOutline};
use millrace_wire::{Signal, otlp};

use crate::request::request_part::RequestPart;

/// A message that requests are joined to.
#[derive(Default)]
pub(crate) struct OpenMessage {
    /// It retains its capacity from message to message.
    pub(crate) buffer: Vec<u8>,
    records: u64,
    parts: Vec<RequestPart>,
    since: Option<Instant>,
    /// The sum of its requests' outlines.
    joined: CombinedOutline,
}

/// A closed message without its bytes.
pub(crate) struct Envelope {
    pub(crate) records: u64,
    pub(crate) parts: Vec<RequestPart>,
    pub(crate) closed_at: Instant,
}

/// A closed message that the client library doesn't have yet.
pub(crate) struct Message {
    pub(crate) payload: Vec<u8>,
    pub(crate) envelope: Envelope,
    /// The partition that its traces belong to; `None` for any partition.
    pub(crate) partition: Option<usize>,
}

impl Message {
    /// Removes the requests that `is_removed` selects, and their bytes.
    pub(crate) fn remove(&mut self, is_removed: impl Fn(&RequestPart) -> bool) -> Vec<RequestPart> {
        let mut payload = Cow::Owned(std::mem::take(&mut self.payload));
        let removed = self.envelope.remove(&mut payload, is_removed);
        self.payload = payload.into_owned();
        removed
    }
}

impl Envelope {
    /// Removes the requests that `is_removed` selects, and their bytes from the message.
    pub(crate) fn remove(
        &mut self,
        payload: &mut Cow<'_, [u8]>,
        is_removed: impl Fn(&RequestPart) -> bool,
    ) -> Vec<RequestPart> {
        if !self.parts.iter().any(&is_removed) {
            return Vec::new();
        }
        let (mut removed, mut bytes, mut start) = (Vec::new(), Vec::new(), 0);
        for part in std::mem::take(&mut self.parts) {
            let end = start + part.bytes;
            if is_removed(&part) {
                self.records -= part.records;
                removed.push(part);
            } else {
                bytes.extend_from_slice(payload.get(start..end).unwrap_or_default());
                self.parts.push(part);
            }
            start = end;
        }
        *payload = Cow::Owned(bytes);
        removed
    }
}

impl OpenMessage {
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns when its first request was joined; `None` while it is empty.
    pub(crate) fn opened_at(&self) -> Option<Instant> {
        self.since
    }

    /// Returns whether a request can be joined within the limits of one, and then counts it as
    /// joined.
    pub(crate) fn try_join(&mut self, request: &RequestOutline) -> bool {
        self.joined.try_add(request, &WireLimits::default())
    }

    pub(crate) fn push(&mut self, bytes: &[u8], part: RequestPart) {
        if self.is_empty() {
            self.since = Some(Instant::now());
        }
        self.buffer.extend_from_slice(bytes);
        self.records += part.records;
        self.parts.push(part);
    }

    /// Closes the message; its bytes stay in the buffer until [`Self::clear`]. `None` if it is
    /// empty.
    pub(crate) fn close(&mut self) -> Option<Envelope> {
        self.since.take()?;
        let parts = std::mem::take(&mut self.parts);
        let records = std::mem::take(&mut self.records);
        Some(Envelope { records, parts, closed_at: Instant::now() })
    }

    /// Empties it. One of many frees its memory, which the budget doesn't count.
    pub(crate) fn clear(&mut self, is_one_of_many: bool) {
        self.joined.clear();
        self.buffer.clear();
        if is_one_of_many {
            self.buffer = Vec::new();
        }
    }
}

/// Divides a message in two between its requests, or a single request between its records. `None`
/// when that can't be done. The parts are further parts of the message's own requests.
pub(crate) fn split_message(
    signal: Signal,
    payload: &[u8],
    parts: &[RequestPart],
) -> Option<Vec<(Vec<u8>, Vec<RequestPart>)>> {
    let middle = payload.len() / 2;
    if let [only] = parts {
        let pieces =
            otlp::split_request(signal, payload, middle).ok().filter(|parts| parts.len() > 1)?;
        let half = |piece: otlp::SplitPart| {
            let part = only.another_part().with_size(piece.bytes.len(), piece.records);
            (piece.bytes, vec![part])
        };
        return Some(pieces.into_iter().map(half).collect());
    }
    let ends = parts.iter().scan(0, |end, part| {
        *end += part.bytes;
        Some(*end)
    });
    // Divide behind the request that reaches the middle, or before it if it is the last.
    let first = ends.take_while(|end| *end < middle).count() + 1;
    let (first, second) = parts.split_at(first.min(parts.len().checked_sub(1)?));
    let bytes = |parts: &[RequestPart]| parts.iter().map(|part| part.bytes).sum::<usize>();
    let (one, other) = payload.split_at_checked(bytes(first))?;
    let half = |payload: &[u8], parts: &[RequestPart]| {
        let again = |part: &RequestPart| part.another_part().with_size(part.bytes, part.records);
        (payload.to_vec(), parts.iter().map(again).collect())
    };
    (bytes(second) == other.len()).then(|| vec![half(one, first), half(other, second)])
}
