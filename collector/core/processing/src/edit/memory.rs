//! The buffers of a run, and positions in them.
//!
//! A value that a rule reads or writes is a [`Ref`]: a range of the request, of the arena for new
//! bytes, or of the rule set's constants. A `Ref` borrows nothing, so a rule can read one value
//! while it writes another.

use millrace_wire::protobuf::put_varint;

use crate::error::RuleFailure;

/// A range of bytes in one of the buffers of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ref {
    /// The buffer in the upper two bits, the position in it in the lower thirty.
    start: u32,
    len: u32,
}

const BUFFER_SHIFT: u32 = 30;
const POSITION_MASK: u32 = (1 << BUFFER_SHIFT) - 1;
const INPUT: u32 = 0;
const ARENA: u32 = 1;
const CONSTANTS: u32 = 2;

/// The length up to which a range is copied as a block of this length.
pub(crate) const BLOCK_BYTES: usize = 32;

impl Default for Ref {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Ref {
    /// No bytes.
    pub(crate) const EMPTY: Self = Self { start: CONSTANTS << BUFFER_SHIFT, len: 0 };

    /// Returns the range of the complete input.
    pub(crate) const fn input(len: usize) -> Self {
        Self { start: INPUT << BUFFER_SHIFT, len: len as u32 }
    }

    /// Returns a range of the constants.
    pub(crate) const fn constant(start: usize, len: usize) -> Self {
        Self { start: CONSTANTS << BUFFER_SHIFT | start as u32, len: len as u32 }
    }

    const fn arena(start: usize, len: usize) -> Self {
        Self { start: ARENA << BUFFER_SHIFT | start as u32, len: len as u32 }
    }

    #[inline]
    pub(crate) const fn len(self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns `len` bytes of this range from `from` on.
    #[inline]
    pub(crate) const fn part(self, from: usize, len: usize) -> Self {
        Self { start: self.start + from as u32, len: len as u32 }
    }

    /// Returns the range of `part`, which is a slice of `all`, the bytes of this range.
    #[inline]
    pub(crate) fn locate(self, all: &[u8], part: &[u8]) -> Self {
        self.part(part.as_ptr().addr().wrapping_sub(all.as_ptr().addr()), part.len())
    }

    /// Returns this range and the directly following `next` as one, if they are adjacent.
    #[inline]
    pub(crate) const fn join(self, next: Self) -> Option<Self> {
        if self.start + self.len == next.start {
            Some(Self { start: self.start, len: self.len + next.len })
        } else {
            None
        }
    }

    /// Returns the position of the end of a range of the input.
    pub(crate) const fn end(self) -> usize {
        (self.start & POSITION_MASK) as usize + self.len as usize
    }
}

/// The buffers of a run.
pub(crate) struct Memory<'a> {
    input: &'a [u8],
    constants: &'a [u8],
    arena: Vec<u8>,
    /// The most bytes of the arena that rules may fill.
    limit_bytes: usize,
}

impl<'a> Memory<'a> {
    /// Returns a memory with an empty arena in `arena`'s allocation.
    pub(crate) fn new(
        input: &'a [u8],
        constants: &'a [u8],
        mut arena: Vec<u8>,
        limit_bytes: usize,
    ) -> Self {
        arena.clear();
        Self { input, constants, arena, limit_bytes }
    }

    /// Returns the arena's allocation for the next run.
    pub(crate) fn into_arena(self) -> Vec<u8> {
        self.arena
    }

    /// Returns the bytes of a range.
    #[inline]
    pub(crate) fn get(&self, range: Ref) -> &[u8] {
        let start = (range.start & POSITION_MASK) as usize;
        self.buffer(range).get(start..start + range.len as usize).unwrap_or_default()
    }

    #[inline]
    fn buffer(&self, range: Ref) -> &[u8] {
        match range.start >> BUFFER_SHIFT {
            INPUT => self.input,
            ARENA => &self.arena,
            _ => self.constants,
        }
    }

    /// Adds the bytes of a range to `out`. Short ones are copied as a block of fixed length, which
    /// takes no call; its end is removed again.
    #[inline]
    pub(crate) fn copy_to(&self, range: Ref, out: &mut Vec<u8>) {
        let start = (range.start & POSITION_MASK) as usize;
        let block = self.buffer(range).get(start..).and_then(<[u8]>::first_chunk::<BLOCK_BYTES>);
        if range.len() <= BLOCK_BYTES
            && let Some(block) = block
        {
            let end = out.len() + range.len();
            out.extend_from_slice(block);
            out.truncate(end);
        } else {
            out.extend_from_slice(self.get(range));
        }
    }

    /// Returns a range's text.
    pub(crate) fn text(&self, range: Ref) -> Result<&str, RuleFailure> {
        std::str::from_utf8(self.get(range)).map_err(|_| RuleFailure::Utf8)
    }

    /// Returns the position at which the next bytes are added.
    pub(crate) fn mark(&self) -> usize {
        self.arena.len()
    }

    /// Returns the bytes added since `mark`.
    pub(crate) fn since(&self, mark: usize) -> Ref {
        Ref::arena(mark, self.arena.len() - mark)
    }

    /// Removes the bytes added since `mark`, to which nothing refers.
    pub(crate) fn truncate(&mut self, mark: usize) {
        self.arena.truncate(mark);
    }

    /// Returns the number of bytes that rules may still add.
    pub(crate) fn free_bytes(&self) -> usize {
        self.limit_bytes.saturating_sub(self.arena.len())
    }

    /// Permits `bytes` more bytes than are in use.
    pub(crate) fn raise_limit(&mut self, bytes: usize) {
        self.limit_bytes = self.limit_bytes.max(self.arena.len() + bytes);
    }

    /// Checks that rules may add `bytes` bytes.
    #[inline]
    pub(crate) fn reserve(&self, bytes: usize) -> Result<(), RuleFailure> {
        if bytes > self.free_bytes() { Err(RuleFailure::TooLong) } else { Ok(()) }
    }

    /// Adds bytes that a rule made.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Result<Ref, RuleFailure> {
        self.reserve(bytes.len())?;
        let mark = self.mark();
        self.arena.extend_from_slice(bytes);
        Ok(self.since(mark))
    }

    /// Adds a byte. The caller has checked the space, or the bytes are few for each of the input.
    #[inline]
    pub(crate) fn put_byte(&mut self, byte: u8) {
        self.arena.push(byte);
    }

    /// Adds an integer, as [`Self::put_byte`] does.
    #[inline]
    pub(crate) fn put_varint(&mut self, value: u64) {
        put_varint(&mut self.arena, value);
    }

    /// Adds bytes, as [`Self::put_byte`] does.
    #[inline]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.arena.extend_from_slice(bytes);
    }

    /// Adds a copy of a range, as [`Self::put_byte`] does.
    pub(crate) fn put_ref(&mut self, range: Ref) {
        let start = (range.start & POSITION_MASK) as usize;
        let end = start + range.len as usize;
        match range.start >> BUFFER_SHIFT {
            ARENA => self.arena.extend_from_within(start..end),
            INPUT => self.arena.extend_from_slice(&self.input[start..end]),
            _ => self.arena.extend_from_slice(&self.constants[start..end]),
        }
    }
}
