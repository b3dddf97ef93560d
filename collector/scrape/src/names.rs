//! Texts of series behind each other: of each only what it doesn't share with the one before, so
//! that `{cpu="0",mode="` is kept once, nor what stands behind the value that differs. What is long
//! and was written further ahead is copied from there: a pod's labels, which each of its families
//! has, are kept once.

use hashbrown::HashTable;

use crate::memory::{Kind, hash_of};

/// Lengths of at most 127 take a byte.
const VARINT_BITS: u32 = 7;

/// Said of a series whose samples have times of their own: Prometheus doesn't mark those as gone.
const TIMED: u8 = 0x80;
/// Said of a text in the plainest form: see [`crate::expected`].
const PLAIN: u8 = 0x40;
/// Said of a text whose next part stands further ahead.
const COPIED: u8 = 0x20;
/// Said of a text that ends as the one before.
const ENDED: u8 = 0x10;
/// Said of a text of which two parts stand further ahead, one behind the other.
const COPIED_TWICE: u8 = 0x08;
/// What is left says the kind.
const KIND: u8 = 0x07;

/// A list that is longer than this grows slowly.
const LONG_BYTES: usize = 1 << 20;

/// By how many bytes the part is found that is copied.
const KEY_BYTES: usize = 16;
/// The shortest part that is copied: to say where it stands takes up to six bytes.
const COPIED_BYTES_MIN: usize = 24;
/// The shortest end that isn't written again: its length takes a byte.
const ENDED_BYTES_MIN: usize = 4;

/// What is kept of a series beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    pub(crate) is_timed: bool,
    pub(crate) is_plain: bool,
}

/// A way through texts.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Which part, and where in it.
    part: usize,
    at: usize,
    place: usize,
    text: Vec<u8>,
    /// How the text before ended.
    end: Vec<u8>,
}

/// A series on the way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    /// Its place.
    pub(crate) place: usize,
    pub(crate) form: Form,
}

impl Walk {
    /// The next one of these parts, read one behind the other; its text is [`Walk::text`] then.
    #[inline]
    pub(crate) fn next(&mut self, parts: [&[u8]; 2]) -> Option<Named> {
        while self.at == parts.get(self.part)?.len() {
            self.part += 1;
            self.at = 0;
        }
        let names = parts[self.part];
        let shared = take_length(names, &mut self.at)?;
        let length = take_length(names, &mut self.at)?;
        let flags = *names.get(self.at)?;
        self.at += 1;
        if flags & (COPIED | ENDED) == 0 {
            let own = names.get(self.at..self.at + length)?;
            self.at += length;
            self.text.truncate(shared);
            self.text.extend_from_slice(own);
        } else {
            self.join(names, flags, (shared, length))?;
        }
        let place = self.place;
        self.place += 1;
        let kind = *Kind::ALL.get(usize::from(flags & KIND))?;
        let (is_timed, is_plain) = (flags & TIMED != 0, flags & PLAIN != 0);
        Some(Named { place, form: Form { kind, is_timed, is_plain } })
    }

    /// Makes a text of parts: what is shared, what is copied, what is written here, how it ends.
    #[inline]
    fn join(&mut self, names: &[u8], flags: u8, (shared, length): (usize, usize)) -> Option<()> {
        let here = self.at;
        let ended = if flags & ENDED != 0 { take_length(names, &mut self.at)? } else { 0 };
        if flags & COPIED == 0 && shared + length + ended == self.text.len() {
            // As long as the one before: what differs is written over.
            let own = names.get(self.at..self.at + length)?;
            self.text[shared..shared + length].copy_from_slice(own);
            self.at += length;
            return Some(());
        }
        self.end.clear();
        self.end.extend_from_slice(&self.text[self.text.len().checked_sub(ended)?..]);
        self.text.truncate(shared);
        if flags & COPIED != 0 {
            self.copy(names, here)?;
        }
        if flags & COPIED_TWICE != 0 {
            self.copy(names, here)?;
        }
        self.text.extend_from_slice(names.get(self.at..self.at + length)?);
        self.at += length;
        self.text.extend_from_slice(&self.end);
        Some(())
    }

    /// Appends a part that stands ahead of a place.
    #[inline]
    fn copy(&mut self, names: &[u8], here: usize) -> Option<()> {
        let distance = take_length(names, &mut self.at)?;
        let length = take_length(names, &mut self.at)?;
        let from = here.checked_sub(distance)?;
        self.text.extend_from_slice(names.get(from..from + length)?);
        Some(())
    }

    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where the next one stands, in the first part.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Goes back to the first one.
    pub(crate) fn restart(&mut self) {
        self.text.clear();
        (self.part, self.at, self.place) = (0, 0, 0);
    }
}

/// Writes texts.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) bytes: Vec<u8>,
    last: Vec<u8>,
    /// Where long parts stand, by the hash of their first bytes.
    parts: HashTable<u32>,
}

impl Names {
    /// Begins anew, with nothing written.
    pub(crate) fn begin(&mut self) {
        self.bytes.clear();
        self.last.clear();
        self.parts.clear();
    }

    /// What it takes, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.parts.allocation_size()
    }

    /// Gives back what is longer than so many bytes.
    pub(crate) fn trim(&mut self, kept_bytes: usize) {
        if self.bytes.capacity() > kept_bytes {
            self.bytes = Vec::new();
        }
        if self.parts.allocation_size() > kept_bytes {
            self.parts = HashTable::new();
        }
    }

    /// Appends a text.
    #[inline]
    pub(crate) fn put(&mut self, text: &[u8], form: Form) {
        let shared = shared_prefix(&self.last, text);
        let rest = &text[shared..];
        let mut own = rest;
        let mut copied = [None; 2];
        for part in &mut copied {
            *part = self.find(own);
            let Some((_, length)) = *part else { break };
            own = &own[length..];
        }
        let ended = Some(shared_suffix(&self.last[shared..], own));
        let ended = ended.filter(|length| *length >= ENDED_BYTES_MIN);
        let own = &own[..own.len() - ended.unwrap_or(0)];
        put_length(&mut self.bytes, shared);
        put_length(&mut self.bytes, own.len());
        let said = [
            (form.is_timed, TIMED),
            (form.is_plain, PLAIN),
            (copied[0].is_some(), COPIED),
            (copied[1].is_some(), COPIED_TWICE),
            (ended.is_some(), ENDED),
        ];
        let flags = said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, flag)| flag);
        self.bytes.push(flags.fold(form.kind as u8, |all, flag| all | flag));
        let here = self.bytes.len();
        if let Some(length) = ended {
            put_length(&mut self.bytes, length);
        }
        for (from, length) in copied.into_iter().flatten() {
            put_length(&mut self.bytes, here - from);
            put_length(&mut self.bytes, length);
        }
        self.note(own);
        grow(&mut self.bytes, own.len());
        self.bytes.extend_from_slice(own);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    /// Where the beginning of a text was written before, and how much of it.
    fn find(&self, rest: &[u8]) -> Option<(usize, usize)> {
        let key = rest.get(..KEY_BYTES).filter(|_| rest.len() >= COPIED_BYTES_MIN)?;
        let is_it = |from: &u32| self.bytes[*from as usize..].starts_with(key);
        let from = *self.parts.find(hash_of(key, 0), is_it)? as usize;
        let length = shared_prefix(&self.bytes[from..], rest);
        (length >= COPIED_BYTES_MIN).then_some((from, length))
    }

    /// Notes where a text is written next, to be copied from there.
    fn note(&mut self, rest: &[u8]) {
        let (Some(key), Ok(from)) = (rest.get(..KEY_BYTES), u32::try_from(self.bytes.len())) else {
            return;
        };
        let Self { bytes, parts, .. } = self;
        // Those that are there are written already, all of their first bytes.
        let hash_at = |from: &u32| hash_of(&bytes[*from as usize..][..KEY_BYTES], 0);
        if rest.len() >= COPIED_BYTES_MIN {
            parts.insert_unique(hash_of(key, 0), from, hash_at);
        }
    }
}

/// Makes room in a list, if it is full: a long one grows by an eighth, since what it might hold is
/// reserved.
#[inline]
pub(crate) fn grow<T>(list: &mut Vec<T>, more: usize) {
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
fn take_length(names: &[u8], at: &mut usize) -> Option<usize> {
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

/// How many bytes two texts begin with in common.
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

/// How many bytes two texts end with in common.
#[inline]
fn shared_suffix(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}
