//! Stores series in columns: the hash of each, and for those with a start time also that and the
//! last value. So a gauge takes 8 bytes, any other series 24, and the mark of a start a quarter of
//! a byte.

use crate::memory::names::reserve_for;
use crate::series_kind::SeriesKind;

/// The number of series of a [`BitBlock`].
const BLOCK_BITS: usize = u64::BITS as usize;

/// The state of a series with a start time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesState {
    /// The time at which its value was 0, as far as known.
    pub(crate) start_unix_nano: u64,
    /// The last value (of a histogram or summary its count), if it is cumulative.
    pub(crate) value: f64,
}

/// A bit for each of 64 series that has a start, and the number of starts before them.
#[derive(Debug, Clone, Copy)]
struct BitBlock {
    bits: u64,
    before: u32,
}

/// Series in the order of their texts.
#[derive(Debug, Default)]
pub(crate) struct SeriesList {
    /// The hashes of name and labels.
    hashes: Vec<u64>,
    blocks: Vec<BitBlock>,
    begun: Vec<SeriesState>,
}

impl SeriesList {
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Returns its size in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
            + self.blocks.capacity() * size_of::<BitBlock>()
            + self.begun.capacity() * size_of::<SeriesState>()
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Returns the states of series with a start, in order.
    pub(crate) fn begun(&self) -> &[SeriesState] {
        &self.begun
    }

    pub(crate) fn begun_mut(&mut self) -> &mut [SeriesState] {
        &mut self.begun
    }

    /// Returns the state of the series at an index, if it has a start.
    #[inline]
    pub(crate) fn begun_at(&self, index: usize) -> Option<SeriesState> {
        let word = self.blocks.get(index / BLOCK_BITS)?;
        let bit = index % BLOCK_BITS;
        let before = (word.bits & ((1 << bit) - 1)).count_ones() + word.before;
        (word.bits >> bit & 1 == 1).then(|| self.begun[before as usize])
    }

    #[inline]
    pub(crate) fn push(&mut self, hash: u64, kind: SeriesKind, begun: SeriesState) {
        self.push_bit(self.hashes.len(), self.begun.len(), kind.has_beginning());
        reserve_for(&mut self.hashes, 1);
        self.hashes.push(hash);
        if kind.has_beginning() {
            reserve_for(&mut self.begun, 1);
            self.begun.push(begun);
        }
    }

    /// Sets the last series' start, if it has one.
    pub(crate) fn restart_last(&mut self, start_unix_nano: u64) {
        let last = self.len().checked_sub(1).and_then(|index| self.begun_at(index));
        if let (Some(_), Some(begun)) = (last, self.begun.last_mut()) {
            begun.start_unix_nano = start_unix_nano;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.hashes.clear();
        self.blocks.clear();
        self.begun.clear();
    }

    /// Frees the list if it is larger than `retained_bytes`.
    pub(crate) fn release_excess(&mut self, retained_bytes: usize) {
        if self.held_bytes() > retained_bytes {
            *self = Self::default();
        }
    }

    /// Replaces all series after the first `retained`, of which `retained_begun` have a start.
    pub(crate) fn replace_behind(
        &mut self,
        (retained, retained_begun): (usize, usize),
        rest: &mut Self,
        retained_bytes: usize,
    ) {
        self.blocks.truncate(retained.div_ceil(BLOCK_BITS));
        if let (Some(last), 1..) = (self.blocks.last_mut(), retained % BLOCK_BITS) {
            last.bits &= (1 << (retained % BLOCK_BITS)) - 1;
        }
        self.blocks.reserve_exact((retained + rest.len()).div_ceil(BLOCK_BITS) - self.blocks.len());
        let mut begun = retained_begun;
        for index in 0..rest.len() {
            let has = rest.blocks[index / BLOCK_BITS].bits >> (index % BLOCK_BITS) & 1 == 1;
            self.push_bit(retained + index, begun, has);
            begun += usize::from(has);
        }
        self.blocks.shrink_to_fit();
        replace_behind(&mut self.hashes, retained, &mut rest.hashes, retained_bytes);
        replace_behind(&mut self.begun, retained_begun, &mut rest.begun, retained_bytes);
    }

    /// Appends a bit for the series at the next index, after `before` starts.
    #[inline]
    fn push_bit(&mut self, index: usize, before: usize, has_beginning: bool) {
        if index.is_multiple_of(BLOCK_BITS) {
            reserve_for(&mut self.blocks, 1);
            self.blocks.push(BitBlock { bits: 0, before: before as u32 });
        }
        if let Some(word) = self.blocks.last_mut() {
            word.bits |= u64::from(has_beginning) << (index % BLOCK_BITS);
        }
    }
}

/// Replaces the elements after a prefix. A tail that is larger than `retained_bytes` is moved
/// instead of copied if possible.
pub(crate) fn replace_behind<T: Copy>(
    list: &mut Vec<T>,
    prefix_len: usize,
    tail: &mut Vec<T>,
    retained_bytes: usize,
) {
    if prefix_len <= tail.len() && tail.capacity() * size_of::<T>() > retained_bytes {
        let mut longer = std::mem::take(tail);
        list.truncate(prefix_len);
        longer.splice(0..0, list.drain(..));
        *list = longer;
    } else {
        list.truncate(prefix_len);
        list.shrink_to(prefix_len + tail.len());
        list.reserve_exact(tail.len());
        list.extend_from_slice(tail);
    }
    list.shrink_to_fit();
}
