//! Decompresses gzip and zstd with a limit: the only raw decompressors in the repository.
//!
//! A [`Decompressor`] is reused: zstd's context is allocated once, on first use; gzip's state is
//! created again for each member, since it can't be reset to a gzip header. Output goes into the
//! caller's buffer, which never grows past the limit, so that a few bytes can't become gigabytes:
//! the limit is checked before memory is allocated.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use crate::limits::{GZIP_MEMBERS_MAX, ZSTD_WINDOW_LOG_MAX};

/// The compression of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContentEncoding {
    /// RFC 1952; several members in a row are one body.
    Gzip,
    /// RFC 8878; several frames in a row are one body.
    Zstd,
}

impl ContentEncoding {
    /// Returns the encoding with this name in `Content-Encoding` or `grpc-encoding`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns its name in headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The reason why a body can't be decompressed. Sending the same bytes again can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The body is longer than the limit. Its length is unknown, because the rest wasn't
    /// decompressed.
    #[error("the {} body exceeds {limit_bytes} bytes when decompressed", .encoding.as_str())]
    TooLong {
        /// The body's encoding.
        encoding: ContentEncoding,
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// The body ends before its stream does.
    #[error("the {} body is truncated", .encoding.as_str())]
    Truncated {
        /// The body's encoding.
        encoding: ContentEncoding,
    },
    /// The body doesn't match its encoding.
    #[error("the body is not valid {}: {reason}", .encoding.as_str())]
    Corrupt {
        /// The declared encoding.
        encoding: ContentEncoding,
        /// The decompressor's error.
        reason: String,
    },
}

/// The minimum growth of the output: one step for all but large bodies.
const STEP_BYTES: usize = 64 * 1024;

/// A buffer is first sized for this many times the input, about OTLP's compression ratio.
const EXPECTED_RATIO: usize = 6;

/// Reusable decompression contexts.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// Returns a decompressor that has not allocated memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `out`'s content with the decompressed `body`; its capacity is reused.
    ///
    /// # Errors
    /// See [`DecompressError`]. `out` then holds what was decompressed so far.
    pub fn decompress(
        &mut self,
        encoding: ContentEncoding,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        out.clear();
        match encoding {
            ContentEncoding::Gzip => self.decompress_gzip(body, limit_bytes, out),
            ContentEncoding::Zstd => self.decompress_zstd(body, limit_bytes, out),
        }
    }

    fn decompress_gzip(
        &mut self,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        const ENCODING: ContentEncoding = ContentEncoding::Gzip;
        /// 16 on top of zlib's window bits selects a gzip header with its checksum.
        const WINDOW_BITS: u8 = 15;
        let stream = match &mut self.gzip {
            Some(stream) => {
                *stream = Decompress::new_gzip(WINDOW_BITS);
                stream
            }
            none => none.insert(Decompress::new_gzip(WINDOW_BITS)),
        };
        let mut rest = body;
        let mut members = 1;
        loop {
            ensure_capacity(body.len(), limit_bytes, out);
            let read_before = stream.total_in();
            let status = stream
                .decompress_vec(rest, out, FlushDecompress::None)
                .map_err(|error| corrupt_error(ENCODING, &error.to_string()))?;
            let read = (stream.total_in() - read_before) as usize;
            rest = rest.get(read..).unwrap_or_default();
            if out.len() > limit_bytes {
                return Err(DecompressError::TooLong { encoding: ENCODING, limit_bytes });
            }
            match status {
                Status::StreamEnd if rest.is_empty() => return Ok(()),
                Status::StreamEnd if members >= GZIP_MEMBERS_MAX => {
                    let reason = format!("more than {GZIP_MEMBERS_MAX} members");
                    return Err(corrupt_error(ENCODING, &reason));
                }
                // Another member follows.
                Status::StreamEnd => {
                    members += 1;
                    *stream = Decompress::new_gzip(WINDOW_BITS);
                }
                // The output had capacity left, so input is missing.
                _ if out.len() < out.capacity() => {
                    return Err(DecompressError::Truncated { encoding: ENCODING });
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }

    fn decompress_zstd(
        &mut self,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        const ENCODING: ContentEncoding = ContentEncoding::Zstd;
        let failed = |code| corrupt_error(ENCODING, get_error_name(code));
        let context = match &mut self.zstd {
            Some(context) => context,
            none => {
                let context = none.insert(DCtx::create());
                context
                    .set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))
                    .map_err(failed)?;
                context
            }
        };
        context.reset(zstd::zstd_safe::ResetDirective::SessionOnly).map_err(failed)?;
        let mut input = InBuffer::around(body);
        loop {
            ensure_capacity(body.len(), limit_bytes, out);
            let position = out.len();
            let hint = {
                let mut output = OutBuffer::around_pos(out, position);
                context.decompress_stream(&mut output, &mut input).map_err(failed)?
            };
            if out.len() > limit_bytes {
                return Err(DecompressError::TooLong { encoding: ENCODING, limit_bytes });
            }
            match (hint, input.pos() == body.len()) {
                // A frame is complete, and it was the last one.
                (0, true) => return Ok(()),
                // The output had capacity left, so input is missing.
                (_, true) if out.len() < out.capacity() => {
                    return Err(DecompressError::Truncated { encoding: ENCODING });
                }
                _ => {}
            }
        }
    }
}

/// Ensures that `out` has capacity for at least one more byte, growing it by doubling but to no
/// more than one byte over the limit: that byte distinguishes a body that is too long from one that
/// just fits.
fn ensure_capacity(body_len: usize, limit_bytes: usize, out: &mut Vec<u8>) {
    if out.len() < out.capacity() {
        return;
    }
    let estimate =
        if out.is_empty() { body_len.saturating_mul(EXPECTED_RATIO) } else { out.len() * 2 };
    let capacity = estimate.max(out.len() + STEP_BYTES).min(limit_bytes + 1);
    out.reserve_exact(capacity.saturating_sub(out.len()).max(1));
}

#[cold]
fn corrupt_error(encoding: ContentEncoding, reason: &str) -> DecompressError {
    DecompressError::Corrupt { encoding, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
