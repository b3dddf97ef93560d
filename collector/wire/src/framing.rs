//! How a request is announced and framed: the header values of OTLP's two transports and gRPC's
//! message prefix.
//!
//! Takes header values and bytes, never a connection: the receiver decides what is answered to what
//! is refused here. Limits: one message in a call, as OTLP's calls are all unary.

use crate::decompress::Encoding;

/// One byte of flags and four of length before each message of a gRPC call.
pub const GRPC_PREFIX_BYTES: usize = 5;

/// How a message is written, once it is plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// OTLP's protobuf.
    Protobuf,
    /// OTLP in JSON.
    Json,
}

/// Why the bytes of a gRPC call are not taken. Sending them again can't help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// Shorter than a prefix.
    #[error("the call holds no message")]
    NoMessage,
    /// The prefix's length isn't that of what follows.
    #[error("the call does not hold exactly one message")]
    NotOneMessage,
    /// The flag says compressed, no header says how.
    #[error("a compressed message without grpc-encoding")]
    Unannounced,
    /// A flag other than 0 and 1.
    #[error("a message flag that gRPC does not know")]
    UnknownFlag,
}

/// A compression that isn't spoken, or is not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a compression that is not spoken")]
pub struct UnknownEncoding;

/// What an HTTP request's `Content-Type` says the body is written in, if that is spoken. Parameters
/// behind a semicolon change nothing.
#[must_use]
pub fn format_of(content_type: &str) -> Option<Format> {
    let media_type = media_type(content_type);
    if media_type.eq_ignore_ascii_case("application/x-protobuf") {
        Some(Format::Protobuf)
    } else if media_type.eq_ignore_ascii_case("application/json") {
        Some(Format::Json)
    } else {
        None
    }
}

/// Whether a `Content-Type` is gRPC's, with messages in protobuf.
#[must_use]
pub fn is_grpc(content_type: &str) -> bool {
    matches!(media_type(content_type), "application/grpc" | "application/grpc+proto")
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The compression an HTTP request's `Content-Encoding` names, in any case; `None`: plain.
///
/// # Errors
/// [`UnknownEncoding`] for any other name.
pub fn content_encoding(name: &str) -> Result<Option<Encoding>, UnknownEncoding> {
    let names = ["identity", "gzip", "x-gzip", "zstd"];
    let known = names.into_iter().find(|known| known.eq_ignore_ascii_case(name));
    grpc_encoding(known.ok_or(UnknownEncoding)?)
}

/// The compression that `grpc-encoding` names; `None`: plain.
///
/// # Errors
/// [`UnknownEncoding`] for any other name.
pub fn grpc_encoding(name: &str) -> Result<Option<Encoding>, UnknownEncoding> {
    match name {
        "identity" => Ok(None),
        name => Encoding::from_name(name).map(Some).ok_or(UnknownEncoding),
    }
}

/// Reads the prefix of a call's bytes, which hold one message. `announced` is what `grpc-encoding`
/// says. What is behind the first [`GRPC_PREFIX_BYTES`] is the message, compressed as the result
/// says.
///
/// # Errors
/// [`FramingError`]: the bytes are not exactly one message, or it can't be read.
pub fn grpc_message(
    body: &[u8],
    announced: Option<Encoding>,
) -> Result<Option<Encoding>, FramingError> {
    let prefix = body.split_first_chunk::<GRPC_PREFIX_BYTES>();
    let (&[flag, a, b, c, d], message) = prefix.ok_or(FramingError::NoMessage)?;
    if u32::from_be_bytes([a, b, c, d]) as usize != message.len() {
        return Err(FramingError::NotOneMessage);
    }
    match (flag, announced) {
        (0, _) => Ok(None),
        (1, Some(encoding)) => Ok(Some(encoding)),
        (1, None) => Err(FramingError::Unannounced),
        _ => Err(FramingError::UnknownFlag),
    }
}

/// gRPC's encoding of `grpc-message`: all but printable ASCII, and the percent sign itself.
#[must_use]
pub fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (0x20..0x7f).contains(&byte) && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
            }
        }
    }
    encoded
}

#[cfg(test)]
#[path = "../tests/unit/framing.rs"]
mod tests;
