//! Decompresses a gzip file's text in one pass.
//!
//! The text is decompressed as it is read: at most one buffer of text is held, and one read skips
//! at most [`SKIP_BYTES`]. A torn or damaged file yields its text up to the damage, then an error;
//! the checksums at the end of each part are compared.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;
use millrace_tail::FINGERPRINT_BYTES;

/// Bytes of the compressed file per read.
const PACKED_BYTES: usize = 32 * 1024;

/// Memory of the decompressor and its input buffer: a window of 32 KiB and tables.
pub(super) const UNPACK_BYTES: usize = PACKED_BYTES + 64 * 1024;

/// The maximum bytes of already read text that one read skips: 4 MiB are some 10 ms.
const SKIP_BYTES: u64 = 4 << 20;

/// The size of the text's length field, modulo 2^32, at the end of a compressed file.
const LENGTH_BYTES: usize = 4;

pub(crate) struct Unpack {
    decoder: MultiGzDecoder<BufReader<File>>,
    head: Vec<u8>,
    /// Decompressed text that isn't consumed yet.
    text: Vec<u8>,
    /// The offset of `text` in the complete text.
    from: u64,
    /// The length that the file declares for its complete text.
    declared_bytes: u64,
    end: Option<io::Result<()>>,
}

/// The result of a read, like [`super::FileSlice`].
pub(crate) struct UnpackedSlice {
    pub(crate) length: usize,
    /// The end of all text; greater than what was read while there may be more.
    pub(crate) size: u64,
}

impl Unpack {
    /// Decompresses the beginning.
    ///
    /// # Errors
    /// If not even that can be decompressed.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut declared = [0; LENGTH_BYTES];
        let at = length.checked_sub(LENGTH_BYTES as u64);
        let at = at.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        file.read_exact_at(&mut declared, at)?;
        let mut unpack = Self {
            decoder: MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, file)),
            head: Vec::new(),
            text: Vec::new(),
            from: 0,
            declared_bytes: u64::from(u32::from_le_bytes(declared)),
            end: None,
        };
        unpack.fill_text(FINGERPRINT_BYTES);
        match &unpack.end {
            Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            _ => unpack.head.clone_from(&unpack.text),
        }
        Ok(unpack)
    }

    #[cfg(test)]
    pub(crate) fn file(&self) -> &File {
        self.decoder.get_ref().get_ref()
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The length of the text, as far as it is known.
    pub(crate) fn size(&self) -> u64 {
        let known = self.from + self.text.len() as u64;
        if matches!(self.end, Some(Ok(()))) { known } else { self.declared_bytes.max(known + 1) }
    }

    /// The error that prevents reading more text, if the end wasn't reached.
    pub(crate) fn read_fault(&self) -> Option<&io::Error> {
        self.end.as_ref().and_then(|end| end.as_ref().err())
    }

    /// Reads text from `offset`, which is never before that of an earlier call.
    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> UnpackedSlice {
        self.skip_to(offset);
        if matches!(self.end, Some(Ok(()))) && self.from + (self.text.len() as u64) < offset {
            let error =
                io::Error::new(ErrorKind::InvalidData, "it is shorter than the part already read");
            self.end = Some(Err(error));
        }
        let mut length = 0;
        if self.from == offset {
            self.fill_text(into.len());
            length = self.text.len().min(into.len());
            into[..length].copy_from_slice(&self.text[..length]);
        }
        // While text is skipped, more follows.
        let size = if self.from == offset { self.size() } else { self.size().max(offset + 1) };
        UnpackedSlice { length, size }
    }

    fn skip_to(&mut self, offset: u64) {
        let mut left = SKIP_BYTES;
        loop {
            let passed = (offset - self.from).min(self.text.len() as u64);
            self.text.drain(..usize::try_from(passed).unwrap_or(usize::MAX));
            self.from += passed;
            left = left.saturating_sub(passed);
            if self.from == offset || left == 0 || self.end.is_some() {
                return;
            }
            self.fill_text(PACKED_BYTES);
        }
    }

    /// Decompresses until `text` has so many bytes.
    fn fill_text(&mut self, bytes: usize) {
        let mut filled = self.text.len();
        if filled >= bytes || self.end.is_some() {
            return;
        }
        self.text.resize(bytes, 0);
        while filled < bytes && self.end.is_none() {
            match self.decoder.read(&mut self.text[filled..]) {
                Ok(0) => self.end = Some(Ok(())),
                Ok(length) => filled += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.end = Some(Err(error)),
            }
        }
        self.text.truncate(filled);
    }
}

#[cfg(test)]
mod tests;
