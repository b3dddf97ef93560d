//! The text of a compressed file (gzip), from its beginning to its end.
//!
//! It is decompressed as it is read: never more than a buffer of text is held, and no turn takes
//! more than [`SKIP_BYTES`] of it. What is torn or damaged gives its text up to there, then an
//! error; the checksums at the end of each part are compared.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;
use millrace_tail::FINGERPRINT_BYTES;

/// What is read of the compressed file at once.
const PACKED_BYTES: usize = 32 * 1024;

/// Memory of the decompressor and what is read at once: a window of 32 KiB and tables.
pub(super) const UNPACK_BYTES: usize = PACKED_BYTES + 64 * 1024;

/// What is passed over in one turn, of text that was read before: 4 MiB are some 10 ms.
const SKIP_BYTES: u64 = 4 << 20;

/// The length of a text, modulo 2^32, at the end of a compressed file.
const LENGTH_BYTES: usize = 4;

/// A compressed file that is open.
pub(super) struct Unpack {
    decoder: MultiGzDecoder<BufReader<File>>,
    head: Vec<u8>,
    /// Decompressed and not taken yet.
    text: Vec<u8>,
    /// Where that begins in the whole text.
    from: u64,
    /// How long the whole text says it is.
    told_bytes: u64,
    end: Option<io::Result<()>>,
}

/// Text that was read, as [`super::open::Slice`] has it.
pub(super) struct Unpacked {
    pub(super) length: usize,
    /// The end of all text; greater than what was read while there may be more.
    pub(super) size: u64,
}

impl Unpack {
    /// Decompresses the beginning.
    ///
    /// # Errors
    /// When not even that can be decompressed.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let mut told = [0; LENGTH_BYTES];
        let at = length.checked_sub(LENGTH_BYTES as u64);
        let at = at.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        file.read_exact_at(&mut told, at)?;
        let mut unpack = Self {
            decoder: MultiGzDecoder::new(BufReader::with_capacity(PACKED_BYTES, file)),
            head: Vec::new(),
            text: Vec::new(),
            from: 0,
            told_bytes: u64::from(u32::from_le_bytes(told)),
            end: None,
        };
        unpack.fill(FINGERPRINT_BYTES);
        match &unpack.end {
            Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
            _ => unpack.head.clone_from(&unpack.text),
        }
        Ok(unpack)
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        self.decoder.get_ref().get_ref()
    }

    /// The first bytes of the text.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// How long the text is, as far as is known.
    pub(super) fn size(&self) -> u64 {
        let known = self.from + self.text.len() as u64;
        if matches!(self.end, Some(Ok(()))) { known } else { self.told_bytes.max(known + 1) }
    }

    /// Why there is no more text than was read, if that isn't its end.
    pub(super) fn fault(&self) -> Option<&io::Error> {
        self.end.as_ref().and_then(|end| end.as_ref().err())
    }

    /// Reads text from `offset` on, which never is before that of an earlier call.
    pub(super) fn read(&mut self, offset: u64, into: &mut [u8]) -> Unpacked {
        self.skip(offset);
        if matches!(self.end, Some(Ok(()))) && self.from + (self.text.len() as u64) < offset {
            let error = io::Error::new(ErrorKind::InvalidData, "it is shorter than what was read");
            self.end = Some(Err(error));
        }
        let mut length = 0;
        if self.from == offset {
            self.fill(into.len());
            length = self.text.len().min(into.len());
            into[..length].copy_from_slice(&self.text[..length]);
        }
        // Also while text is passed over there is more.
        let size = if self.from == offset { self.size() } else { self.size().max(offset + 1) };
        Unpacked { length, size }
    }

    fn skip(&mut self, offset: u64) {
        let mut left = SKIP_BYTES;
        loop {
            let passed = (offset - self.from).min(self.text.len() as u64);
            self.text.drain(..usize::try_from(passed).unwrap_or(usize::MAX));
            self.from += passed;
            left = left.saturating_sub(passed);
            if self.from == offset || left == 0 || self.end.is_some() {
                return;
            }
            self.fill(PACKED_BYTES);
        }
    }

    /// Decompresses until there are so many bytes of text.
    fn fill(&mut self, bytes: usize) {
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
#[path = "../../tests/unit/files/unpack.rs"]
mod tests;
