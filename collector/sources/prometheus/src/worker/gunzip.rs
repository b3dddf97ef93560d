//! Decompresses a body (gzip) as it arrives.
//!
//! The text is at most a thousand times as long as its compressed piece. Pieces of a kibibyte
//! therefore bound the text in memory to a mebibyte.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

/// The most compressed bytes of a piece.
pub(super) const PIECE_BYTES: usize = 1024;

/// The buffer that is retained for the next piece.
const RETAINED_BYTES: usize = 64 * 1024;

/// The decompressor of one body.
pub(crate) struct Gunzip(MultiGzDecoder<Vec<u8>>);

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// Decompresses a piece of at most [`PIECE_BYTES`], and returns its text.
    pub(super) fn inflate_piece(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.get_mut()))
    }

    /// Returns a buffer for reuse.
    pub(super) fn return_buffer(&mut self, mut text: Vec<u8>) {
        text.clear();
        text.shrink_to(RETAINED_BYTES);
        *self.0.get_mut() = text;
    }

    /// Returns the last of the text after all pieces.
    ///
    /// # Errors
    /// The body is truncated or damaged.
    pub(super) fn finish_body(mut self) -> io::Result<Vec<u8>> {
        self.0.try_finish()?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}
