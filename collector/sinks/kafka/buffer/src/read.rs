//! Reads records and detects damaged ones.

use std::collections::VecDeque;
use std::io;

use crate::disk::Disk;
use crate::frame::{FrameHeader, FrameKind, HEADER_BYTES};
use crate::queue::{Cursor, InFlightRecord, Queue};
use crate::values::{QueuedRecord, Sums};

impl<D: Disk> Queue<D> {
    /// Returns the next record that wasn't returned since the last [`Queue::rewind`].
    ///
    /// # Errors
    /// If the disk can't be read.
    pub fn read(&mut self) -> io::Result<Option<QueuedRecord>> {
        while let Some((header, payload)) = self.next_frame()? {
            let FrameHeader { number, at_millis, count, tag, payload_crc, .. } = header;
            if crc32c::crc32c(&payload) != payload_crc {
                self.count_damaged(&header);
                continue;
            }
            let (file, sums) = (self.cursor.file, Sums::one_record(count));
            match self.segments.iter_mut().find(|it| it.file == file) {
                // It has more than was assumed when it couldn't be read.
                Some(segment) if segment.unread.records == 0 => {
                    segment.unacked.add(sums);
                    self.unacked.add(sums);
                }
                Some(segment) => segment.unread.subtract(sums),
                None => {}
            }
            self.in_flight.push_back(InFlightRecord { number, count, at_millis });
            return Ok(Some(QueuedRecord { number, at_millis, count, tag, payload }));
        }
        Ok(None)
    }

    /// Whether a header is of a record that is neither acknowledged nor damaged.
    pub(crate) fn is_pending(&self, header: &FrameHeader) -> bool {
        let FrameHeader { kind, number, .. } = *header;
        kind == FrameKind::Record && number >= self.head && !self.damaged.contains(&number)
    }

    /// Counts the record of this header, in the file at the cursor, as damaged. It isn't read
    /// again.
    pub(crate) fn count_damaged(&mut self, header: &FrameHeader) {
        let (file, sums) = (self.cursor.file, Sums::one_record(header.count));
        if self.damaged.insert(header.number)
            && let Some(segment) = self.segments.iter_mut().find(|it| it.file == file)
        {
            segment.unread.subtract(sums);
            segment.unacked.subtract(sums);
            self.unacked.subtract(sums);
            self.unreported_damage.add(sums);
        }
    }

    /// Makes the queue return again all records that aren't acknowledged, oldest first.
    pub fn rewind(&mut self) {
        self.in_flight = VecDeque::new();
        self.segments.iter_mut().for_each(|segment| segment.unread = segment.unacked);
        let file = self.segments.front().map_or(0, |segment| segment.file);
        self.cursor = Cursor { file, offset: 0 };
    }

    /// Returns when the oldest record that isn't acknowledged was appended, in milliseconds since
    /// 1970; `None` if there is none.
    ///
    /// # Errors
    /// If the disk can't be read.
    pub fn oldest_millis(&mut self) -> io::Result<Option<u64>> {
        if let Some(lent) = self.in_flight.front() {
            return Ok(Some(lent.at_millis));
        }
        let before = self.cursor;
        let next = self.next_frame();
        self.cursor = before;
        Ok(next?.map(|(header, _)| header.at_millis))
    }

    /// Returns the record at the cursor and moves the cursor behind it. The payload is not
    /// verified.
    fn next_frame(&mut self) -> io::Result<Option<(FrameHeader, Vec<u8>)>> {
        loop {
            let Cursor { file, offset } = self.cursor;
            let Some(index) = self.segments.iter().position(|segment| segment.file >= file) else {
                return Ok(None);
            };
            let (segment, last) = (self.segments[index], index + 1 == self.segments.len());
            if segment.file > file {
                self.cursor = Cursor { file: segment.file, offset: 0 };
                continue;
            }
            match self.peek_frame(file, offset, segment.readable_end())? {
                Some(header) => {
                    let behind = Cursor { file, offset: offset + header.frame_bytes() };
                    if self.is_pending(&header) {
                        let mut payload = vec![0; header.payload_bytes as usize];
                        let at = offset + HEADER_BYTES as u64;
                        self.read_exact(file, at, &mut payload)?;
                        // The cursor moves only now: after a failed read of the payload the same
                        // record comes next.
                        self.cursor = behind;
                        return Ok(Some((header, payload)));
                    }
                    self.cursor = behind;
                }
                None if last => return Ok(None),
                None => {
                    self.pass_end(index);
                    self.cursor = Cursor { file: file + 1, offset: 0 };
                }
            }
        }
    }

    /// Counts the records that the reader did not find before a segment's end as damaged.
    fn pass_end(&mut self, index: usize) {
        let bound = self.in_flight.back().map_or(self.head, |lent| lent.number + 1);
        let Some(segment) = self.segments.get_mut(index) else { return };
        segment.next_number = segment.next_number.min(bound);
        let missing = std::mem::take(&mut segment.unread);
        segment.unacked.subtract(missing);
        self.unacked.subtract(missing);
        self.unreported_damage.add(missing);
    }

    /// Reads the frame at `offset` of a segment that ends at `end`; `None` at its end, or at bytes
    /// that are no frame.
    pub(crate) fn peek_frame(
        &mut self,
        file: u64,
        offset: u64,
        end: u64,
    ) -> io::Result<Option<FrameHeader>> {
        if offset + HEADER_BYTES as u64 > end {
            return Ok(None);
        }
        let mut bytes = [0; HEADER_BYTES];
        self.read_exact(file, offset, &mut bytes)?;
        Ok(FrameHeader::decode(&bytes).filter(|header| offset + header.frame_bytes() <= end))
    }

    pub(crate) fn read_exact(
        &mut self,
        file: u64,
        offset: u64,
        mut into: &mut [u8],
    ) -> io::Result<()> {
        let mut at = offset;
        while !into.is_empty() {
            match self.disk.read_at(file, at, into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    into = into.get_mut(read..).unwrap_or_default();
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
