//! Texts of series behind each other: of each only what it doesn't share with the one before, so
//! that `{cpu="0",mode="` is kept once.

use crate::memory::Kind;

/// Lengths of at most 127 take a byte.
const VARINT_BITS: u32 = 7;

/// Said of a series whose samples have times of their own: Prometheus doesn't mark those as gone.
const TIMED: u8 = 0x80;
/// Said of a text in the plainest form: see [`crate::expected`].
const PLAIN: u8 = 0x40;

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
        let rest = names.get(self.at + 1..self.at + 1 + length)?;
        self.at += 1 + length;
        self.text.truncate(shared);
        self.text.extend_from_slice(rest);
        let place = self.place;
        self.place += 1;
        let kind = *Kind::ALL.get(usize::from(flags & !(TIMED | PLAIN)))?;
        let (is_timed, is_plain) = (flags & TIMED != 0, flags & PLAIN != 0);
        Some(Named { place, form: Form { kind, is_timed, is_plain } })
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

/// Appends a text behind another one, which becomes this one.
#[inline]
pub(crate) fn put(names: &mut Vec<u8>, last: &mut Vec<u8>, text: &[u8], form: Form) {
    let shared = shared_prefix(last, text);
    let rest = &text[shared..];
    put_length(names, shared);
    put_length(names, rest.len());
    let timed = if form.is_timed { TIMED } else { 0 };
    let plain = if form.is_plain { PLAIN } else { 0 };
    names.push(form.kind as u8 | timed | plain);
    names.extend_from_slice(rest);
    last.truncate(shared);
    last.extend_from_slice(rest);
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
