//! Cuts requests into messages.

use std::borrow::Cow;

use millrace_pipeline::publish::PublishError;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{Bucket, RequestOutline};
use millrace_wire::{Signal, WireError, otlp};

/// A request cut into messages.
pub(crate) struct Pieces<'a> {
    /// Requests that each fit into a message, with their outlines.
    pub(crate) pieces: Vec<(Cow<'a, [u8]>, RequestOutline)>,
    /// The number of records that no message can hold.
    pub(crate) rejected_records: u64,
}

/// Cuts a checked request between records if it is too long for one message.
///
/// # Errors
/// It isn't well-formed, so it was not checked: none of it is sent.
pub(crate) fn cut_request(
    signal: Signal,
    bytes: Cow<'_, [u8]>,
    checked: RequestOutline,
    max_message_bytes: usize,
) -> Result<Pieces<'_>, PublishError> {
    let mut cut = Pieces { pieces: Vec::new(), rejected_records: 0 };
    if bytes.len() <= max_message_bytes {
        cut.pieces.push((bytes, checked));
        return Ok(cut);
    }
    let parts = otlp::split_request(signal, &bytes, max_message_bytes);
    for part in parts.map_err(of_malformed)? {
        if part.bytes.len() <= max_message_bytes {
            let checked = outline_of(signal, &part.bytes, part.records);
            cut.pieces.push((Cow::Owned(part.bytes), checked));
        } else {
            cut.rejected_records += part.records;
        }
    }
    Ok(cut)
}

/// Sorts a checked request's spans by trace into `buckets` buckets.
///
/// # Errors
/// It isn't well-formed, so it was not checked: none of it is sent.
pub(crate) fn sort_by_trace(bytes: &[u8], buckets: u32) -> Result<Vec<Bucket>, PublishError> {
    otlp::split_by_trace(bytes, buckets).map_err(of_malformed)
}

/// Returns the refusal of bytes that stay malformed however often they are sent.
fn of_malformed(error: WireError) -> PublishError {
    tracing::error!(%error, "a request that was checked is malformed; its records are not sent");
    PublishError::Malformed(error.to_string())
}

/// Returns the outline of a part of a checked request, or of one checked by an earlier process.
pub(crate) fn outline_of(signal: Signal, bytes: &[u8], records: u64) -> RequestOutline {
    // It is within the limits, as the request was; otherwise it would be sent alone.
    let found = otlp::outline_request(signal, bytes, &WireLimits::default());
    found.unwrap_or_else(|_| RequestOutline::unjoinable(records))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group whose length exceeds the request.
    const CUT_OFF: [u8; 4] = [0x0a, 9, 0x12, 7];

    /// Scenario: bytes that are cut off inside a group, to be divided by length and by trace.
    /// Guarantee: they are refused for good, since no retry can change them.
    #[test]
    fn malformed_bytes_are_refused_for_good() {
        let checked = RequestOutline::unjoinable(1);
        let cut = cut_request(Signal::Traces, Cow::Borrowed(&CUT_OFF), checked, 1);
        assert!(matches!(cut.err(), Some(PublishError::Malformed(_))));
        assert!(matches!(sort_by_trace(&CUT_OFF, 2), Err(PublishError::Malformed(_))));
    }
}
