//! The queue: its segments, its acknowledgements and its read position.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use crate::disk::Disk;
use crate::frame::{
    AppendTotals, FrameHeader, FrameKind, HEAD_BYTES, HEADER_BYTES, MAX_PAYLOAD_BYTES,
};
use crate::values::{AppendError, QueueLimits, Recovery, Stats, Sums};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Segment {
    pub(crate) file: u64,
    /// The length of its valid frames, as far as known.
    pub(crate) length: u64,
    /// Greater than the number of each record in it.
    pub(crate) next_number: u64,
    /// Whether it was appended to since its last sync.
    pub(crate) dirty: bool,
    /// Whether the reader gave up on some of it: then its file is set aside, not removed.
    pub(crate) is_unreadable: bool,
    /// Where its readable part ends, if the reader gave up on the rest.
    pub(crate) readable_bytes: Option<u64>,
    /// Its records that aren't acknowledged.
    pub(crate) unacked: Sums,
    /// Those of them that weren't returned since the last rewind.
    pub(crate) unread: Sums,
}

/// The position at which reading continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) file: u64,
    pub(crate) offset: u64,
}

/// A record that was returned and isn't acknowledged yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightRecord {
    pub(crate) number: u64,
    pub(crate) count: u32,
    pub(crate) at_millis: u64,
}

/// A bounded queue of records on disk.
#[derive(Debug)]
pub struct Queue<D> {
    pub(crate) disk: D,
    pub(crate) limits: QueueLimits,
    /// In order; the queue appends to the last one, unless `sealed`.
    pub(crate) segments: VecDeque<Segment>,
    /// Whether the last segment accepts nothing more because its end is uncertain.
    sealed: bool,
    /// Whether files were created or removed since the directory was last synced.
    pub(crate) folder_dirty: bool,
    /// The bytes of files that were set aside.
    pub(crate) set_aside_bytes: u64,
    pub(crate) next_number: u64,
    /// The lowest number that isn't acknowledged.
    pub(crate) head: u64,
    /// Whether the newest acknowledgement isn't written, or a failed sync left that in doubt.
    pub(crate) ack_pending: bool,
    /// Whether a sync of the queue's own failed and the appending caller doesn't know yet.
    pub(crate) in_doubt: bool,
    pub(crate) cursor: Cursor,
    /// Bounded by how many records the reader reads before it acknowledges.
    pub(crate) in_flight: VecDeque<InFlightRecord>,
    /// All records that aren't acknowledged: the sum over the segments.
    pub(crate) unacked: Sums,
    /// All records that were ever appended.
    pub(crate) appended: Sums,
    /// Numbers of damaged records, so that each is counted once. Acknowledged ones are removed.
    pub(crate) damaged: BTreeSet<u64>,
    /// Damaged records that weren't reported yet.
    pub(crate) unreported_damage: Sums,
}

impl<D: Disk> Queue<D> {
    /// Opens the queue on a disk. Reads the head of each segment, and all headers of only the first
    /// and the last, so it takes little time and memory whatever the queue's size.
    ///
    /// # Errors
    /// If the disk can't be read, or a new segment can't be created.
    pub fn open(disk: D, limits: QueueLimits) -> io::Result<(Self, Recovery)> {
        let mut queue = Self {
            disk,
            limits,
            segments: VecDeque::new(),
            sealed: true,
            folder_dirty: false,
            set_aside_bytes: 0,
            next_number: 0,
            head: 0,
            ack_pending: false,
            in_doubt: false,
            cursor: Cursor { file: 0, offset: 0 },
            in_flight: VecDeque::new(),
            unacked: Sums::default(),
            appended: Sums::default(),
            damaged: BTreeSet::new(),
            unreported_damage: Sums::default(),
        };
        let recovery = queue.recover_segments()?;
        Ok((queue, recovery))
    }

    /// Appends a record and returns its number. The record is safe after the next [`Queue::sync`].
    ///
    /// # Errors
    /// If the queue has no capacity, or the disk fails.
    pub fn append(
        &mut self,
        payload: &[u8],
        at_millis: u64,
        count: u32,
        tag: u8,
    ) -> Result<u64, AppendError> {
        let max_bytes = self.limits.max_bytes;
        let sums = Sums::one_record(count);
        let too_long = || AppendError::TooLong { bytes: payload.len(), max_bytes };
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| too_long())?;
        let header = FrameHeader {
            kind: FrameKind::Record,
            number: self.next_number,
            at_millis,
            count,
            tag,
            payload_bytes,
            payload_crc: crc32c::crc32c(payload),
        };
        // Includes the first frame of a segment, which may be needed too.
        let needed = header.frame_bytes() + HEAD_BYTES as u64;
        if payload_bytes > MAX_PAYLOAD_BYTES || needed > max_bytes {
            return Err(too_long());
        }
        let used_bytes = self.file_bytes();
        if used_bytes + needed > max_bytes {
            return Err(AppendError::Full { used_bytes, max_bytes });
        }
        let full = |segment: &Segment| segment.length >= self.limits.segment_bytes;
        if self.sealed || self.segments.back().is_none_or(full) {
            self.begin_segment()?;
        }
        // The number is used even if this fails: a half-written record must not be confused with
        // its successor.
        self.next_number += 1;
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
        frame.extend(header.encode());
        frame.extend(payload);
        self.write(&frame)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.next_number = header.number + 1;
            segment.unacked.add(sums);
            segment.unread.add(sums);
        }
        self.unacked.add(sums);
        self.appended.add(sums);
        Ok(header.number)
    }

    /// Makes safe all that was appended and acknowledged so far.
    ///
    /// # Errors
    /// If that isn't certain. The queue may or may not return what was appended since the last
    /// sync.
    pub fn sync(&mut self) -> io::Result<()> {
        let synced = self.sync_files();
        let in_doubt = std::mem::take(&mut self.in_doubt);
        synced?;
        if in_doubt {
            return Err(io::Error::other(
                "an earlier sync failed: whether its records are stored is unknown",
            ));
        }
        Ok(())
    }

    /// Returns whether something was appended or acknowledged that isn't safe yet.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.ack_pending || self.folder_dirty || self.segments.iter().any(|segment| segment.dirty)
    }

    pub(crate) fn sync_files(&mut self) -> io::Result<()> {
        if self.ack_pending {
            self.write_ack()?;
        }
        let mut failed = None;
        for segment in &mut self.segments {
            if std::mem::take(&mut segment.dirty)
                && let Err(error) = self.disk.sync_file(segment.file)
            {
                // The system may have dropped what it couldn't write: a retry can't help, and
                // nothing may be appended behind that point.
                self.sealed = true;
                self.ack_pending = true;
                failed = Some(error);
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if self.folder_dirty {
            self.disk.sync_folder()?;
            self.folder_dirty = false;
        }
        Ok(())
    }

    /// Acknowledges the record with this number and all that were returned before it. The next
    /// [`Queue::sync`] makes that safe and frees the space of finished segments.
    ///
    /// # Errors
    /// If the disk fails. For this process the records are acknowledged all the same.
    pub fn ack_through(&mut self, number: u64) -> io::Result<()> {
        if number < self.head || number >= self.next_number {
            return Ok(());
        }
        self.head = number + 1;
        self.damaged = self.damaged.split_off(&self.head);
        while let Some(lent) = self.in_flight.front().copied()
            && lent.number < self.head
        {
            self.in_flight.pop_front();
            let sums = Sums::one_record(lent.count);
            self.unacked.subtract(sums);
            if let Some(segment) = self.segments.iter_mut().find(|it| lent.number < it.next_number)
            {
                segment.unacked.subtract(sums);
            }
        }
        self.ack_pending = true;
        match self.write_ack() {
            Err(error) if is_full(&error) => {
                self.free_space()?;
                self.write_ack()?;
            }
            written => written?,
        }
        self.release_segments()
    }

    /// Sets the limit of all files together from now on; existing data stays.
    pub fn set_max_bytes(&mut self, max_bytes: u64) {
        self.limits.max_bytes = max_bytes;
    }

    /// Returns the queue's figures.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            records: self.unacked.records,
            count: self.unacked.count,
            file_bytes: self.file_bytes(),
        }
    }

    /// Returns the records that were omitted since the last call because their bytes, or a header
    /// before them, went bad. They are found when they are read, and are lost.
    pub fn take_damaged(&mut self) -> Sums {
        std::mem::take(&mut self.unreported_damage)
    }

    /// Returns the disk, for tests that make it fail.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// Returns the disk, for tests that simulate a power failure.
    #[must_use]
    pub fn into_disk(self) -> D {
        self.disk
    }

    fn file_bytes(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.length).sum();
        segments + self.set_aside_bytes
    }

    fn write_ack(&mut self) -> io::Result<()> {
        // An empty queue replaces a long segment early, so that an idle queue is small.
        let nothing_left = self.head == self.next_number;
        let share = if nothing_left { 4 } else { 1 };
        let full = |segment: &Segment| segment.length >= self.limits.segment_bytes / share;
        if self.sealed || self.segments.back().is_none_or(full) {
            // The new segment begins with the acknowledgement.
            self.begin_segment()
        } else {
            self.write(&FrameHeader::encode_mark(FrameKind::Ack, self.head, b""))?;
            self.ack_pending = false;
            Ok(())
        }
    }

    pub(crate) fn add_segment(&mut self) -> io::Result<()> {
        let file = self.segments.back().map_or(1, |segment| segment.file + 1);
        self.disk.create_file(file)?;
        self.folder_dirty = true;
        self.segments.push_back(Segment { file, ..Segment::default() });
        self.sealed = false;
        Ok(())
    }

    pub(crate) fn begin_segment(&mut self) -> io::Result<()> {
        // The new head states the content of the segment before, which must hold after a crash too.
        if let Some(last) = self.segments.back_mut()
            && std::mem::take(&mut last.dirty)
            && self.disk.sync_file(last.file).is_err()
        {
            // The next sync reports this to the appending caller.
            self.in_doubt = true;
        }
        self.add_segment()?;
        let Sums { records, count } = self.appended;
        let totals = AppendTotals { next_number: self.next_number, records, count };
        self.write(&totals.head_frame(self.head))?;
        self.ack_pending = false;
        Ok(())
    }

    /// Appends a frame to the last segment, completely or not at all.
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(segment) = self.segments.back_mut() else { return Ok(()) };
        segment.dirty = true;
        let result = self.disk.append_bytes(segment.file, frame);
        match result {
            Ok(()) => segment.length += frame.len() as u64,
            Err(_) => {
                // Half a frame at the end would hide everything behind it.
                self.sealed = self.disk.truncate_file(segment.file, segment.length).is_err();
            }
        }
        result
    }
}

/// Whether the disk is full or this user's quota is exceeded.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
