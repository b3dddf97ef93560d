//! Opens a queue and finds what its segments hold, from their heads alone where possible.

use std::io;

use crate::disk::Disk;
use crate::frame::{AppendTotals, FrameKind, HEAD_BYTES};
use crate::queue::{Queue, Segment, is_full};
use crate::unreadable::is_unreadable;
use crate::values::{Recovery, Sums};

/// A segment's file as found on disk.
struct File {
    number: u64,
    length: u64,
    totals: Option<AppendTotals>,
}

impl<D: Disk> Queue<D> {
    pub(crate) fn recover_segments(&mut self) -> io::Result<Recovery> {
        let mut recovery = Recovery::default();
        let mut numbers = self.disk.list_files()?;
        numbers.sort_unstable();
        self.set_aside_bytes = self.disk.set_aside_bytes()?;
        let mut files = Vec::with_capacity(numbers.len());
        for number in numbers {
            // One bad file must not stop the others; the reader retries it.
            let length = match self.disk.file_length(number) {
                // Its length is unknown: usually that of a complete segment.
                Err(error) if is_unreadable(&error) => self.limits.segment_bytes,
                length => length?,
            };
            let totals = match self.read_head(number, length) {
                Err(error) if is_unreadable(&error) => None,
                totals => totals?,
            };
            files.push(File { number, length, totals });
        }
        for (index, file) in files.iter().enumerate() {
            let next = files.get(index + 1).and_then(|next| next.totals);
            let segment = match (file.totals, next) {
                (Some(totals), Some(next)) => segment_between(file, totals, next),
                _ => self.scan_segment(file, next, &mut recovery)?,
            };
            self.next_number = self.next_number.max(segment.next_number);
            self.segments.push_back(segment);
        }
        self.next_number = self.next_number.max(self.head);
        self.count_unacked(&files)?;
        recovery.records = self.unacked.records;
        match self.begin_segment() {
            // Existing records can still be returned, which frees space in the end.
            Err(error) if is_full(&error) => {
                self.ack_pending = true;
                self.free_space()?;
                self.rewind();
            }
            begun => {
                begun?;
                self.rewind();
                self.release_segments()?;
            }
        }
        Ok(recovery)
    }

    /// Reads a segment's head; `None` if it has no valid one.
    fn read_head(&mut self, file: u64, length: u64) -> io::Result<Option<AppendTotals>> {
        let mut frame = [0; HEAD_BYTES];
        if length < HEAD_BYTES as u64 {
            return Ok(None);
        }
        self.read_exact(file, 0, &mut frame)?;
        let Some((totals, acknowledged)) = AppendTotals::decode(&frame) else { return Ok(None) };
        self.head = self.head.max(acknowledged);
        self.next_number = self.next_number.max(totals.next_number);
        Ok(Some(totals))
    }

    /// Reads all headers of a segment, with its acknowledgements.
    fn scan_segment(
        &mut self,
        file: &File,
        next: Option<AppendTotals>,
        recovery: &mut Recovery,
    ) -> io::Result<Segment> {
        let mut segment = Segment { file: file.number, ..Segment::default() };
        if let Some(AppendTotals { records, count, .. }) = file.totals {
            self.appended = Sums { records, count };
        }
        loop {
            let header = match self.peek_frame(file.number, segment.length, file.length) {
                Err(error) if is_unreadable(&error) => {
                    recovery.unreadable_bytes += file.length - segment.length;
                    let before = self.segments.iter().chain([&segment]).map(|it| it.next_number);
                    let first = before.chain(file.totals.map(|it| it.next_number)).max();
                    let before = (first.unwrap_or_default(), self.appended);
                    self.appended.add(segment.assume_remaining(file.length, before, next));
                    return Ok(segment);
                }
                header => header?,
            };
            let Some(header) = header else { break };
            segment.length += header.frame_bytes();
            match header.kind {
                FrameKind::Record => {
                    segment.next_number = header.number.saturating_add(1);
                    let sums = Sums::one_record(header.count);
                    segment.unacked.add(sums);
                    self.appended.add(sums);
                }
                FrameKind::Ack | FrameKind::Head => self.head = self.head.max(header.number),
            }
        }
        recovery.unreadable_bytes += file.length - segment.length;
        Ok(segment)
    }

    /// Counts the records that aren't acknowledged. Of most segments these are all or none, known
    /// from their heads.
    fn count_unacked(&mut self, files: &[File]) -> io::Result<()> {
        for (index, file) in files.iter().enumerate() {
            let Some(mut segment) = self.segments.get(index).copied() else { break };
            let first = file.totals.map_or(0, |totals| totals.next_number);
            if segment.next_number <= self.head {
                segment.unacked = Sums::default();
            } else if first < self.head {
                segment.unacked = self.count_from_head(&segment)?;
            }
            self.unacked.add(segment.unacked);
            self.segments[index] = segment;
        }
        Ok(())
    }

    fn count_from_head(&mut self, segment: &Segment) -> io::Result<Sums> {
        let (mut sums, mut offset) = (Sums::default(), 0);
        loop {
            let header = match self.peek_frame(segment.file, offset, segment.length) {
                Err(error) if is_unreadable(&error) => {
                    // The number of the others is unknown: at least one.
                    sums.add(Sums::one_record(1));
                    break;
                }
                header => header?,
            };
            let Some(header) = header else { break };
            offset += header.frame_bytes();
            if header.kind == FrameKind::Record && header.number >= self.head {
                sums.add(Sums::one_record(header.count));
            }
        }
        Ok(sums)
    }
}

/// Returns a segment's content from its own head and the next one's.
fn segment_between(file: &File, totals: AppendTotals, next: AppendTotals) -> Segment {
    let records = next.records.saturating_sub(totals.records);
    Segment {
        file: file.number,
        length: file.length,
        next_number: if records > 0 { next.next_number } else { 0 },
        unacked: Sums { records, count: next.count.saturating_sub(totals.count) },
        ..Segment::default()
    }
}
