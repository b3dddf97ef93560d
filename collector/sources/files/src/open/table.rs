//! Holds the open files: schedules them, tracks unfinished records, and accounts for their bytes of
//! the budget. It neither opens nor reads files.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Reservation;
use millrace_tail::{FairQueue, FileId};

use super::OpenLogFile;
use crate::find::source::FileSource;

/// The number of files for which a scan's memory is reserved at a time.
const SCAN_FILES: usize = 1024;

/// Bytes of a scan for each file: 100 bytes and its name, twice for a moment, and 100 in tables.
const SCAN_FILE_BYTES: u64 = 512;

/// The bytes that the first scan reserves: 512 KiB.
pub(crate) const SCAN_BYTES: u64 = SCAN_FILES as u64 * SCAN_FILE_BYTES;

/// How many files a scan may list with this many bytes.
pub(crate) fn scan_capacity(bytes: u64) -> usize {
    SCAN_FILES + usize::try_from(bytes / SCAN_FILE_BYTES).unwrap_or(usize::MAX)
}

pub(crate) struct OpenFiles {
    open: HashMap<FileId, Box<OpenLogFile>>,
    fair_queue: FairQueue<FileId>,
    /// Files whose reader may hold a record that waits for another line.
    unfinished: BTreeSet<FileId>,
    /// Covers the reader's buffer, and the bytes that open files hold.
    held: Reservation,
    /// The number of files for which a scan's memory is reserved.
    scan_files: usize,
}

impl OpenFiles {
    /// `held` covers the buffer so far.
    pub(crate) fn new(sources: &[FileSource], held: Reservation) -> Self {
        let weights = sources.iter().flat_map(|source| source.weights.clone()).collect();
        Self {
            open: HashMap::new(),
            fair_queue: FairQueue::new(weights),
            unfinished: BTreeSet::new(),
            held,
            scan_files: 0,
        }
    }

    pub(crate) fn get(&self, file: FileId) -> Option<&OpenLogFile> {
        self.open.get(&file).map(|open| &**open)
    }

    pub(crate) fn get_mut(&mut self, file: FileId) -> Option<&mut OpenLogFile> {
        self.open.get_mut(&file).map(|open| &mut **open)
    }

    /// The files that match the predicate.
    pub(crate) fn filter_files(&self, holds: impl Fn(&OpenLogFile) -> bool) -> Vec<FileId> {
        self.open.iter().filter(|(_, open)| holds(open)).map(|(file, _)| *file).collect()
    }

    #[cfg(test)]
    pub(crate) fn inodes(&self) -> std::collections::HashSet<u64> {
        self.open.values().filter_map(|open| open.inode()).collect()
    }

    pub(crate) fn insert(&mut self, file: FileId, open: OpenLogFile) {
        self.open.insert(file, Box::new(open));
    }

    /// Removes a file that is to be closed, and releases its bytes.
    pub(crate) fn remove(&mut self, file: FileId) -> Option<Box<OpenLogFile>> {
        let open = self.open.remove(&file)?;
        self.release_bytes(open.held_bytes);
        Some(open)
    }

    /// Moves an open file to the id of its new text.
    pub(crate) fn replace_id(&mut self, file: FileId, next: FileId) -> Option<&mut OpenLogFile> {
        let open = self.open.remove(&file)?;
        Some(&mut **self.open.entry(next).insert_entry(open).into_mut())
    }

    /// The number of open compressed files.
    pub(super) fn unpacked_count(&self) -> usize {
        self.open.values().filter(|open| open.is_packed()).count()
    }

    /// Reserves bytes of the budget; false if it hasn't enough.
    pub(super) fn reserve_bytes(&mut self, bytes: u64) -> bool {
        self.held.try_resize(self.held.bytes() + bytes)
    }

    /// Reserves memory for a scan of so many files; false if the budget hasn't enough. Later scans
    /// reuse the reservation.
    pub(crate) fn reserve_scan(&mut self, files: usize) -> bool {
        while self.scan_files < files {
            if !self.reserve_bytes(SCAN_BYTES) {
                return false;
            }
            self.scan_files += SCAN_FILES;
        }
        true
    }

    pub(super) fn release_bytes(&mut self, bytes: u64) {
        let _ = self.held.try_resize(self.held.bytes().saturating_sub(bytes));
    }

    /// Adjusts the reservation to the unfinished records that a reader holds. False if the budget
    /// hasn't enough.
    pub(crate) fn cover_held(&mut self, file: FileId) -> bool {
        let Some(open) = self.open.get_mut(&file) else { return true };
        let held_bytes = open.needed_bytes();
        let sum = self.held.bytes() - open.held_bytes.min(self.held.bytes()) + held_bytes;
        let covered = self.held.try_resize(sum);
        if covered {
            open.held_bytes = held_bytes;
        }
        covered
    }

    pub(crate) fn is_queued(&self, file: FileId) -> bool {
        self.get(file).is_some_and(|open| open.queued)
    }

    /// Marks a file as having text to read, and queues it once.
    pub(crate) fn queue_file(&mut self, file: FileId, sources: &[FileSource]) {
        if let Some(open) = self.get_mut(file)
            && !std::mem::replace(&mut open.queued, true)
        {
            self.push_to_queue(file, sources);
        }
    }

    /// Pushes a file that is ready to be read into the fair queue.
    pub(crate) fn push_to_queue(&mut self, file: FileId, sources: &[FileSource]) {
        if let Some(open) = self.open.get(&file)
            && let Some(source) = sources.get(open.source)
        {
            self.fair_queue.push(source.share_of(open.label.path()), file);
        }
    }

    pub(crate) fn is_queue_empty(&self) -> bool {
        self.fair_queue.is_empty()
    }

    /// The next file in fair order.
    pub(crate) fn next(&mut self) -> Option<FileId> {
        self.fair_queue.pop()
    }

    /// Charges the bytes and the processor time of the last read to its share.
    pub(crate) fn charge_usage(&mut self, bytes: u64, processor_time: Duration) {
        self.fair_queue.charge_usage(bytes, processor_time);
    }

    /// Records that a file's reader may hold a record that waits for another line.
    pub(crate) fn mark_unfinished(&mut self, file: FileId) {
        self.unfinished.insert(file);
    }

    /// The files with an overdue record that aren't queued to be read.
    pub(crate) fn overdue_files(&mut self, sources: &[FileSource], now: Instant) -> Vec<FileId> {
        let Self { open, unfinished, .. } = self;
        let holds = |file: &FileId| open.get(file).is_some_and(|open| open.reader.has_open());
        unfinished.retain(holds);
        let timeout = |open: &OpenLogFile| {
            let nanos = sources.get(open.source).map_or(0, |source| source.form.timeout_nanos);
            Duration::from_nanos(nanos)
        };
        let is_over = |file: &FileId| {
            let waited =
                |open: &OpenLogFile| now.duration_since(open.last_read_at) >= timeout(open);
            open.get(file).is_some_and(|open| !open.queued && waited(open))
        };
        unfinished.iter().copied().filter(is_over).collect()
    }
}
