//! The body of an insert while it is written, plain or in frames.
//!
//! A block never exists completely in plain form: small pieces gather in a buffer of one frame, and
//! long columns are compressed directly from their builders.

use millrace_wire::protobuf::put_varint;

use crate::frame::{self, FRAME_BYTES};

/// How the body of an insert is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyCompression {
    /// No compression.
    None,
    /// ClickHouse's own frames: send with `decompress=1`.
    #[default]
    Lz4,
}

/// The minimum size of a piece that is compressed in place. A smaller frame would cost more in
/// headers and lost context than copying the piece does.
const DIRECT_BYTES: usize = 64 * 1024;

/// The part of a long column that is compressed to check whether compression pays: one window of
/// LZ4.
const PROBE_BYTES: usize = 64 * 1024;

/// A piece retains at most this part of its length as unused capacity.
const SPARE_PART: usize = 8;

/// Writes one piece of a body at a time. The gathering buffer is reused from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct BodyWriter {
    compression: BodyCompression,
    pending: Vec<u8>,
    scratch: Vec<u8>,
    out: Vec<u8>,
    plain_bytes: u64,
}

/// A written piece: complete blocks, and their length before compression.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) plain_bytes: u64,
}

impl BodyWriter {
    /// Sets the compression of the next bodies.
    pub(crate) fn set_compression(&mut self, compression: BodyCompression) {
        self.compression = compression;
    }

    /// Begins a piece of about `expected_bytes`.
    pub(crate) fn begin_piece(&mut self, expected_bytes: usize) {
        self.pending.clear();
        self.out = Vec::with_capacity(expected_bytes);
        self.plain_bytes = 0;
    }

    /// Ends the current piece.
    pub(crate) fn finish_piece(&mut self) -> Piece {
        self.flush();
        let mut bytes = std::mem::take(&mut self.out);
        // A piece waits until its insert is answered, with many others.
        if bytes.capacity() - bytes.len() > bytes.len() / SPARE_PART {
            bytes.shrink_to_fit();
        }
        Piece { bytes, plain_bytes: self.plain_bytes }
    }

    /// Returns the bytes of memory held between bodies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pending.capacity() + self.scratch.capacity()
    }

    #[inline]
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) {
        if bytes.len() >= DIRECT_BYTES {
            self.put_long(bytes);
        } else {
            self.pending.extend_from_slice(bytes);
            self.flush_if_full();
        }
    }

    fn put_long(&mut self, bytes: &[u8]) {
        self.flush();
        self.plain_bytes += bytes.len() as u64;
        match self.compression {
            BodyCompression::None => self.out.extend_from_slice(bytes),
            BodyCompression::Lz4 => self.compress_column(bytes),
        }
    }

    /// Compresses a long column, unless its start shows that compression can't shorten it: ids are
    /// a third of a span's bytes, and LZ4 takes as long for them as for all the rest.
    fn compress_column(&mut self, bytes: &[u8]) {
        let (probe, rest) = bytes.split_at(PROBE_BYTES.min(bytes.len()));
        let before = self.out.len();
        frame::append_lz4(probe, &mut self.scratch, &mut self.out);
        let append = if self.out.len() - before < probe.len() / 20 * 19 {
            frame::append_lz4
        } else {
            frame::append_stored
        };
        for chunk in rest.chunks(FRAME_BYTES) {
            append(chunk, &mut self.scratch, &mut self.out);
        }
    }

    /// Appends `bytes`, `count` times.
    pub(crate) fn put_repeated(&mut self, bytes: &[u8], count: usize) {
        if bytes.is_empty() {
            return;
        }
        let mut left = count;
        while left > 0 {
            // Append as many as fit in a frame, at least one, by doubling the existing ones.
            let room = FRAME_BYTES.saturating_sub(self.pending.len()) / bytes.len();
            let batch = left.min(room.max(1));
            let start = self.pending.len();
            let end = start + batch * bytes.len();
            self.pending.extend_from_slice(bytes);
            while self.pending.len() < end {
                let doubled = (self.pending.len() - start).min(end - self.pending.len());
                self.pending.extend_from_within(start..start + doubled);
            }
            left -= batch;
            self.flush_if_full();
        }
    }

    pub(crate) fn put_varint(&mut self, value: u64) {
        put_varint(&mut self.pending, value);
    }

    /// Appends eight little-endian bytes.
    #[inline]
    pub(crate) fn put_u64(&mut self, value: u64) {
        self.pending.extend_from_slice(&value.to_le_bytes());
        self.flush_if_full();
    }

    /// Appends a string: its length and its bytes.
    pub(crate) fn put_string(&mut self, text: &[u8]) {
        self.put_varint(text.len() as u64);
        self.put_raw(text);
    }

    #[inline]
    fn flush_if_full(&mut self) {
        if self.pending.len() >= FRAME_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.plain_bytes += self.pending.len() as u64;
        match self.compression {
            BodyCompression::None => self.out.extend_from_slice(&self.pending),
            BodyCompression::Lz4 => {
                for chunk in self.pending.chunks(FRAME_BYTES) {
                    frame::append_lz4(chunk, &mut self.scratch, &mut self.out);
                }
            }
        }
        self.pending.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guarantee: repeating gives the same bytes as writing one by one, also across frame borders.
    #[test]
    fn repeated_bytes_are_whole() {
        for (piece, count) in [(&b"abc"[..], 5), (b"x", 3 * FRAME_BYTES + 1), (b"", 9), (b"ab", 0)]
        {
            let mut writer = BodyWriter::default();
            writer.set_compression(BodyCompression::None);
            writer.begin_piece(0);
            writer.put_raw(b"start");
            writer.put_repeated(piece, count);
            let Piece { bytes, plain_bytes } = writer.finish_piece();
            assert_eq!(bytes, [b"start", piece.repeat(count).as_slice()].concat());
            assert_eq!(plain_bytes, bytes.len() as u64);
        }
    }
}
