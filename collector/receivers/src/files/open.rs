//! One open file: reading a slice of it, and making records of that.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use millrace_lines::{Encoding, LINE_OVERHEAD_BYTES, Reader, Resume};
use millrace_tail::{FINGERPRINT_BYTES, Position};
use rustix::fs::OFlags;

use super::labels::Label;
use super::unpack::{Unpack, Unpacked};

/// What is read of one file before the others have their turn: 256 KiB is some 60 us of memory
/// bandwidth, and large enough that the calls around it don't count.
pub(super) const SLICE_BYTES: usize = 256 * 1024;

/// Where an open file's text comes from.
pub(super) enum Content {
    Plain(File),
    Packed(Box<Unpack>),
}

impl Content {
    /// Whether a line begins at an offset. Of compressed text it isn't known, and none is asked.
    pub(super) fn is_line_start(&self, offset: u64, encoding: Encoding) -> bool {
        let Self::Plain(file) = self else { return true };
        let mut before = [0; 2];
        let length = offset.min(2);
        let before = &mut before[..length as usize];
        let is_read = read_full(file, before, offset - length).is_ok_and(|n| n == before.len());
        is_read && encoding.of_file(&self.mark()).begins_line(offset, before)
    }

    /// The first two bytes of the text, where a byte order mark stands. Zeros for those that aren't
    /// there.
    pub(super) fn mark(&self) -> [u8; 2] {
        let mut mark = [0; 2];
        match self {
            // What can't be read now is told by the next read.
            Self::Plain(file) => _ = read_full(file, &mut mark, 0),
            Self::Packed(unpack) => {
                mark.iter_mut().zip(unpack.head()).for_each(|(to, from)| *to = *from);
            }
        }
        mark
    }
}

/// An open file.
pub(super) struct Open {
    content: Content,
    pub(super) reader: Reader,
    /// Its name, and what is known of the pod that writes it.
    pub(super) label: Label,
    pub(super) source: usize,
    /// When something was last taken from it.
    pub(super) taken_at: Instant,
    /// Whether it is in the queue of those to be read.
    pub(super) queued: bool,
    /// The last slice was no whole line: more is read at once.
    pub(super) wide: bool,
    /// What its unfinished records take of the budget, and what decompresses it.
    pub(super) held_bytes: u64,
    /// The latter's share.
    unpack_bytes: u64,
}

/// What a read found.
pub(super) struct Slice<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) size: u64,
    pub(super) head: &'b [u8],
}

/// A buffer for every file in turn.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    head: [u8; FINGERPRINT_BYTES],
}

impl Buffer {
    /// Large enough for the longest line, its overhead and one slice.
    pub(super) fn bytes_for(longest_line: usize) -> usize {
        longest_line + LINE_OVERHEAD_BYTES + 2 + SLICE_BYTES
    }

    pub(super) fn new(longest_line: usize) -> Self {
        Self { bytes: vec![0; Self::bytes_for(longest_line)], head: [0; FINGERPRINT_BYTES] }
    }
}

/// What a file is as it is opened.
pub(super) struct Found {
    pub(super) file: File,
    pub(super) identity: (u64, u64),
    pub(super) size: u64,
}

/// Opens a regular file and nothing else; never waits for a FIFO's other end.
pub(super) fn open(path: &Path, follow: bool) -> io::Result<Found> {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if !follow {
        flags |= OFlags::NOFOLLOW;
    }
    // The standard library sets O_CLOEXEC itself.
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(Found { identity: (found.dev(), found.ino()), size: found.size(), file })
}

/// The first bytes of a file.
pub(super) fn head<'b>(file: &File, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
    let length = read_full(file, &mut buffer.head, 0)?;
    Ok(&buffer.head[..length])
}

fn read_full(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match file.read_at(&mut into[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl Open {
    pub(super) fn new(
        content: Content,
        reader: Reader,
        label: Label,
        source: usize,
        now: Instant,
    ) -> Self {
        Self {
            content,
            reader,
            label,
            source,
            taken_at: now,
            queued: false,
            wide: false,
            held_bytes: 0,
            unpack_bytes: 0,
        }
    }

    /// Notes what was reserved so as to decompress it.
    pub(super) fn unpacks_in(&mut self, bytes: u64) {
        self.unpack_bytes = bytes;
        self.held_bytes = bytes;
    }

    /// What it should have of the budget.
    pub(super) fn needed_bytes(&self) -> u64 {
        self.unpack_bytes + self.reader.held_bytes() as u64
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self.content, Content::Packed(_))
    }

    /// Why there is no more text in a compressed file than was read, if that isn't its end.
    pub(super) fn fault(&self) -> Option<&io::Error> {
        match &self.content {
            Content::Plain(_) => None,
            Content::Packed(unpack) => unpack.fault(),
        }
    }

    #[cfg(test)]
    pub(super) fn inode(&self) -> Option<u64> {
        let file = match &self.content {
            Content::Plain(file) => file,
            Content::Packed(unpack) => unpack.file(),
        };
        Some(file.metadata().ok()?.ino())
    }

    /// How far it is in records.
    pub(super) fn position(&self) -> Position {
        let Resume { offset, written } = self.reader.resume();
        Position { offset, written }
    }

    /// Reads on from where the last whole line ended. First the content, then size and head: what
    /// they show was so when the content was read, or the file has begun again.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> io::Result<Slice<'b>> {
        let longest = if self.wide { buffer.bytes.len() } else { SLICE_BYTES };
        let (from, into) = (self.reader.offset(), &mut buffer.bytes[..longest]);
        match &mut self.content {
            Content::Plain(file) => {
                let length = read_full(file, into, from)?;
                let head_length = read_full(file, &mut buffer.head, 0)?;
                let size = file.metadata()?.size();
                let (bytes, head) = (&buffer.bytes[..length], &buffer.head[..head_length]);
                Ok(Slice { bytes, size, head })
            }
            Content::Packed(unpack) => {
                let Unpacked { length, size } = unpack.read(from, into);
                let (bytes, head) = (&buffer.bytes[..length], &mut buffer.head);
                let head = &mut head[..unpack.head().len()];
                head.copy_from_slice(unpack.head());
                Ok(Slice { bytes, size, head })
            }
        }
    }
}
