//! Which key follows which: foretells the keys of attribute sets.
//!
//! Records of one kind list their keys in one order, and kinds share parts of it. So the next key
//! is most often the one that followed the last one before. A guess costs a comparison, a wrong one
//! a look-up in the dictionary, which alone says which keys there are. Guesses depend on what came
//! before and never change what is written.

use crate::bytes::same;
use crate::reuse;

/// Keys with a follower of their own: sets don't hold that many in an order worth noting. At 40
/// bytes each they take 160 KiB at the most.
const KEYS: usize = 4096;

/// Longest key that is compared in place; others are compared in the dictionary.
const SHORT: usize = 32;

/// The length of a key that isn't kept here.
const LONG: u8 = u8::MAX;

/// No key: what follows a key that is new.
const NONE: u32 = u32::MAX;

/// A key of the dictionary, at the place of its index.
struct Key {
    /// What followed it last.
    next: u32,
    /// Its length, or [`LONG`].
    len: u8,
    text: [u8; SHORT],
}

/// The keys of a dictionary, each with what followed it last.
pub(crate) struct Sequence {
    keys: Vec<Key>,
    /// What a row began with last.
    first: u32,
    /// The key before the next one, if the row has one that is noted.
    last: u32,
    guess: u32,
}

impl Default for Sequence {
    fn default() -> Self {
        Self { keys: Vec::new(), first: NONE, last: NONE, guess: NONE }
    }
}

impl Sequence {
    /// The index of the next key, if it is `text` by the guess.
    #[inline(always)]
    pub(crate) fn foretold(&mut self, text: &[u8]) -> Option<u32> {
        let index = self.guess;
        let key = self.keys.get(index as usize)?;
        if !same(text, key.text.get(..usize::from(key.len))?) {
            return None;
        }
        self.guess = key.next;
        self.last = index;
        Some(index)
    }

    /// The guess, where `foretold` didn't take it: a long key may be it all the same.
    pub(crate) fn guess(&self) -> u32 {
        self.guess
    }

    /// Notes that the next key is `text`, with index `index`.
    pub(crate) fn note(&mut self, text: &[u8], index: u32) {
        if self.last == NONE {
            self.first = index;
        } else if let Some(last) = self.keys.get_mut(self.last as usize) {
            last.next = index;
        }
        // Indexes are given in turn: a new key has the next place.
        if index as usize == self.keys.len() && (index as usize) < KEYS {
            self.keys.push(Key::new(text));
        }
        self.last = index;
        self.guess = self.keys.get(index as usize).map_or(NONE, |key| key.next);
    }

    /// Ends a row.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.last = NONE;
        self.guess = self.first;
    }

    /// Forgets all keys, keeps memory.
    pub(crate) fn clear(&mut self) {
        reuse::clear(&mut self.keys);
        (self.first, self.last, self.guess) = (NONE, NONE, NONE);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<Key>()
    }
}

impl Key {
    fn new(text: &[u8]) -> Self {
        let mut key = Self { next: NONE, len: LONG, text: [0; SHORT] };
        if let Some(place) = key.text.get_mut(..text.len()) {
            place.copy_from_slice(text);
            key.len = text.len() as u8;
        }
        key
    }
}

#[cfg(test)]
#[path = "../../tests/unit/column/sequence.rs"]
mod tests;
