//! Predicts the keys of attribute sets from which key followed which.
//!
//! Records of one kind list their keys in one order, and kinds share parts of it. So the next key
//! is most often the last successor of the current one. A prediction costs a comparison, a wrong
//! one a look-up in the dictionary, which alone defines the keys. Predictions depend on earlier
//! input and never change what is written.

use crate::format::bytes::is_same_text;
use crate::reuse;

/// The number of keys with a successor: no set has that many in a useful order. At 40 bytes each
/// they take 160 KiB at most.
const KEYS: usize = 4096;

/// The longest key that is compared in place; others are compared in the dictionary.
const SHORT: usize = 32;

/// The length of a key that isn't stored here.
const LONG: u8 = u8::MAX;

/// No key: the successor of a new key.
const NONE: u32 = u32::MAX;

/// A key of the dictionary, at the position of its index.
struct SequenceKey {
    /// Its last successor.
    next: u32,
    /// Its length, or [`LONG`].
    len: u8,
    text: [u8; SHORT],
}

/// The keys of a dictionary, each with its last successor.
pub(crate) struct Sequence {
    keys: Vec<SequenceKey>,
    /// The first key of the last row.
    first: u32,
    /// The key before the next one, if the row has a stored one.
    last: u32,
    guess: u32,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { keys: Vec::new(), first: NONE, last: NONE, guess: NONE }
    }
}

impl Sequence {
    /// Returns the index of the next key, if the predicted key is `text`.
    #[inline(always)]
    pub(crate) fn match_guess(&mut self, text: &[u8]) -> Option<u32> {
        let index = self.guess;
        let key = self.keys.get(index as usize)?;
        if !is_same_text(text, key.text.get(..usize::from(key.len))?) {
            return None;
        }
        self.guess = key.next;
        self.last = index;
        Some(index)
    }

    /// Returns the prediction if `foretold` didn't confirm it: it may still be right for a long
    /// key.
    pub(crate) fn guess(&self) -> u32 {
        self.guess
    }

    /// Records that the next key is `text`, with index `index`.
    pub(crate) fn record_key(&mut self, text: &[u8], index: u32) {
        if self.last == NONE {
            self.first = index;
        } else if let Some(last) = self.keys.get_mut(self.last as usize) {
            last.next = index;
        }
        // Indexes are consecutive: a new key has the next position.
        if index as usize == self.keys.len() && (index as usize) < KEYS {
            self.keys.push(SequenceKey::new(text));
        }
        self.last = index;
        self.guess = self.keys.get(index as usize).map_or(NONE, |key| key.next);
    }

    /// Ends a row.
    #[inline(always)]
    pub(crate) fn end_row(&mut self) {
        self.last = NONE;
        self.guess = self.first;
    }

    /// Drops all keys and retains memory.
    pub(crate) fn clear(&mut self) {
        reuse::clear(&mut self.keys);
        (self.first, self.last, self.guess) = (NONE, NONE, NONE);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<SequenceKey>()
    }
}

impl SequenceKey {
    fn new(text: &[u8]) -> Self {
        let mut key = Self { next: NONE, len: LONG, text: [0; SHORT] };
        if let Some(prefix) = key.text.get_mut(..text.len()) {
            prefix.copy_from_slice(text);
            key.len = text.len() as u8;
        }
        key
    }
}

#[cfg(test)]
mod tests;
