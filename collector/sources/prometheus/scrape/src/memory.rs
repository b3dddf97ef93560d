//! The memory of a target's series: their identities, starts, and last values if cumulative.
//!
//! Series are stored in the order of the last body, since the next one nearly always has the same
//! order: each is compared with the expected one, and searched only if that fails. Each takes its
//! [numbers](crate::series) and its [text](crate::names) without what it shares with texts before:
//! `{cpu="0",mode="` is stored once.

use crate::series::SeriesList;

/// The kind of points of a series, which its stale marker repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeriesKind {
    Gauge,
    Counter,
    /// A sum that may decrease.
    Sum,
    Histogram,
    Summary,
    /// An exponential histogram.
    Exponential,
}

impl SeriesKind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Gauge, Self::Counter, Self::Sum, Self::Histogram, Self::Summary, Self::Exponential];

    /// Returns the index of the target's encoded labels for its points.
    pub(crate) const fn attribute_set(self) -> usize {
        match self {
            Self::Histogram => 1,
            Self::Exponential => 2,
            _ => 0,
        }
    }

    /// Whether its points have a start time.
    #[inline]
    pub(crate) const fn has_beginning(self) -> bool {
        !matches!(self, Self::Gauge)
    }
}

/// The series of a target between scrapes.
#[derive(Debug, Default)]
pub struct SeriesMemory {
    pub(crate) series: SeriesList,
    /// The texts of the series, as [`crate::names`] encodes them.
    pub(crate) names: Vec<u8>,
    /// Attributes of the resource from `target_info`.
    pub(crate) target_info: Vec<u8>,
    /// Whether all series were marked as stale.
    pub(crate) is_marked: bool,
}

impl SeriesMemory {
    /// Returns its size in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let texts = self.names.capacity() + self.target_info.capacity();
        (self.series.held_bytes() + texts) as u64
    }

    /// Returns the number of series: a histogram or summary is one.
    #[must_use]
    pub fn series_count(&self) -> usize {
        self.series.len()
    }

    /// Returns an empty memory whose series were all marked as stale.
    pub(crate) fn new_marked() -> Self {
        Self { is_marked: true, ..Self::default() }
    }
}

/// A point's statement about its series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesObservation<'a> {
    pub(crate) hash: u64,
    /// Its name and labels, as written in the body.
    pub(crate) text: &'a [u8],
    pub(crate) kind: SeriesKind,
    pub(crate) is_timed: bool,
    /// Whether its text has the plainest form: see [`crate::expected`].
    pub(crate) is_plain: bool,
    pub(crate) time_unix_nano: u64,
    /// The value, or count, if it is cumulative.
    pub(crate) value: Option<f64>,
    /// Its creation time, if the body states it.
    pub(crate) created_unix_nano: Option<u64>,
}

/// The start of an observed series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeriesStart {
    /// The start; for a series without one, the point's time.
    pub(crate) start_unix_nano: u64,
    pub(crate) is_new: bool,
}

/// The hash of a series: of its name, and of its labels in any order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Returns the hash of a name.
    #[inline]
    pub(crate) fn of_name(name: &[u8]) -> Self {
        Self(hash_of(name, 1))
    }

    #[inline]
    pub(crate) fn add_label(&mut self, name: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(hash_of(value, hash_of(name, 2)));
    }

    /// Returns the hash of the labels added since `before`.
    #[inline]
    pub(crate) fn added_since(self, before: Self) -> u64 {
        self.0.wrapping_sub(before.0)
    }

    #[inline]
    pub(crate) fn finish(self) -> u64 {
        mix_bits(self.0)
    }
}

#[inline]
pub(crate) fn hash_of(text: &[u8], seed: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(seed).build_hasher();
    hasher.write(text);
    hasher.finish()
}

/// The final steps of splitmix64.
#[inline]
const fn mix_bits(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
mod tests;
