//! Copies messages that can't be stored out of librdkafka's memory, unchanged.

use std::sync::Arc;

use millrace_pipeline::sink::{DeadLetter, Rejection};
use millrace_wire::Signal;

use super::member::FetchedMessage;

/// The reason of a message that is too long to be decoded.
pub(super) const TOO_LONG: &str = "too_long";

/// Copies a message with the reason it can't be stored.
pub(super) fn build_dead_letter(
    message: &impl FetchedMessage,
    signal: Signal,
    topic: &Arc<str>,
    rejection: Rejection,
) -> DeadLetter {
    // A message that is too long here is too long for most topics, and the dead letter names its
    // origin.
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
