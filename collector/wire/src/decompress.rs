//! Undoing gzip and zstd under a cap: the only raw decompressors in the tree.
//!
//! A [`Decompressor`] is reused: zstd's context is allocated once, on first use; gzip's state is
//! made again for each member, since it can't be reset to a gzip header. Output goes into the
//! caller's buffer, which never grows past the cap, so that a few bytes can't become gigabytes: the
//! cap is checked before memory is taken, not after.

use flate2::{Decompress, FlushDecompress, Status};
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

use crate::limits::{GZIP_MEMBERS_MAX, ZSTD_WINDOW_LOG_MAX};

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// RFC 1952; several members in a row are one body.
    Gzip,
    /// RFC 8878; several frames in a row are one body.
    Zstd,
}

impl Encoding {
    /// The encoding of that name in `Content-Encoding` or `grpc-encoding`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its name in headers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Why a body could not be decompressed. Sending the same bytes again can't help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// The body is longer than the cap. How much longer is not known: it wasn't decompressed.
    #[error("the {} body has more than {limit_bytes} bytes when decompressed", .encoding.as_str())]
    TooLong {
        /// How it was compressed.
        encoding: Encoding,
        /// The cap in bytes.
        limit_bytes: usize,
    },
    /// The body ends before its stream does.
    #[error("the {} body is cut off", .encoding.as_str())]
    Truncated {
        /// How it was compressed.
        encoding: Encoding,
    },
    /// The body is not what its encoding says.
    #[error("the body is not valid {}: {reason}", .encoding.as_str())]
    Corrupt {
        /// How it should have been compressed.
        encoding: Encoding,
        /// What the decompressor says.
        reason: String,
    },
}

/// The least the output grows by: one step for all but large bodies.
const STEP_BYTES: usize = 64 * 1024;

/// A buffer is first sized for this many times the input, about what OTLP compresses by.
const EXPECTED_RATIO: usize = 6;

/// Reusable decompression contexts.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
}

impl Decompressor {
    /// A decompressor that has not taken any memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces `out`'s content with `body` decompressed; its capacity is kept and reused.
    ///
    /// # Errors
    /// See [`DecompressError`]. `out` then holds what had been decompressed so far.
    pub fn decompress(
        &mut self,
        encoding: Encoding,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        out.clear();
        match encoding {
            Encoding::Gzip => self.gunzip(body, limit_bytes, out),
            Encoding::Zstd => self.unzstd(body, limit_bytes, out),
        }
    }

    fn gunzip(
        &mut self,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        const ENCODING: Encoding = Encoding::Gzip;
        /// 16 on top of zlib's window bits asks for a gzip header and its check sum.
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
            make_room(body.len(), limit_bytes, out);
            let read_before = stream.total_in();
            let status = stream
                .decompress_vec(rest, out, FlushDecompress::None)
                .map_err(|error| corrupt(ENCODING, &error.to_string()))?;
            let read = (stream.total_in() - read_before) as usize;
            rest = rest.get(read..).unwrap_or_default();
            if out.len() > limit_bytes {
                return Err(DecompressError::TooLong { encoding: ENCODING, limit_bytes });
            }
            match status {
                Status::StreamEnd if rest.is_empty() => return Ok(()),
                Status::StreamEnd if members >= GZIP_MEMBERS_MAX => {
                    let reason = format!("it has more than {GZIP_MEMBERS_MAX} members");
                    return Err(corrupt(ENCODING, &reason));
                }
                // Another member follows.
                Status::StreamEnd => {
                    members += 1;
                    *stream = Decompress::new_gzip(WINDOW_BITS);
                }
                // There was room for more output, so what is missing is input.
                _ if out.len() < out.capacity() => {
                    return Err(DecompressError::Truncated { encoding: ENCODING });
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }

    fn unzstd(
        &mut self,
        body: &[u8],
        limit_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        const ENCODING: Encoding = Encoding::Zstd;
        let failed = |code| corrupt(ENCODING, get_error_name(code));
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
            make_room(body.len(), limit_bytes, out);
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
                // There was room for more output, so what is missing is input.
                (_, true) if out.len() < out.capacity() => {
                    return Err(DecompressError::Truncated { encoding: ENCODING });
                }
                _ => {}
            }
        }
    }
}

/// Makes sure that `out` has room for at least one more byte, growing it by doubling but to no more
/// than one byte over the limit: the byte that tells a body that is too long from one that just
/// fits.
fn make_room(body_len: usize, limit_bytes: usize, out: &mut Vec<u8>) {
    if out.len() < out.capacity() {
        return;
    }
    let wanted =
        if out.is_empty() { body_len.saturating_mul(EXPECTED_RATIO) } else { out.len() * 2 };
    let capacity = wanted.max(out.len() + STEP_BYTES).min(limit_bytes + 1);
    out.reserve_exact(capacity.saturating_sub(out.len()).max(1));
}

#[cold]
fn corrupt(encoding: Encoding, reason: &str) -> DecompressError {
    DecompressError::Corrupt { encoding, reason: reason.to_owned() }
}

#[cfg(test)]
#[path = "../tests/unit/decompress.rs"]
mod tests;
