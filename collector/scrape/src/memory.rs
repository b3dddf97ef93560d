//! What is remembered of a target's series: which there were, when each began, its last value if it
//! is cumulative.
//!
//! Series lie in the order of the last body, since the next one nearly always has the same order:
//! each is compared with the one that is expected, and looked up only if that fails. Each takes its
//! [numbers](crate::series) and its [text](crate::names) less what it shares with texts before:
//! `{cpu="0",mode="` is kept once.

use crate::series::List;

/// What a series is written as, for the point that says that it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gauge,
    Counter,
    /// A sum that may fall.
    Sum,
    Histogram,
    Summary,
    /// An exponential histogram.
    Exponential,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Gauge, Self::Counter, Self::Sum, Self::Histogram, Self::Summary, Self::Exponential];

    /// Which of a target's encoded labels its points take.
    pub(crate) const fn labels(self) -> usize {
        match self {
            Self::Histogram => 1,
            Self::Exponential => 2,
            _ => 0,
        }
    }

    /// Whether its points say when it began.
    #[inline]
    pub(crate) const fn has_beginning(self) -> bool {
        !matches!(self, Self::Gauge)
    }
}

/// What is remembered of a target between scrapes.
#[derive(Debug, Default)]
pub struct Memory {
    pub(crate) series: List,
    /// Their texts, as [`crate::names`] writes them.
    pub(crate) names: Vec<u8>,
    /// Attributes of the resource that the target told of itself.
    pub(crate) target_info: Vec<u8>,
    /// Whether all series were said to be gone.
    pub(crate) is_marked: bool,
}

impl Memory {
    /// What it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let texts = self.names.capacity() + self.target_info.capacity();
        (self.series.bytes() + texts) as u64
    }

    /// How many series there are: a histogram or summary is one.
    #[must_use]
    pub fn series(&self) -> usize {
        self.series.len()
    }

    /// One of which all is forgotten, after all of it was said to be gone.
    pub(crate) fn emptied() -> Self {
        Self { is_marked: true, ..Self::default() }
    }
}

/// What a point says of its series.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) hash: u64,
    /// Its name and labels, as they stand in the body.
    pub(crate) text: &'a [u8],
    pub(crate) kind: Kind,
    pub(crate) is_timed: bool,
    /// Whether its text is written in the plainest way: see [`crate::expected`].
    pub(crate) is_plain: bool,
    pub(crate) time_unix_nano: u64,
    /// The value, or count, if it is cumulative.
    pub(crate) value: Option<f64>,
    /// When it was created, if that is told.
    pub(crate) created_unix_nano: Option<u64>,
}

/// What is known of it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Of one without a beginning its time.
    pub(crate) start_unix_nano: u64,
    pub(crate) is_new: bool,
}

/// The hash of a series: of its name, and of its labels in any order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Of a name.
    #[inline]
    pub(crate) fn of_name(name: &[u8]) -> Self {
        Self(hash_of(name, 1))
    }

    /// Adds a label.
    #[inline]
    pub(crate) fn label(&mut self, name: &[u8], value: &[u8]) {
        self.0 = self.0.wrapping_add(hash_of(value, hash_of(name, 2)));
    }

    /// What was added since.
    #[inline]
    pub(crate) fn since(self, before: Self) -> u64 {
        self.0.wrapping_sub(before.0)
    }

    #[inline]
    pub(crate) fn finish(self) -> u64 {
        mix(self.0)
    }
}

#[inline]
pub(crate) fn hash_of(text: &[u8], seed: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = foldhash::fast::FixedState::with_seed(seed).build_hasher();
    hasher.write(text);
    hasher.finish()
}

/// Splitmix64's last steps.
#[inline]
const fn mix(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

#[cfg(test)]
#[path = "../tests/unit/memory.rs"]
mod tests;
