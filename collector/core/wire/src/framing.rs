//! How a request is announced and framed: the header values of OTLP's two transports and gRPC's
//! message prefix.
//!
//! It parses header values and bytes, without a connection: the receiver decides the answer to an
//! error. Limits: one message per call, as OTLP's calls are all unary.

use crate::decompress::ContentEncoding;

/// One byte of flags and four of length before each message of a gRPC call.
pub const GRPC_PREFIX_BYTES: usize = 5;

/// The format of a message after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageFormat {
    /// OTLP's protobuf.
    Protobuf,
    /// OTLP's JSON.
    Json,
}

/// The reason why the bytes of a gRPC call are refused. Sending them again can't help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// The call is shorter than a prefix.
    #[error("the call contains no message")]
    NoMessage,
    /// The prefix's length isn't that of the following bytes.
    #[error("the call does not contain exactly one message")]
    NotOneMessage,
    /// The flag states compression, but no header names the encoding.
    #[error("a message is compressed, but grpc-encoding is missing")]
    Unannounced,
    /// The flag is neither 0 nor 1.
    #[error("unknown gRPC message flag")]
    UnknownFlag,
}

/// An unsupported compression, or a name that isn't text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported compression")]
pub struct UnknownEncoding;

/// Returns the format of an HTTP request's `Content-Type`, if it is supported. Ignores parameters
/// behind a semicolon.
#[must_use]
pub fn format_of(content_type: &str) -> Option<MessageFormat> {
    let media_type = media_type(content_type);
    if media_type.eq_ignore_ascii_case("application/x-protobuf") {
        Some(MessageFormat::Protobuf)
    } else if media_type.eq_ignore_ascii_case("application/json") {
        Some(MessageFormat::Json)
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

/// Returns the compression of an HTTP request's `Content-Encoding`, in any case; `None`: plain.
///
/// # Errors
/// [`UnknownEncoding`] for any other name.
pub fn content_encoding(name: &str) -> Result<Option<ContentEncoding>, UnknownEncoding> {
    let names = ["identity", "gzip", "x-gzip", "zstd"];
    let known = names.into_iter().find(|known| known.eq_ignore_ascii_case(name));
    grpc_encoding(known.ok_or(UnknownEncoding)?)
}

/// Returns the compression of `grpc-encoding`; `None`: plain.
///
/// # Errors
/// [`UnknownEncoding`] for any other name.
pub fn grpc_encoding(name: &str) -> Result<Option<ContentEncoding>, UnknownEncoding> {
    match name {
        "identity" => Ok(None),
        name => ContentEncoding::from_name(name).map(Some).ok_or(UnknownEncoding),
    }
}

/// Reads the prefix of a call's bytes, which hold one message. `announced` is the encoding from
/// `grpc-encoding`. The message follows the first [`GRPC_PREFIX_BYTES`], with the returned
/// compression.
///
/// # Errors
/// [`FramingError`] if the bytes are not exactly one readable message.
pub fn grpc_message(
    body: &[u8],
    announced: Option<ContentEncoding>,
) -> Result<Option<ContentEncoding>, FramingError> {
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

/// Encodes `grpc-message` as gRPC requires: all but printable ASCII, and the percent sign itself.
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
mod tests;
