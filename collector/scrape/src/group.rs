//! Histograms and summaries whose lines are being collected: one point for each set of labels.
//!
//! Usual exporters write the lines of one behind each other. Some write all buckets of a family
//! first, then all sums: so a point is written when it is whole and another one's line follows, or
//! at the end of the family.

use crate::limits::{FaultKind, GROUPS_BYTES_MAX, GROUPS_MAX};

/// What an open point takes beside its texts and pairs.
const GROUP_BYTES: usize = 256;

/// A histogram or summary that is being collected.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Of its labels without `le` or `quantile`.
    pub(crate) hash: u64,
    /// Name and labels of the line that was met first.
    pub(crate) text: Vec<u8>,
    /// Attributes, encoded.
    pub(crate) attributes: Vec<u8>,
    /// Bounds and counts up to them; or quantiles and values.
    pub(crate) pairs: Vec<(f64, f64)>,
    /// Contents of exemplars, each behind its length in two bytes.
    pub(crate) exemplars: Vec<u8>,
    pub(crate) count: Option<f64>,
    pub(crate) sum: Option<f64>,
    pub(crate) created_unix_nano: Option<u64>,
    pub(crate) time_unix_nano: u64,
    pub(crate) is_timed: bool,
    pub(crate) lines: u64,
}

impl Group {
    /// Whether nothing more is expected.
    fn is_whole(&self) -> bool {
        self.count.is_some() && self.sum.is_some()
    }

    /// Makes counts up to bounds counts between them, and adds what lies above the last one. False
    /// if that can't be done: no counts, or counts that fall.
    pub(crate) fn settle_buckets(&mut self, count: u64) -> bool {
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
            let Some(whole) = whole(*upto).filter(|whole| *whole >= below) else { return false };
            *upto = (whole - below) as f64;
            below = whole;
        }
        let Some(above) = count.checked_sub(below) else { return false };
        self.pairs.push((f64::INFINITY, above as f64));
        true
    }

    /// The count, if it is a whole number.
    pub(crate) fn whole_count(&self) -> Option<u64> {
        self.count.and_then(whole)
    }

    fn bytes(&self) -> usize {
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

/// A count that a double holds exactly.
pub(crate) fn whole(value: f64) -> Option<u64> {
    /// 2^53.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)).then_some(value as u64)
}

/// The open ones of a family.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    open: Vec<Group>,
    /// Hashes of those, for a quick search.
    hashes: Vec<u64>,
    /// One that was written, to be used again.
    spare: Group,
    bytes: usize,
    /// The one whose line was last.
    last: usize,
}

impl Groups {
    /// The one with these labels, if it is open.
    pub(crate) fn find(&mut self, hash: u64) -> Option<&mut Group> {
        // That of the line before, or the next one in order; or any.
        let near = [self.last, self.last + 1];
        let near = near.into_iter().find(|place| self.hashes.get(*place) == Some(&hash));
        let place = near.or_else(|| self.hashes.iter().position(|known| *known == hash))?;
        self.last = place;
        self.open.get_mut(place)
    }

    /// Opens one.
    pub(crate) fn open(&mut self, hash: u64) -> Result<&mut Group, FaultKind> {
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

    /// One whose memory may be used, which is not open.
    pub(crate) fn spare(&mut self) -> Group {
        std::mem::take(&mut self.spare)
    }

    /// Counts what a line added to one.
    pub(crate) fn grew(&mut self, bytes: usize) -> Result<(), FaultKind> {
        self.bytes += bytes;
        if self.bytes > GROUPS_BYTES_MAX { Err(FaultKind::OpenGroups) } else { Ok(()) }
    }

    /// Takes the last one if it is whole.
    pub(crate) fn take_whole(&mut self) -> Option<Group> {
        if self.open.last().is_some_and(Group::is_whole) { self.take() } else { None }
    }

    /// Takes the one that was opened last.
    pub(crate) fn take(&mut self) -> Option<Group> {
        let group = self.open.pop()?;
        self.hashes.pop();
        self.bytes = self.bytes.saturating_sub(group.bytes());
        Some(group)
    }

    /// Gives one back whose memory may be used again.
    pub(crate) fn give_back(&mut self, mut group: Group) {
        group.clear();
        self.spare = group;
    }

    /// All that are open, in order, are reversed: [`Groups::take`] gives the first one first then.
    pub(crate) fn reverse(&mut self) {
        self.open.reverse();
        self.hashes.reverse();
    }

    /// What the open ones take.
    pub(crate) fn bytes(&self) -> usize {
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
