//! Copies messages that can't be stored out of librdkafka's memory, unchanged.

use std::sync::Arc;

use millrace_config::MAX_MESSAGE_BYTES;
use millrace_pipeline::sink::{DeadLetter, Rejection};
use millrace_wire::Signal;

use crate::group::member::FetchedMessage;

/// The reason of a message that is too long to be decoded.
const TOO_LONG: &str = "too_long";

/// Returns why a message is too long to be decoded, if it is.
pub(crate) fn too_long(bytes: usize) -> Option<Rejection> {
    let limit_bytes = MAX_MESSAGE_BYTES.as_usize();
    (bytes > limit_bytes).then(|| Rejection {
        reason: TOO_LONG,
        detail: format!(
            "{bytes} bytes exceed the {limit_bytes} bytes that can be decoded; they remain \
             in the source topic"
        ),
    })
}

/// Copies a message with the reason it can't be stored.
pub(crate) fn build_dead_letter(
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
