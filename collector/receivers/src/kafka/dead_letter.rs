//! Copies messages that can't be stored out of librdkafka's memory, unchanged.

use std::sync::Arc;

use millrace_pipeline::sink::{DeadLetter, Rejection};
use millrace_wire::Signal;

use super::member::Fetched;

/// The reason of a message that is too long to be decoded.
pub(super) const TOO_LONG: &str = "too_long";

/// Copies a message with the reason it can't be stored.
pub(super) fn dead_letter(
    message: &impl Fetched,
    signal: Signal,
    topic: &Arc<str>,
    rejection: Rejection,
) -> DeadLetter {
    // What is too long for us is too long for most topics, and lies where the letter says.
    let payload = match rejection.reason {
        TOO_LONG => Vec::new(),
        _ => message.payload().unwrap_or_default().to_vec(),
    };
    DeadLetter {
        signal,
        topic: Arc::clone(topic),
        partition: message.partition(),
        offset: message.offset(),
        timestamp_millis: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        headers: message.raw_headers(),
        payload,
        rejection,
    }
}
