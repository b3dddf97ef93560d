//! The memory of a target's series: their identities, starts, and last values if cumulative.
//!
//! Series are stored in the order of the last body, since the next one nearly always has the same
//! order: each is compared with the expected one, and searched only if that fails. Each takes its
//! [numbers](series) and its [text](names) without what it shares with texts before:
//! `{cpu="0",mode="` is stored once.

pub(crate) mod hash;
pub(crate) mod names;
pub(crate) mod pass;
mod series;
mod start_time;

use crate::memory::series::SeriesList;
use crate::series_kind::SeriesKind;

/// The series of a target between scrapes.
#[derive(Debug, Default)]
pub struct SeriesMemory {
    pub(crate) series: SeriesList,
    /// The texts of the series, as [`crate::memory::names`] encodes them.
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
    /// Whether its text has the plainest form: see [`crate::otlp::expected`].
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

#[cfg(test)]
mod tests;
