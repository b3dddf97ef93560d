//! The hash of a series, and of text.

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
