//! Removes segments whose records are all acknowledged, and sets aside those that can't be read.

use std::io;

use crate::disk::Disk;
use crate::queue::{Cursor, Queue, Segment, is_full};
use crate::unreadable::is_unreadable;

impl<D: Disk> Queue<D> {
    /// Removes finished segments although no acknowledgement on disk covers them: a full disk
    /// accepts no acknowledgement, and without this never would. A crash before the next one is
    /// written may bring records back, which the queue then returns once more.
    pub(crate) fn free_space(&mut self) -> io::Result<()> {
        let done = |segment: &Segment| segment.next_number <= self.head;
        if self.segments.back().is_some_and(|last| last.length > 0 && done(last)) {
            // An empty file takes no space, and the last one must stay.
            match self.add_segment() {
                Err(error) if is_full(&error) => {}
                added => added?,
            }
        }
        while self.done_segments() > 0 {
            // One by one: the acknowledgement of a segment may be in the next one.
            self.remove_done(1)?;
            self.disk.sync_folder()?;
            self.folder_dirty = false;
        }
        Ok(())
    }

    /// Removes segments all of whose records are acknowledged.
    pub(crate) fn release_segments(&mut self) -> io::Result<()> {
        if self.done_segments() == 0 {
            return Ok(());
        }
        // The acknowledgement is synced before the removal. In the other order a crash could bring
        // back a segment without its acknowledgement.
        if let Err(error) = self.sync_files() {
            // The next sync reports this to the appending caller.
            self.in_doubt = true;
            return Err(error);
        }
        self.remove_done(self.done_segments())
    }

    /// Returns the number of segments at the front whose records are all acknowledged. The last
    /// segment doesn't count: the queue appends to it.
    fn done_segments(&self) -> usize {
        let done = |segment: &&Segment| segment.next_number <= self.head;
        let count = self.segments.iter().take_while(done).count();
        count.min(self.segments.len().saturating_sub(1))
    }

    fn remove_done(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            let Some(segment) = self.segments.front().copied() else { break };
            if segment.is_unreadable {
                match self.disk.set_aside_file(segment.file) {
                    // A file that can't be renamed either stays as it is, until the next start.
                    Err(error) if is_unreadable(&error) => {}
                    renamed => renamed?,
                }
                self.set_aside_bytes += segment.length;
            } else {
                self.disk.remove_file(segment.file)?;
            }
            self.segments.pop_front();
            // This is zero unless the segment's bytes went bad.
            self.unacked.subtract(segment.unacked);
            self.folder_dirty = true;
        }
        if self.segments.front().is_some_and(|segment| segment.file > self.cursor.file) {
            let file = self.segments.front().map_or(0, |segment| segment.file);
            self.cursor = Cursor { file, offset: 0 };
        }
        Ok(())
    }
}
