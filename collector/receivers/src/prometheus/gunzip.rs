//! The text of a body that comes compressed (gzip), as it arrives.
//!
//! A piece becomes a thousand times as much text at most, so pieces of a kibibyte are a mebibyte of
//! text: never more is held.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

/// What is decompressed at once.
pub(super) const PIECE_BYTES: usize = 1024;

/// Text whose memory is kept for the next piece.
const KEPT_BYTES: usize = 64 * 1024;

/// A body that is decompressed.
pub(super) struct Gunzip(MultiGzDecoder<Vec<u8>>);

impl Gunzip {
    pub(super) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// Takes a piece of at most [`PIECE_BYTES`]. What it is in text.
    pub(super) fn take(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(piece)?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.get_mut()))
    }

    /// Gives memory back.
    pub(super) fn give_back(&mut self, mut text: Vec<u8>) {
        text.clear();
        text.shrink_to(KEPT_BYTES);
        *self.0.get_mut() = text;
    }

    /// The last of the text, once all pieces were taken.
    ///
    /// # Errors
    /// The body is cut off or damaged.
    pub(super) fn end(mut self) -> io::Result<Vec<u8>> {
        self.0.try_finish()?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}
