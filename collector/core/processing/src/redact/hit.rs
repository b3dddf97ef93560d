//! What was found in a text.

use std::ops::Range;

/// Most hits of a text: 768 KiB of memory at 12 bytes each. A text with more of them counts as one
/// hit from its first byte to its last. A list of 65,536 addresses is a file, not a log record.
pub const HITS_MAX: usize = 64 * 1024;

/// A range of a text that a detector found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) detector: u16,
}

impl Hit {
    /// The range in the text.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The detector, by its index in [`super::Redactor::detectors`].
    #[must_use]
    pub fn detector(&self) -> usize {
        usize::from(self.detector)
    }
}

/// The memory that reading a text needs. One for each thread, used again for each text.
#[derive(Debug, Default)]
pub struct RedactScratch {
    hits: Vec<Hit>,
    is_full: bool,
}

impl RedactScratch {
    /// The hits of the last text, in order, without overlaps.
    #[must_use]
    pub fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Frees the memory of an unusual text.
    pub(crate) fn shrink(&mut self, retained_hits: usize) {
        if self.hits.capacity() > retained_hits {
            self.hits = Vec::new();
        }
    }

    pub(super) fn clear(&mut self) {
        self.hits.clear();
        self.is_full = false;
    }

    pub(super) fn push(&mut self, range: Range<usize>, detector: u16) {
        if self.hits.len() == HITS_MAX {
            self.is_full = true;
            return;
        }
        self.hits.push(Hit { start: range.start as u32, end: range.end as u32, detector });
    }

    /// Sorts the hits and unites those that overlap: every byte that any detector found stays
    /// covered. The detector with the strictest action owns the union.
    pub(super) fn merge(&mut self, text_bytes: usize, strictness: &[u8]) {
        if self.is_full {
            let strictest = self.hits.iter().max_by_key(|hit| strictness[hit.detector()]);
            let all = strictest.map(|hit| Hit { start: 0, end: text_bytes as u32, ..*hit });
            self.hits.clear();
            self.hits.extend(all);
            return;
        }
        if self.hits.len() < 2 {
            return;
        }
        self.hits.sort_unstable_by_key(|hit| (hit.start, u32::MAX - hit.end, hit.detector));
        self.hits.dedup_by(|next, previous| {
            if next.start >= previous.end {
                return false;
            }
            previous.end = previous.end.max(next.end);
            if strictness[next.detector()] > strictness[previous.detector()] {
                previous.detector = next.detector;
            }
            true
        });
    }
}
