//! Gives up on what the disk can't read.

use std::io;

use rustix::io::Errno;

use crate::disk::Disk;
use crate::frame::{AppendTotals, HEADER_BYTES};
use crate::queue::{Cursor, Queue, Segment};
use crate::values::Sums;

impl Segment {
    /// Returns the offset at which reading ends.
    pub(crate) fn readable_end(&self) -> u64 {
        self.readable_bytes.unwrap_or(self.length)
    }

    /// Assumes what the rest of a segment of `length` bytes holds that can't be read now, from what
    /// was appended before that rest and before the next segment. The reader retries it.
    pub(crate) fn assume_remaining(
        &mut self,
        length: u64,
        (first_number, before): (u64, Sums),
        next: Option<AppendTotals>,
    ) -> Sums {
        let records_at_most = length.saturating_sub(self.length) / HEADER_BYTES as u64;
        self.length = length;
        // New records don't get numbers that records in the rest may have.
        self.next_number = first_number.saturating_add(records_at_most);
        let mut rest = Sums::one_record(1);
        if let Some(AppendTotals { next_number, records, count }) = next {
            self.next_number = next_number;
            rest = Sums { records, count };
            rest.subtract(before);
        }
        self.unacked.add(rest);
        rest
    }
}

impl<D: Disk> Queue<D> {
    /// Gives up on the record that the last [`Queue::read`] couldn't read, or on the rest of its
    /// file if its header can't be read. What is skipped counts as damaged, and the file is set
    /// aside once its other records are acknowledged. Returns the file's number.
    ///
    /// # Errors
    /// If the disk fails otherwise: then nothing is skipped.
    pub fn skip_unreadable(&mut self) -> io::Result<u64> {
        let Cursor { file, offset } = self.cursor;
        let Some(index) = self.segments.iter().position(|segment| segment.file == file) else {
            return Ok(file);
        };
        match self.peek_frame(file, offset, self.segments[index].readable_end()) {
            Ok(Some(header)) if self.is_pending(&header) => {
                self.count_damaged(&header);
                self.cursor.offset += header.frame_bytes();
            }
            Err(error) if is_unreadable(&error) => {
                if index + 1 == self.segments.len() {
                    // The reader would never reach what is appended behind.
                    self.begin_segment()?;
                }
                self.segments[index].readable_bytes = Some(offset);
            }
            Err(error) => return Err(error),
            // It can be read again.
            Ok(_) => return Ok(file),
        }
        self.segments[index].is_unreadable = true;
        Ok(file)
    }
}

/// Whether an error is about one file, so that others may be readable: the medium or the file
/// system's structure is damaged there, or its permissions were changed. Others, such as too many
/// open files, pass.
#[must_use]
pub fn is_unreadable(error: &io::Error) -> bool {
    let of_bytes = [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NODATA];
    let of_permissions = [Errno::ACCESS, Errno::PERM];
    let is_among = |errno| of_bytes.contains(&errno) || of_permissions.contains(&errno);
    error.kind() == io::ErrorKind::UnexpectedEof
        || Errno::from_io_error(error).is_some_and(is_among)
}
