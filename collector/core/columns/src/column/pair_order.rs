//! Sorts the pairs of a map by their keys.
//!
//! Readers identify a series by a hash of its maps, which depends on the order of the pairs.
//! Senders list the attributes of one series in any order, so the maps of metrics are sorted:
//! otherwise one series would have as many identities as orders, and a rate would lose the increase
//! at each change of identity. Pairs with equal keys stay in the order sent.
//!
//! Points of one metric list their keys in one order, so the order of a sequence of keys is
//! remembered: a row with sorted keys costs a comparison, any other row a copy of its values.

use crate::column::strings::Reorder;
use crate::column::{Dictionary, Strings};
use crate::reuse;

/// The number of sequences of keys with a slot for their order: the metrics of one kind that a
/// sender has.
const SLOTS: usize = 16;

/// The longest sequence with its own slot; longer ones share the first. At 4 and 2 bytes a key all
/// slots but that one take 6 KiB at most.
const SHORT: usize = 64;

/// The order of one sequence of keys.
#[derive(Default)]
struct KeyOrder {
    /// The keys' indexes in the dictionary, in the order sent.
    keys: Vec<u32>,
    /// Positions in `keys` in the order of the keys' bytes; empty if the keys were sent in that
    /// order.
    positions: Vec<u16>,
}

#[derive(Default)]
pub(crate) struct PairOrder {
    slots: [KeyOrder; SLOTS],
    scratch: Reorder,
}

impl PairOrder {
    /// Sorts the pairs from key `first_key` of `keys` and from byte `first_byte` of `values` on.
    #[inline]
    pub(crate) fn sort(
        &mut self,
        (keys, first_key): (&mut Dictionary, usize),
        (values, first_byte): (&mut Strings, usize),
    ) {
        let row = keys.indexes_from(first_key);
        let slot = slot_of(row);
        if self.slots[slot].keys != row {
            self.slots[slot].learn(row, keys);
        }
        if !self.slots[slot].positions.is_empty() {
            self.apply(slot, keys.indexes_from_mut(first_key), (values, first_byte));
        }
    }

    /// Puts the keys and values of a row in the order of `slot`.
    #[inline(never)]
    fn apply(
        &mut self,
        slot: usize,
        indexes: &mut [u32],
        (values, first_byte): (&mut Strings, usize),
    ) {
        let KeyOrder { keys, positions } = &self.slots[slot];
        for (index, &position) in indexes.iter_mut().zip(positions) {
            *index = keys[usize::from(position)];
        }
        values.reorder_from(first_byte, positions, &mut self.scratch);
    }

    /// Drops all orders and retains memory: the dictionary gives its indexes to other keys.
    pub(crate) fn clear(&mut self) {
        for KeyOrder { keys, positions } in &mut self.slots {
            reuse::clear(keys);
            reuse::clear(positions);
        }
        self.scratch.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let slots = self.slots.iter();
        let slots: usize =
            slots.map(|slot| slot.keys.capacity() * 4 + slot.positions.capacity() * 2).sum();
        slots + self.scratch.memory_bytes()
    }
}

/// Returns the slot of a sequence by its length and ends, which distinguish most sequences of a
/// sender.
#[inline]
fn slot_of(row: &[u32]) -> usize {
    match row {
        [first, .., last] if row.len() <= SHORT => {
            let mixed = first.wrapping_mul(5).wrapping_add(last.wrapping_mul(3));
            (mixed as usize).wrapping_add(row.len()) % SLOTS
        }
        _ => 0,
    }
}

impl KeyOrder {
    #[inline(never)]
    fn learn(&mut self, row: &[u32], keys: &Dictionary) {
        self.keys.clear();
        self.keys.extend_from_slice(row);
        self.positions.clear();
        // The maximum `ATTRIBUTES` of a set fits in 16 bits.
        self.positions.extend((0_u16..).take(row.len()));
        self.positions.sort_by_key(|&position| keys.get(row[usize::from(position)]));
        if self.positions.is_sorted() {
            self.positions.clear();
        }
    }
}

#[cfg(test)]
mod tests;
