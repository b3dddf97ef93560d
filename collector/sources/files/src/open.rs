//! One open file: reads slices of it and converts them to records.

mod label;
pub(crate) mod labels;
mod opening;
pub(crate) mod pending_opens;
pub(crate) mod table;
mod unpack;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use millrace_lines::{LINE_OVERHEAD_BYTES, LineReader, Resume, TextEncoding};
use millrace_tail::{FINGERPRINT_BYTES, Position};
use rustix::fs::OFlags;

use super::open::label::Label;
use super::open::unpack::{Unpack, UnpackedSlice};

/// Bytes read of one file before the next is scheduled: 256 KiB is some 60 us of memory bandwidth,
/// and large enough that the calls around it don't count.
pub(super) const SLICE_BYTES: usize = 256 * 1024;

/// The source of an open file's text.
pub(super) enum Content {
    Plain(File),
    Packed(Box<Unpack>),
}

impl Content {
    /// Whether a line begins at an offset. For compressed text this isn't known, and the result is
    /// true.
    pub(super) fn is_line_start(&self, offset: u64, encoding: TextEncoding) -> bool {
        let Self::Plain(file) = self else { return true };
        let mut before = [0; 2];
        let length = offset.min(2);
        let before = &mut before[..length as usize];
        let is_read = read_full(file, before, offset - length).is_ok_and(|n| n == before.len());
        is_read && encoding.of_file(&self.byte_order_mark()).begins_line(offset, before)
    }

    /// The first two bytes of the text, which may be a byte order mark. Missing bytes are zero.
    pub(super) fn byte_order_mark(&self) -> [u8; 2] {
        let mut mark = [0; 2];
        match self {
            // The next read reports an error.
            Self::Plain(file) => _ = read_full(file, &mut mark, 0),
            Self::Packed(unpack) => {
                mark.iter_mut().zip(unpack.head()).for_each(|(to, from)| *to = *from);
            }
        }
        mark
    }
}

pub(super) struct OpenLogFile {
    content: Content,
    pub(super) reader: LineReader,
    /// Its path and the pod that writes it.
    pub(super) label: Label,
    pub(super) source: usize,
    /// When bytes of the file were last consumed.
    pub(super) last_read_at: Instant,
    /// Whether the file is in the queue of files to read.
    pub(super) queued: bool,
    /// Whether the last slice had no complete line, so that the next read is larger.
    pub(super) wide: bool,
    /// Bytes of the budget for its unfinished records and its decompressor.
    pub(super) held_bytes: u64,
    /// The decompressor's part of `held_bytes`.
    unpack_bytes: u64,
}

pub(super) struct FileSlice<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) size: u64,
    pub(super) head: &'b [u8],
}

/// A buffer that all files share.
pub(super) struct Buffer {
    bytes: Vec<u8>,
    head: [u8; FINGERPRINT_BYTES],
}

impl Buffer {
    /// The size for the longest line, its overhead and one slice.
    pub(super) fn bytes_for(longest_line: usize) -> usize {
        longest_line + LINE_OVERHEAD_BYTES + 2 + SLICE_BYTES
    }

    pub(super) fn new(longest_line: usize) -> Self {
        Self { bytes: vec![0; Self::bytes_for(longest_line)], head: [0; FINGERPRINT_BYTES] }
    }
}

/// A file that was just opened, before its text is identified.
pub(super) struct OpenedFile {
    pub(super) file: File,
    pub(super) identity: (u64, u64),
    pub(super) size: u64,
}

/// Opens a regular file and nothing else; never blocks on a FIFO's other end.
pub(super) fn open_regular(path: &Path, follow: bool) -> io::Result<OpenedFile> {
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
    Ok(OpenedFile { identity: (found.dev(), found.ino()), size: found.size(), file })
}

/// Reads the first bytes of a file.
pub(super) fn read_head<'b>(file: &File, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
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

impl OpenLogFile {
    pub(super) fn new(
        content: Content,
        reader: LineReader,
        label: Label,
        source: usize,
        now: Instant,
    ) -> Self {
        Self {
            content,
            reader,
            label,
            source,
            last_read_at: now,
            queued: false,
            wide: false,
            held_bytes: 0,
            unpack_bytes: 0,
        }
    }

    /// Records the bytes reserved for decompression.
    pub(super) fn reserve_unpack(&mut self, bytes: u64) {
        self.unpack_bytes = bytes;
        self.held_bytes = bytes;
    }

    /// The bytes that the file should hold of the budget.
    pub(super) fn needed_bytes(&self) -> u64 {
        self.unpack_bytes + self.reader.held_bytes() as u64
    }

    pub(super) fn is_packed(&self) -> bool {
        matches!(self.content, Content::Packed(_))
    }

    /// The error that prevents reading more of a compressed file, if its end wasn't reached.
    pub(super) fn read_fault(&self) -> Option<&io::Error> {
        match &self.content {
            Content::Plain(_) => None,
            Content::Packed(unpack) => unpack.read_fault(),
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

    /// The position up to which records were made.
    pub(super) fn position(&self) -> Position {
        let Resume { offset, written } = self.reader.resume_point();
        Position { offset, written }
    }

    /// Reads on from the end of the last complete line. The content is read before the size and
    /// head: if these match, they also matched when the content was read; otherwise the file was
    /// restarted.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Buffer) -> io::Result<FileSlice<'b>> {
        let longest = if self.wide { buffer.bytes.len() } else { SLICE_BYTES };
        let (from, into) = (self.reader.offset(), &mut buffer.bytes[..longest]);
        match &mut self.content {
            Content::Plain(file) => {
                let length = read_full(file, into, from)?;
                let head_length = read_full(file, &mut buffer.head, 0)?;
                let size = file.metadata()?.size();
                let (bytes, head) = (&buffer.bytes[..length], &buffer.head[..head_length]);
                Ok(FileSlice { bytes, size, head })
            }
            Content::Packed(unpack) => {
                let UnpackedSlice { length, size } = unpack.read(from, into);
                let (bytes, head) = (&buffer.bytes[..length], &mut buffer.head);
                let head = &mut head[..unpack.head().len()];
                head.copy_from_slice(unpack.head());
                Ok(FileSlice { bytes, size, head })
            }
        }
    }
}
