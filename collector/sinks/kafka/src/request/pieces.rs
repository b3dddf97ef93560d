//! Cuts requests into messages.

use std::borrow::Cow;

use millrace_pipeline::publish::PublishError;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::RequestOutline;
use millrace_wire::{Signal, otlp};

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
    for part in parts.map_err(|error| PublishError::Unavailable(error.to_string()))? {
        if part.bytes.len() <= max_message_bytes {
            let checked = outline_of(signal, &part.bytes, part.records);
            cut.pieces.push((Cow::Owned(part.bytes), checked));
        } else {
            cut.rejected_records += part.records;
        }
    }
    Ok(cut)
}

/// Returns the outline of a part of a checked request, or of one checked by an earlier process.
pub(crate) fn outline_of(signal: Signal, bytes: &[u8], records: u64) -> RequestOutline {
    // It is within the limits, as the request was; otherwise it would be sent alone.
    let found = otlp::outline_request(signal, bytes, &WireLimits::default());
    found.unwrap_or_else(|_| RequestOutline::unjoinable(records))
}
