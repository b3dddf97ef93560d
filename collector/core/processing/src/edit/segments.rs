//! The output as a list of ranges, written once at the end.
//!
//! Adjacent ranges of a buffer become one, so records that no rule touched cost nothing. A message
//! whose length isn't known yet begins with an empty segment; closing it fills in its tag and
//! length.

use crate::edit::memory::{BLOCK_BYTES, Memory, Ref};

/// The ranges of the output.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    list: Vec<Ref>,
    /// Segments before this position aren't extended: an open message begins after them.
    barrier: usize,
    bytes: usize,
}

/// A position in the output: the begin of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    index: usize,
    barrier: usize,
    bytes: usize,
}

impl Mark {
    /// Returns the length of the output before the message.
    pub(crate) const fn bytes(self) -> usize {
        self.bytes
    }
}

/// A list of more segments isn't retained: 65,536 of 8 bytes each are 512 KiB.
const RETAINED_SEGMENTS: usize = 65_536;

impl Segments {
    /// Frees a long list.
    pub(crate) fn shrink(&mut self) {
        if self.list.capacity() > RETAINED_SEGMENTS {
            self.list = Vec::new();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.barrier = 0;
        self.bytes = 0;
    }

    /// Returns the length of the output so far.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a range.
    #[inline]
    pub(crate) fn push(&mut self, range: Ref) {
        if range.is_empty() {
            return;
        }
        self.bytes += range.len();
        if self.list.len() > self.barrier
            && let Some(last) = self.list.last_mut()
            && let Some(joined) = last.join(range)
        {
            *last = joined;
            return;
        }
        self.list.push(range);
    }

    /// Begins a message, or a part of it that is known later.
    pub(crate) fn open(&mut self) -> Mark {
        let mark = Mark { index: self.list.len(), barrier: self.barrier, bytes: self.bytes };
        self.list.push(Ref::EMPTY);
        self.barrier = self.list.len();
        mark
    }

    /// Fills in the part of a message that `mark` began.
    pub(crate) fn fill(&mut self, mark: Mark, part: Ref) {
        self.list[mark.index] = part;
        self.bytes += part.len();
    }

    /// Ends a message: writes its tag and length.
    pub(crate) fn close(&mut self, memory: &mut Memory<'_>, mark: Mark, tag: u8) {
        let length = self.bytes - mark.bytes;
        let start = memory.mark();
        memory.put_byte(tag);
        memory.put_varint(length as u64);
        self.fill(mark, memory.since(start));
    }

    /// Removes everything since `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.list.truncate(mark.index);
        self.barrier = mark.barrier;
        self.bytes = mark.bytes;
    }

    /// Removes everything since `mark`, and returns a copy of it in one piece.
    pub(crate) fn seal(&mut self, memory: &mut Memory<'_>, mark: Mark) -> Ref {
        let start = memory.mark();
        for range in &self.list[mark.index..] {
            memory.put_ref(*range);
        }
        self.rewind(mark);
        memory.since(start)
    }

    /// Returns the output.
    pub(crate) fn write(&self, memory: &Memory<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes + BLOCK_BYTES);
        for range in &self.list {
            memory.copy_to(*range, &mut out);
        }
        out
    }
}
