//! A set of numbers stored as ranges: numbers sent nearly in order need a few entries, whatever
//! their count.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Numbers, as disjoint ranges that never touch. Memory grows with the number of gaps, not of
/// members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u64, u64)>", into = "Vec<(u64, u64)>")]
pub struct RangeSet {
    /// First member to one past the last.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds one number; returns `false` if it was a member.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) || number == u64::MAX {
            return false;
        }
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        match self.ranges.range_mut(..=number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => {
                self.ranges.insert(number, end);
            }
        }
        true
    }

    /// Returns whether the number is a member.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }
}

impl From<Vec<(u64, u64)>> for RangeSet {
    /// Accepts ranges in any order, even overlapping or empty ones, as a file may contain them.
    fn from(mut list: Vec<(u64, u64)>) -> Self {
        list.retain(|(start, end)| start < end);
        list.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(list.len());
        for (start, end) in list {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Self { ranges: merged.into_iter().collect() }
    }
}

impl From<RangeSet> for Vec<(u64, u64)> {
    fn from(set: RangeSet) -> Self {
        set.ranges.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Guarantee: it behaves as a plain set does, and its ranges neither touch nor overlap.
        #[test]
        fn it_is_a_set(numbers in proptest::collection::vec(0_u64..60, 0..120)) {
            let (mut ranges, mut plain) = (RangeSet::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.insert(number), plain.insert(number));
            }
            for number in 0..62 {
                prop_assert_eq!(ranges.contains(number), plain.contains(&number));
            }
            prop_assert_eq!(ranges.len(), plain.len() as u64);
            let list: Vec<_> = ranges.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].end < pair[1].start));
            let saved = Vec::<(u64, u64)>::from(ranges.clone());
            prop_assert_eq!(RangeSet::from(saved), ranges);
        }

        /// Guarantee: any list from a file becomes the set of its members.
        #[test]
        fn any_saved_list_is_read(
            list in proptest::collection::vec((0_u64..40, 0_u64..40), 0..20),
        ) {
            let set = RangeSet::from(list.clone());
            for number in 0..41 {
                let is_in = list.iter().any(|(start, end)| (*start..*end).contains(&number));
                prop_assert_eq!(set.contains(number), is_in);
            }
        }
    }
}
