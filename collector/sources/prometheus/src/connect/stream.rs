//! The byte stream that carries an HTTP connection, and its bounds.

use hyper::client::conn::http1;
use tokio::io::{AsyncRead, AsyncWrite};

/// The longest head of a response, and the most that is read of a body at once.
pub(super) const HEAD_BYTES_MAX: usize = 32 * 1024;

/// A byte stream that carries a connection.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

pub(super) type BoxStream = Box<dyn ByteStream>;

impl std::fmt::Debug for dyn ByteStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stream")
    }
}

/// Returns a builder for HTTP/1 connections with bounded buffers.
pub(super) fn http_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    builder
}
