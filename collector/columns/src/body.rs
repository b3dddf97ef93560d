//! The body of an insert while it is written: plain, or cut into frames on the way.
//!
//! A block never exists as a whole in plain form: small pieces gather in one frame's worth of
//! bytes, and long columns are compressed straight from their builders.

use millrace_wire::protobuf::put_varint;

use crate::frame::{self, FRAME_BYTES};

/// How the body of an insert is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// In ClickHouse's own frames: send with `decompress=1`.
    #[default]
    Lz4,
}

/// A piece of this size or more is compressed in place. Below it, a frame of its own would
/// cost more in headers and lost context than copying it does.
const DIRECT_BYTES: usize = 64 * 1024;

/// What of a long column is compressed to see whether compressing it pays: one window of LZ4.
const PROBE_BYTES: usize = 64 * 1024;

/// A piece keeps at most this part of its length as room that it doesn't need.
const SPARE_PART: usize = 8;

/// Writes one piece of a body at a time. The gathering buffer is reused from piece to piece.
#[derive(Debug, Default)]
pub(crate) struct BodyWriter {
    compression: Compression,
    pending: Vec<u8>,
    scratch: Vec<u8>,
    out: Vec<u8>,
    plain_bytes: u64,
}

/// What was written: whole blocks, and how many bytes they had before compression.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Vec<u8>,
    pub(crate) plain_bytes: u64,
}

impl BodyWriter {
    /// How the next bodies are compressed.
    pub(crate) fn compress(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// Begins a piece of about `expected_bytes`.
    pub(crate) fn begin(&mut self, expected_bytes: usize) {
        self.pending.clear();
        self.out = Vec::with_capacity(expected_bytes);
        self.plain_bytes = 0;
    }

    /// Ends what was begun.
    pub(crate) fn finish(&mut self) -> Piece {
        self.flush();
        let mut bytes = std::mem::take(&mut self.out);
        // A piece waits until its insert is answered, with many others.
        if bytes.capacity() - bytes.len() > bytes.len() / SPARE_PART {
            bytes.shrink_to_fit();
        }
        Piece { bytes, plain_bytes: self.plain_bytes }
    }

    /// Bytes of memory held between bodies.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pending.capacity() + self.scratch.capacity()
    }

    /// Appends `bytes`.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
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
            Compression::None => self.out.extend_from_slice(bytes),
            Compression::Lz4 => self.compress_column(bytes),
        }
    }

    /// Compresses a long column, unless its start says that it can't be shortened: ids are a third
    /// of a span's bytes, and LZ4 takes as long over them as over all the rest.
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
    pub(crate) fn repeat(&mut self, bytes: &[u8], count: usize) {
        if bytes.is_empty() {
            return;
        }
        let mut left = count;
        while left > 0 {
            // As many as fit in a frame, at least one, doubling what is there already.
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

    /// Appends a variable-length integer.
    pub(crate) fn varint(&mut self, value: u64) {
        put_varint(&mut self.pending, value);
    }

    /// Appends eight bytes, little-endian.
    #[inline]
    pub(crate) fn word(&mut self, value: u64) {
        self.pending.extend_from_slice(&value.to_le_bytes());
        self.flush_if_full();
    }

    /// Appends a string: its length and its bytes.
    pub(crate) fn string(&mut self, text: &[u8]) {
        self.varint(text.len() as u64);
        self.put(text);
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
            Compression::None => self.out.extend_from_slice(&self.pending),
            Compression::Lz4 => {
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

    /// Repeating gives the same bytes as writing one by one, across frame borders too.
    #[test]
    fn repeated_bytes_are_whole() {
        for (piece, count) in [(&b"abc"[..], 5), (b"x", 3 * FRAME_BYTES + 1), (b"", 9), (b"ab", 0)]
        {
            let mut writer = BodyWriter::default();
            writer.compress(Compression::None);
            writer.begin(0);
            writer.put(b"start");
            writer.repeat(piece, count);
            let Piece { bytes, plain_bytes } = writer.finish();
            assert_eq!(bytes, [b"start", piece.repeat(count).as_slice()].concat());
            assert_eq!(plain_bytes, bytes.len() as u64);
        }
    }
}
