//! The queue: which segments there are, what is acknowledged, what is read next.

use std::collections::{BTreeSet, VecDeque};
use std::io;

use crate::disk::Disk;
use crate::frame::{HEADER_BYTES, Header, Kind, MAX_PAYLOAD_BYTES};
use crate::values::{AppendError, Entry, Limits, Recovery, Stats};

#[derive(Debug, Clone, Copy)]
struct Segment {
    file: u64,
    /// Its bytes that are frames, as far as is known.
    length: u64,
    /// More than the number of each record in it.
    next_number: u64,
    /// Whether something in it was appended since its last sync.
    dirty: bool,
}

/// Where reading continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    file: u64,
    offset: u64,
}

/// A record given out and not acknowledged yet.
#[derive(Debug, Clone, Copy)]
struct Lent {
    number: u64,
    count: u32,
    at_millis: u64,
}

/// A bounded queue of records on disk.
#[derive(Debug)]
pub struct Queue<D> {
    disk: D,
    limits: Limits,
    /// In order; the last one is appended to, unless `sealed`.
    segments: VecDeque<Segment>,
    /// The last segment takes no more: its end isn't known for sure.
    sealed: bool,
    /// Files were made or removed since the folder was last synced.
    folder_dirty: bool,
    next_number: u64,
    /// The lowest number that isn't acknowledged.
    head: u64,
    /// The newest acknowledgement isn't written, or a failed sync has left that in doubt.
    ack_owed: bool,
    /// A sync of our own failed, which whoever appended hasn't heard of.
    in_doubt: bool,
    cursor: Cursor,
    /// Bounded by how many the reader takes before it acknowledges.
    lent: VecDeque<Lent>,
    records: u64,
    count: u64,
    /// Numbers of records found to have gone bad, so that each is counted once. Those that are
    /// acknowledged are forgotten.
    damaged: BTreeSet<u64>,
    damaged_records: u64,
}

/// What is at a place of a segment.
enum Step {
    Frame(Header),
    /// The end, or bytes that are no frame.
    End,
}

impl<D: Disk> Queue<D> {
    /// Opens the queue on a disk and reads through all of it.
    ///
    /// # Errors
    /// When the disk can't be read, or a new segment can't be made.
    pub fn open(disk: D, limits: Limits) -> io::Result<(Self, Recovery)> {
        let mut queue = Self {
            disk,
            limits,
            segments: VecDeque::new(),
            sealed: true,
            folder_dirty: false,
            next_number: 0,
            head: 0,
            ack_owed: false,
            in_doubt: false,
            cursor: Cursor { file: 0, offset: 0 },
            lent: VecDeque::new(),
            records: 0,
            count: 0,
            damaged: BTreeSet::new(),
            damaged_records: 0,
        };
        let recovery = queue.recover()?;
        Ok((queue, recovery))
    }

    fn recover(&mut self) -> io::Result<Recovery> {
        let mut recovery = Recovery::default();
        let mut files = self.disk.list()?;
        files.sort_unstable();
        // Headers alone first: an acknowledgement may be anywhere behind its record.
        for file in files {
            let end = self.disk.length(file)?;
            let mut segment = Segment { file, length: 0, next_number: 0, dirty: false };
            while let Step::Frame(header) = self.step(file, segment.length, end)? {
                segment.length += header.frame_bytes();
                match header.kind {
                    Kind::Record => segment.next_number = header.number.saturating_add(1),
                    Kind::Ack => self.head = self.head.max(header.number),
                }
                self.next_number = self.next_number.max(segment.next_number);
            }
            recovery.unreadable_bytes += end - segment.length;
            self.segments.push_back(segment);
        }
        self.next_number = self.next_number.max(self.head);
        self.rewind();
        // Then what will be given out, with its bytes.
        while let Some((header, payload)) = self.next_frame()? {
            if crc32c::crc32c(&payload) == header.payload_crc {
                recovery.records += 1;
                self.records += 1;
                self.count += u64::from(header.count);
            } else {
                recovery.damaged_records += 1;
                self.damaged.insert(header.number);
            }
        }
        match self.begin_segment() {
            // What is there can be given out all the same, which makes room in the end.
            Err(error) if is_full(&error) => {
                self.ack_owed = true;
                self.make_room()?;
                self.rewind();
            }
            begun => {
                begun?;
                self.rewind();
                self.release()?;
            }
        }
        Ok(recovery)
    }

    /// Appends a record. It is safe after the next [`Queue::sync`]. Gives its number.
    ///
    /// # Errors
    /// When there is no room, or the disk fails.
    pub fn append(
        &mut self,
        payload: &[u8],
        at_millis: u64,
        count: u32,
        tag: u8,
    ) -> Result<u64, AppendError> {
        let max_bytes = self.limits.max_bytes;
        let too_long = || AppendError::TooLong { bytes: payload.len(), max_bytes };
        let payload_bytes = u32::try_from(payload.len()).map_err(|_| too_long())?;
        let header = Header {
            kind: Kind::Record,
            number: self.next_number,
            at_millis,
            count,
            tag,
            payload_bytes,
            payload_crc: crc32c::crc32c(payload),
        };
        // Room for the first frame of a segment, which may be needed too.
        let needed = header.frame_bytes() + HEADER_BYTES as u64;
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
        // Used up even if this fails: what was half written must not be taken for its successor.
        self.next_number += 1;
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
        frame.extend(header.encode());
        frame.extend(payload);
        self.write(&frame)?;
        if let Some(segment) = self.segments.back_mut() {
            segment.next_number = header.number + 1;
        }
        self.records += 1;
        self.count += u64::from(count);
        Ok(header.number)
    }

    /// Makes all that was appended and acknowledged so far safe.
    ///
    /// # Errors
    /// When that can't be said. What was appended since the last sync may be given out or not.
    pub fn sync(&mut self) -> io::Result<()> {
        let in_doubt = std::mem::take(&mut self.in_doubt);
        self.sync_files()?;
        if in_doubt {
            return Err(io::Error::other("an earlier sync failed: what it was for is in doubt"));
        }
        Ok(())
    }

    fn sync_files(&mut self) -> io::Result<()> {
        if self.ack_owed {
            self.write_ack()?;
        }
        let mut failed = None;
        for segment in &mut self.segments {
            if std::mem::take(&mut segment.dirty)
                && let Err(error) = self.disk.sync(segment.file)
            {
                // The system may have dropped what it couldn't write: no second try can help, and
                // nothing is put behind such a place.
                self.sealed = true;
                self.ack_owed = true;
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

    /// The next record that was not given out since the last [`Queue::rewind`].
    ///
    /// # Errors
    /// When the disk can't be read.
    pub fn read(&mut self) -> io::Result<Option<Entry>> {
        while let Some((header, payload)) = self.next_frame()? {
            let Header { number, at_millis, count, tag, payload_crc, .. } = header;
            if crc32c::crc32c(&payload) != payload_crc {
                if self.damaged.insert(number) {
                    self.damaged_records += 1;
                    self.records = self.records.saturating_sub(1);
                    self.count = self.count.saturating_sub(u64::from(count));
                }
                continue;
            }
            self.lent.push_back(Lent { number, count, at_millis });
            return Ok(Some(Entry { number, at_millis, count, tag, payload }));
        }
        Ok(None)
    }

    /// Gives out again, from the oldest on, what was given out and not acknowledged.
    pub fn rewind(&mut self) {
        self.lent = VecDeque::new();
        let file = self.segments.front().map_or(0, |segment| segment.file);
        self.cursor = Cursor { file, offset: 0 };
    }

    /// Takes back the record with this number and all that were given out before it, for good. It
    /// is safe after the next [`Queue::sync`]; the space of segments comes back with it.
    ///
    /// # Errors
    /// When the disk fails. The records are acknowledged for this process all the same.
    pub fn ack(&mut self, number: u64) -> io::Result<()> {
        if number < self.head || number >= self.next_number {
            return Ok(());
        }
        self.head = number + 1;
        self.damaged = self.damaged.split_off(&self.head);
        while let Some(lent) = self.lent.front().copied()
            && lent.number < self.head
        {
            self.lent.pop_front();
            self.records = self.records.saturating_sub(1);
            self.count = self.count.saturating_sub(u64::from(lent.count));
        }
        self.ack_owed = true;
        match self.write_ack() {
            Err(error) if is_full(&error) => {
                self.make_room()?;
                self.write_ack()?;
            }
            written => written?,
        }
        self.release()
    }

    /// What it holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            records: self.records,
            count: self.count,
            file_bytes: self.file_bytes(),
            damaged_records: self.damaged_records,
        }
    }

    /// When the oldest record that isn't acknowledged was appended, in milliseconds since 1970;
    /// none if there is none.
    ///
    /// # Errors
    /// When the disk can't be read.
    pub fn oldest_millis(&mut self) -> io::Result<Option<u64>> {
        if let Some(lent) = self.lent.front() {
            return Ok(Some(lent.at_millis));
        }
        let before = self.cursor;
        let next = self.next_frame();
        self.cursor = before;
        Ok(next?.map(|(header, _)| header.at_millis))
    }

    /// The disk, for tests that make it fail.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// The disk, for tests that pull the plug.
    #[must_use]
    pub fn into_disk(self) -> D {
        self.disk
    }

    fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    fn ack_frame(&self) -> [u8; HEADER_BYTES] {
        let (number, payload_crc) = (self.head, crc32c::crc32c(b""));
        let header = Header {
            kind: Kind::Ack,
            number,
            at_millis: 0,
            count: 0,
            tag: 0,
            payload_bytes: 0,
            payload_crc,
        };
        header.encode()
    }

    fn write_ack(&mut self) -> io::Result<()> {
        // With nothing left a long segment is removed early, so that an idle queue is small.
        let nothing_left = self.head == self.next_number;
        let share = if nothing_left { 4 } else { 1 };
        let full = |segment: &Segment| segment.length >= self.limits.segment_bytes / share;
        if self.sealed || self.segments.back().is_none_or(full) {
            // It begins with the acknowledgement.
            self.begin_segment()
        } else {
            let frame = self.ack_frame();
            self.write(&frame)?;
            self.ack_owed = false;
            Ok(())
        }
    }

    fn add_segment(&mut self) -> io::Result<()> {
        let file = self.segments.back().map_or(1, |segment| segment.file + 1);
        self.disk.create(file)?;
        self.folder_dirty = true;
        let segment = Segment { file, length: 0, next_number: 0, dirty: false };
        self.segments.push_back(segment);
        self.sealed = false;
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        self.add_segment()?;
        let frame = self.ack_frame();
        self.write(&frame)?;
        self.ack_owed = false;
        Ok(())
    }

    /// Appends a frame to the last segment, whole or not at all.
    fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(segment) = self.segments.back_mut() else { return Ok(()) };
        segment.dirty = true;
        let result = self.disk.append(segment.file, frame);
        match result {
            Ok(()) => segment.length += frame.len() as u64,
            Err(_) => {
                // Half a frame at the end would hide all that is put behind it.
                self.sealed = self.disk.truncate(segment.file, segment.length).is_err();
            }
        }
        result
    }

    /// Removes what is done although nothing on disk says so yet: a full disk takes no
    /// acknowledgement, and without this would never take one. A crash before the next one is
    /// written may bring records back, which are then given out once more.
    fn make_room(&mut self) -> io::Result<()> {
        let done = |segment: &Segment| segment.next_number <= self.head;
        if self.segments.back().is_some_and(|last| last.length > 0 && done(last)) {
            // An empty file takes no room, and the last one must stay.
            match self.add_segment() {
                Err(error) if is_full(&error) => {}
                added => added?,
            }
        }
        while self.done_segments() > 0 {
            // One by one: what says that a segment is done may lie in the next.
            self.remove_done(1)?;
            self.disk.sync_folder()?;
            self.folder_dirty = false;
        }
        Ok(())
    }

    /// Removes segments all of whose records are acknowledged.
    fn release(&mut self) -> io::Result<()> {
        if self.done_segments() == 0 {
            return Ok(());
        }
        // First the acknowledgement, then the removal: the other way round a crash could bring back
        // a segment that nothing says is done.
        if let Err(error) = self.sync_files() {
            // Whoever appended since the last sync hears of it at the next.
            self.in_doubt = true;
            return Err(error);
        }
        self.remove_done(self.done_segments())
    }

    /// How many segments hold nothing that isn't acknowledged, from the front. The last never does:
    /// it is appended to.
    fn done_segments(&self) -> usize {
        let done = |segment: &&Segment| segment.next_number <= self.head;
        let count = self.segments.iter().take_while(done).count();
        count.min(self.segments.len().saturating_sub(1))
    }

    fn remove_done(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let Some(segment) = self.segments.front().copied() else { break };
            self.disk.remove(segment.file)?;
            self.segments.pop_front();
            self.folder_dirty = true;
        }
        if self.segments.front().is_some_and(|segment| segment.file > self.cursor.file) {
            let file = self.segments.front().map_or(0, |segment| segment.file);
            self.cursor = Cursor { file, offset: 0 };
        }
        Ok(())
    }

    /// The record at the cursor, which moves behind it. Its bytes are not looked at.
    fn next_frame(&mut self) -> io::Result<Option<(Header, Vec<u8>)>> {
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
            match self.step(file, offset, segment.length)? {
                Step::Frame(header) => {
                    self.cursor.offset += header.frame_bytes();
                    if header.kind == Kind::Record && header.number >= self.head {
                        let mut payload = vec![0; header.payload_bytes as usize];
                        let at = offset + HEADER_BYTES as u64;
                        self.read_exact(file, at, &mut payload)?;
                        return Ok(Some((header, payload)));
                    }
                }
                Step::End if last => return Ok(None),
                Step::End => self.cursor = Cursor { file: file + 1, offset: 0 },
            }
        }
    }

    /// What is at `offset` of a segment that ends at `end`.
    fn step(&mut self, file: u64, offset: u64, end: u64) -> io::Result<Step> {
        if offset + HEADER_BYTES as u64 > end {
            return Ok(Step::End);
        }
        let mut bytes = [0; HEADER_BYTES];
        self.read_exact(file, offset, &mut bytes)?;
        Ok(match Header::decode(&bytes) {
            Some(header) if offset + header.frame_bytes() <= end => Step::Frame(header),
            _ => Step::End,
        })
    }

    fn read_exact(&mut self, file: u64, offset: u64, mut into: &mut [u8]) -> io::Result<()> {
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

/// Whether the disk has no room left, or none for this user.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
