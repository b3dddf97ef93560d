//! Numbers from a seed, so that a run's choices can be made again: Steele's splitmix64.

use std::time::Duration;

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
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

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Whether something of this chance happens.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time between two, to the millisecond.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_millis();
        least + Duration::from_millis(self.below(u64::try_from(span).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// Scenario: a seed used twice, and another name. Guarantee: the same numbers, and others.
    #[test]
    fn a_seed_gives_its_numbers_again() {
        let numbers = |name| {
            let mut random = Random::named(7, name);
            [random.number(), random.number(), random.below(10)]
        };
        assert_eq!(numbers("a"), numbers("a"));
        assert_ne!(numbers("a"), numbers("b"));
    }
}
