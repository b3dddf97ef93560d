//! Collects the lines of histograms and summaries: one point for each set of labels.
//!
//! Most exporters write all lines of a point consecutively. Some write all buckets of a family
//! first, then all sums. So a point is written when it is complete and another one's line follows,
//! or at the end of the family.

use crate::limits::{FaultKind, GROUPS_BYTES_MAX, GROUPS_MAX};

/// The bytes of an open point without its texts and pairs.
const GROUP_BYTES: usize = 256;

/// A histogram or summary that is being collected.
#[derive(Debug, Default)]
pub(crate) struct SeriesGroup {
    /// The hash of its labels without `le` or `quantile`.
    pub(crate) hash: u64,
    /// The name and labels of its first line.
    pub(crate) text: Vec<u8>,
    /// Its encoded attributes.
    pub(crate) attributes: Vec<u8>,
    /// Bounds and cumulative counts; or quantiles and values.
    pub(crate) pairs: Vec<(f64, f64)>,
    /// Encoded exemplars, each after its length in two bytes.
    pub(crate) exemplars: Vec<u8>,
    pub(crate) count: Option<f64>,
    pub(crate) sum: Option<f64>,
    pub(crate) created_unix_nano: Option<u64>,
    pub(crate) time_unix_nano: u64,
    pub(crate) is_timed: bool,
    pub(crate) lines: u64,
}

impl SeriesGroup {
    /// Whether no further line is expected.
    fn is_complete(&self) -> bool {
        self.count.is_some() && self.sum.is_some()
    }

    /// Converts cumulative counts to counts per bucket, and adds the bucket above the last bound.
    /// Returns `false` if the counts are not integers or decrease.
    pub(crate) fn decumulate_buckets(&mut self, count: u64) -> bool {
        if self.pairs.is_empty() {
            return true;
        }
        if !self.pairs.is_sorted_by(|one, other| one.0 < other.0) {
            self.pairs.sort_by(|one, other| one.0.total_cmp(&other.0));
            if !self.pairs.is_sorted_by(|one, other| one.0 < other.0) {
                return false;
            }
        }
        if self.pairs.last().is_some_and(|last| last.0 == f64::INFINITY) {
            self.pairs.pop();
        }
        let mut below = 0;
        for (_, upto) in &mut self.pairs {
            let Some(integer) = exact_integer(*upto).filter(|integer| *integer >= below) else {
                return false;
            };
            *upto = (integer - below) as f64;
            below = integer;
        }
        let Some(above) = count.checked_sub(below) else { return false };
        self.pairs.push((f64::INFINITY, above as f64));
        true
    }

    /// Returns the count, if it is a whole number.
    pub(crate) fn exact_count(&self) -> Option<u64> {
        self.count.and_then(exact_integer)
    }

    fn held_bytes(&self) -> usize {
        GROUP_BYTES
            + self.text.len()
            + self.attributes.len()
            + self.exemplars.len()
            + self.pairs.len() * size_of::<(f64, f64)>()
    }

    fn clear(&mut self) {
        let Self { text, attributes, pairs, exemplars, .. } = std::mem::take(self);
        *self = Self { text, attributes, pairs, exemplars, ..Self::default() };
        self.text.clear();
        self.attributes.clear();
        self.pairs.clear();
        self.exemplars.clear();
    }
}

/// Returns a count that a double represents exactly.
pub(crate) fn exact_integer(value: f64) -> Option<u64> {
    /// 2^53.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)).then_some(value as u64)
}

/// The open points of a family.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    open: Vec<SeriesGroup>,
    /// The hashes of the open points, for a quick search.
    hashes: Vec<u64>,
    /// A written point, whose memory is reused.
    spare: SeriesGroup,
    bytes: usize,
    /// The index of the point of the last line.
    last: usize,
}

impl Groups {
    /// Returns the open point with these labels.
    pub(crate) fn find_group(&mut self, hash: u64) -> Option<&mut SeriesGroup> {
        // Usually it is the point of the last line, or the next one.
        let near = [self.last, self.last + 1];
        let near = near.into_iter().find(|index| self.hashes.get(*index) == Some(&hash));
        let index = near.or_else(|| self.hashes.iter().position(|known| *known == hash))?;
        self.last = index;
        self.open.get_mut(index)
    }

    /// Opens a point.
    pub(crate) fn open_group(&mut self, hash: u64) -> Result<&mut SeriesGroup, FaultKind> {
        if self.open.len() == GROUPS_MAX {
            return Err(FaultKind::OpenGroups);
        }
        self.bytes += GROUP_BYTES;
        let mut group = std::mem::take(&mut self.spare);
        group.hash = hash;
        self.last = self.open.len();
        self.hashes.push(hash);
        self.open.push(group);
        self.open.last_mut().ok_or(FaultKind::OpenGroups)
    }

    /// Returns a point that is not open, whose memory may be reused.
    pub(crate) fn take_spare(&mut self) -> SeriesGroup {
        std::mem::take(&mut self.spare)
    }

    /// Adds the bytes of a line to the total.
    pub(crate) fn charge_bytes(&mut self, bytes: usize) -> Result<(), FaultKind> {
        self.bytes += bytes;
        if self.bytes > GROUPS_BYTES_MAX { Err(FaultKind::OpenGroups) } else { Ok(()) }
    }

    /// Removes the last point if it is complete.
    pub(crate) fn take_complete(&mut self) -> Option<SeriesGroup> {
        if self.open.last().is_some_and(SeriesGroup::is_complete) { self.take_last() } else { None }
    }

    /// Removes the point that was opened last.
    pub(crate) fn take_last(&mut self) -> Option<SeriesGroup> {
        let group = self.open.pop()?;
        self.hashes.pop();
        self.bytes = self.bytes.saturating_sub(group.held_bytes());
        Some(group)
    }

    /// Returns a point whose memory may be reused.
    pub(crate) fn return_group(&mut self, mut group: SeriesGroup) {
        group.clear();
        self.spare = group;
    }

    /// Reverses the open points: [`Groups::take_last`] then removes the first one first.
    pub(crate) fn reverse_order(&mut self) {
        self.open.reverse();
        self.hashes.reverse();
    }

    /// Returns the bytes of the open points.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.hashes.clear();
        self.bytes = 0;
        self.last = 0;
    }
}
