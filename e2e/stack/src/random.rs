//! Numbers from a seed, so that choices of a run with faults can be made again: Steele's splitmix64.

use std::time::Duration;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of a seed and a name: other names, other sequences.
    #[must_use]
    pub fn named(seed: u64, name: &str) -> Self {
        // FNV-1a: short names, nobody attacks.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 up to and without 1.
    pub fn unit(&mut self) -> f64 {
        // The upper 53 bits: what a double holds exactly.
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Whether something of this chance happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time between two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.unit())
    }

    /// One of several, or none of none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len() as u64);
        of.get(usize::try_from(at).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a seed used twice, and another name. Guarantee: the same numbers, and others.
    #[test]
    fn a_seed_gives_its_numbers_again() {
        let numbers = |name| {
            let mut random = Random::named(7, name);
            [random.number(), random.number(), random.below(10)]
        };
        assert_eq!(numbers("a"), numbers("a"));
        assert_ne!(numbers("a"), numbers("b"));
        assert!((0..1000).all(|seed| Random::new(seed).unit() < 1.0));
    }
}
