//! Numbers of series, in columns: the hash of each; of those with a beginning also when that was
//! and the last value. A gauge so takes 8 bytes, all others 24, and which have a beginning a
//! quarter.

use crate::memory::Kind;
use crate::names::grow;

/// How many series a [`Word`] is about.
const WORD_BITS: usize = u64::BITS as usize;

/// What is known of a series whose points say when it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    /// When its value was 0, as far as is known.
    pub(crate) start_unix_nano: u64,
    /// The last value (of a histogram or summary its count), if it is cumulative.
    pub(crate) value: f64,
}

/// Which of 64 series have a beginning, and how many before them do.
#[derive(Debug, Clone, Copy)]
struct Word {
    bits: u64,
    before: u32,
}

/// Series in the order of their texts.
#[derive(Debug, Default)]
pub(crate) struct List {
    /// Of name and labels.
    hashes: Vec<u64>,
    words: Vec<Word>,
    begun: Vec<Begun>,
}

impl List {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// What it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
            + self.words.capacity() * size_of::<Word>()
            + self.begun.capacity() * size_of::<Begun>()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Those with a beginning, in order.
    pub(crate) fn begun(&self) -> &[Begun] {
        &self.begun
    }

    pub(crate) fn begun_mut(&mut self) -> &mut [Begun] {
        &mut self.begun
    }

    /// What is known of the series at a place, if it has a beginning.
    #[inline]
    pub(crate) fn begun_at(&self, place: usize) -> Option<Begun> {
        let word = self.words.get(place / WORD_BITS)?;
        let bit = place % WORD_BITS;
        let before = (word.bits & ((1 << bit) - 1)).count_ones() + word.before;
        (word.bits >> bit & 1 == 1).then(|| self.begun[before as usize])
    }

    /// Appends a series.
    #[inline]
    pub(crate) fn push(&mut self, hash: u64, kind: Kind, begun: Begun) {
        self.push_bit(self.hashes.len(), self.begun.len(), kind.has_beginning());
        grow(&mut self.hashes, 1);
        self.hashes.push(hash);
        if kind.has_beginning() {
            grow(&mut self.begun, 1);
            self.begun.push(begun);
        }
    }

    /// Gives the last series another beginning, if it has one.
    pub(crate) fn restart_last(&mut self, start_unix_nano: u64) {
        let last = self.len().checked_sub(1).and_then(|place| self.begun_at(place));
        if let (Some(_), Some(begun)) = (last, self.begun.last_mut()) {
            begun.start_unix_nano = start_unix_nano;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.words.clear();
        self.begun.clear();
    }

    /// Gives back what is longer than so many bytes.
    pub(crate) fn trim(&mut self, kept_bytes: usize) {
        if self.bytes() > kept_bytes {
            *self = Self::default();
        }
    }

    /// Puts another list behind the first so many series, of which so many have a beginning.
    pub(crate) fn replace_behind(
        &mut self,
        (kept, kept_begun): (usize, usize),
        rest: &mut Self,
        kept_bytes: usize,
    ) {
        self.words.truncate(kept.div_ceil(WORD_BITS));
        if let (Some(last), 1..) = (self.words.last_mut(), kept % WORD_BITS) {
            last.bits &= (1 << (kept % WORD_BITS)) - 1;
        }
        self.words.reserve_exact((kept + rest.len()).div_ceil(WORD_BITS) - self.words.len());
        let mut begun = kept_begun;
        for place in 0..rest.len() {
            let has = rest.words[place / WORD_BITS].bits >> (place % WORD_BITS) & 1 == 1;
            self.push_bit(kept + place, begun, has);
            begun += usize::from(has);
        }
        self.words.shrink_to_fit();
        replace_behind(&mut self.hashes, kept, &mut rest.hashes, kept_bytes);
        replace_behind(&mut self.begun, kept_begun, &mut rest.begun, kept_bytes);
    }

    /// Says whether the series at the next place has a beginning, where so many before it have.
    #[inline]
    fn push_bit(&mut self, place: usize, before: usize, has_beginning: bool) {
        if place.is_multiple_of(WORD_BITS) {
            grow(&mut self.words, 1);
            self.words.push(Word { bits: 0, before: before as u32 });
        }
        if let Some(word) = self.words.last_mut() {
            word.bits |= u64::from(has_beginning) << (place % WORD_BITS);
        }
    }
}

/// Puts a list behind the first so many of another. One longer than what is kept for the next
/// scrape is not copied where it can be moved.
pub(crate) fn replace_behind<T: Copy>(
    whole: &mut Vec<T>,
    kept: usize,
    rest: &mut Vec<T>,
    kept_bytes: usize,
) {
    if kept <= rest.len() && rest.capacity() * size_of::<T>() > kept_bytes {
        let mut longer = std::mem::take(rest);
        whole.truncate(kept);
        longer.splice(0..0, whole.drain(..));
        *whole = longer;
    } else {
        whole.truncate(kept);
        whole.shrink_to(kept + rest.len());
        whole.reserve_exact(rest.len());
        whole.extend_from_slice(rest);
    }
    whole.shrink_to_fit();
}
