//! Seeds that differ between processes. Process ids don't: in containers all are 1, and many nodes
//! that wait by equal seeds retry at the same moment.

use std::hash::{BuildHasher, RandomState};

/// Returns a seed from the system's source of randomness.
#[must_use]
pub fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests;
