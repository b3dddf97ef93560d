//! Encodes the texts of series consecutively. Each omits the prefix and suffix that it shares with
//! the one before, so that `{cpu="0",mode="` is stored once. Long parts that were written earlier
//! are copied from there: the labels of a pod, which each of its families has, are stored once.

use hashbrown::HashTable;

use crate::memory::hash::hash_of;
use crate::series_kind::SeriesKind;

/// Lengths of at most 127 take a byte.
const VARINT_BITS: u32 = 7;

/// The flag of a series whose samples have timestamps: Prometheus doesn't mark those as stale.
const TIMED: u8 = 0x80;
/// The flag of a text in the plainest form: see [`crate::otlp::expected`].
const PLAIN: u8 = 0x40;
/// The flag of a text whose next part is copied.
const COPIED: u8 = 0x20;
/// The flag of a text that shares the suffix of the one before.
const ENDED: u8 = 0x10;
/// The flag of a text with two consecutive copied parts.
const COPIED_TWICE: u8 = 0x08;
/// The mask of the kind.
const KIND: u8 = 0x07;

/// A longer list grows slowly.
const LONG_BYTES: usize = 1 << 20;

/// The bytes that are hashed to find a part to copy.
const KEY_BYTES: usize = 16;
/// The shortest part that is copied: its position takes up to six bytes.
const COPIED_BYTES_MIN: usize = 24;
/// The shortest shared suffix: its length takes a byte.
const ENDED_BYTES_MIN: usize = 4;

/// The flags that are stored with a series' text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesFlags {
    pub(crate) kind: SeriesKind,
    pub(crate) is_timed: bool,
    pub(crate) is_plain: bool,
}

/// An iterator over texts.
#[derive(Debug, Default)]
pub(crate) struct NameIterator {
    /// The current slice, and the position in it.
    part: usize,
    at: usize,
    index: usize,
    text: Vec<u8>,
    /// A buffer for the shared suffix.
    end: Vec<u8>,
}

/// A series of the walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesEntry {
    /// Its index.
    pub(crate) index: usize,
    pub(crate) form: SeriesFlags,
}

impl NameIterator {
    /// Decodes the next text from these consecutive slices; [`NameIterator::text`] then returns it.
    #[inline]
    pub(crate) fn next(&mut self, parts: [&[u8]; 2]) -> Option<SeriesEntry> {
        while self.at == parts.get(self.part)?.len() {
            self.part += 1;
            self.at = 0;
        }
        let names = parts[self.part];
        let shared = read_length(names, &mut self.at)?;
        let length = read_length(names, &mut self.at)?;
        let flags = *names.get(self.at)?;
        self.at += 1;
        if flags & (COPIED | ENDED) == 0 {
            let own = names.get(self.at..self.at + length)?;
            self.at += length;
            self.text.truncate(shared);
            self.text.extend_from_slice(own);
        } else {
            self.join_parts(names, flags, (shared, length))?;
        }
        let index = self.index;
        self.index += 1;
        let kind = *SeriesKind::ALL.get(usize::from(flags & KIND))?;
        let (is_timed, is_plain) = (flags & TIMED != 0, flags & PLAIN != 0);
        Some(SeriesEntry { index, form: SeriesFlags { kind, is_timed, is_plain } })
    }

    /// Builds a text from its parts: the shared prefix, copied parts, its own bytes, the shared
    /// suffix.
    #[inline]
    fn join_parts(
        &mut self,
        names: &[u8],
        flags: u8,
        (shared, length): (usize, usize),
    ) -> Option<()> {
        let here = self.at;
        let ended = if flags & ENDED != 0 { read_length(names, &mut self.at)? } else { 0 };
        if flags & COPIED == 0 && shared + length + ended == self.text.len() {
            // The text is as long as the one before: only the difference is overwritten.
            let own = names.get(self.at..self.at + length)?;
            self.text[shared..shared + length].copy_from_slice(own);
            self.at += length;
            return Some(());
        }
        self.end.clear();
        self.end.extend_from_slice(&self.text[self.text.len().checked_sub(ended)?..]);
        self.text.truncate(shared);
        if flags & COPIED != 0 {
            self.copy_part(names, here)?;
        }
        if flags & COPIED_TWICE != 0 {
            self.copy_part(names, here)?;
        }
        self.text.extend_from_slice(names.get(self.at..self.at + length)?);
        self.at += length;
        self.text.extend_from_slice(&self.end);
        Some(())
    }

    /// Appends a part from before a position.
    #[inline]
    fn copy_part(&mut self, names: &[u8], here: usize) -> Option<()> {
        let distance = read_length(names, &mut self.at)?;
        let length = read_length(names, &mut self.at)?;
        let from = here.checked_sub(distance)?;
        self.text.extend_from_slice(names.get(from..from + length)?);
        Some(())
    }

    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the position of the next text in the first slice.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Returns to the first text.
    pub(crate) fn rewind(&mut self) {
        self.text.clear();
        (self.part, self.at, self.index) = (0, 0, 0);
    }
}

/// An encoder of texts.
#[derive(Debug, Default)]
pub(crate) struct NameEncoder {
    pub(crate) bytes: Vec<u8>,
    last: Vec<u8>,
    /// The positions of long parts, by the hash of their first bytes.
    parts: HashTable<u32>,
}

impl NameEncoder {
    /// Removes all texts.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.last.clear();
        self.parts.clear();
    }

    /// Returns its size in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.parts.allocation_size()
    }

    /// Frees buffers that are larger than `retained_bytes`.
    pub(crate) fn release_excess(&mut self, retained_bytes: usize) {
        if self.bytes.capacity() > retained_bytes {
            self.bytes = Vec::new();
        }
        if self.parts.allocation_size() > retained_bytes {
            self.parts = HashTable::new();
        }
    }

    #[inline]
    pub(crate) fn append_text(&mut self, text: &[u8], form: SeriesFlags) {
        let shared = shared_prefix(&self.last, text);
        let rest = &text[shared..];
        let mut own = rest;
        let mut copied = [None; 2];
        for part in &mut copied {
            *part = self.find_copy(own);
            let Some((_, length)) = *part else { break };
            own = &own[length..];
        }
        let ended = Some(shared_suffix(&self.last[shared..], own));
        let ended = ended.filter(|length| *length >= ENDED_BYTES_MIN);
        let own = &own[..own.len() - ended.unwrap_or(0)];
        put_length(&mut self.bytes, shared);
        put_length(&mut self.bytes, own.len());
        let conditions = [
            (form.is_timed, TIMED),
            (form.is_plain, PLAIN),
            (copied[0].is_some(), COPIED),
            (copied[1].is_some(), COPIED_TWICE),
            (ended.is_some(), ENDED),
        ];
        let flags = conditions.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag);
        self.bytes.push(flags.fold(form.kind as u8, |all, flag| all | flag));
        let here = self.bytes.len();
        if let Some(length) = ended {
            put_length(&mut self.bytes, length);
        }
        for (from, length) in copied.into_iter().flatten() {
            put_length(&mut self.bytes, here - from);
            put_length(&mut self.bytes, length);
        }
        self.record_part(own);
        reserve_for(&mut self.bytes, own.len());
        self.bytes.extend_from_slice(own);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    /// Returns the position and length of an earlier copy of a text's beginning.
    fn find_copy(&self, rest: &[u8]) -> Option<(usize, usize)> {
        let key = rest.get(..KEY_BYTES).filter(|_| rest.len() >= COPIED_BYTES_MIN)?;
        let is_it = |from: &u32| self.bytes[*from as usize..].starts_with(key);
        let from = *self.parts.find(hash_of(key, 0), is_it)? as usize;
        let length = shared_prefix(&self.bytes[from..], rest);
        (length >= COPIED_BYTES_MIN).then_some((from, length))
    }

    /// Records that a text is written next, to be copied later.
    fn record_part(&mut self, rest: &[u8]) {
        let (Some(key), Ok(from)) = (rest.get(..KEY_BYTES), u32::try_from(self.bytes.len())) else {
            return;
        };
        let Self { bytes, parts, .. } = self;
        // The recorded parts have all of their first bytes in `bytes` already.
        let hash_at = |from: &u32| hash_of(&bytes[*from as usize..][..KEY_BYTES], 0);
        if rest.len() >= COPIED_BYTES_MIN {
            parts.insert_unique(hash_of(key, 0), from, hash_at);
        }
    }
}

/// Reserves space in a full list: a long one grows by an eighth, since its capacity counts against
/// the budget.
#[inline]
pub(crate) fn reserve_for<T>(list: &mut Vec<T>, more: usize) {
    let (length, capacity) = (list.len(), list.capacity());
    if capacity - length < more && capacity * size_of::<T>() > LONG_BYTES {
        list.reserve_exact(more.max(capacity / 8));
    }
}

#[inline]
fn put_length(out: &mut Vec<u8>, length: usize) {
    millrace_wire::protobuf::put_varint(out, length as u64);
}

#[inline]
fn read_length(names: &[u8], at: &mut usize) -> Option<usize> {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = *names.get(*at)?;
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(length);
        }
        shift += VARINT_BITS;
    }
}

/// Returns the number of bytes that two texts share at their beginning.
#[inline]
fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    let end = one.len().min(other.len());
    let mut at = 0;
    while let (Some(a), Some(b)) = (one[at..].first_chunk::<8>(), other[at..].first_chunk::<8>()) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < end && one[at] == other[at] {
        at += 1;
    }
    at
}

/// Returns the number of bytes that two texts share at their end.
#[inline]
fn shared_suffix(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}
