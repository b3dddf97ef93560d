//! Numbers from a seed (Steele's splitmix64), and choices by weight: what makes a run repeatable.

/// A sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each session of a seed, and for its warm-up.
    pub(crate) fn of(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed ^ stream.wrapping_mul(0xd605_bbb5_8c8a_bc2d));
        mixed.number();
        Self(mixed.number())
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 up to and without 1: the upper 53 bits, what a double holds exactly.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Below `end`, which is at least 1: the upper half of a product, so without a division.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.number()) * end as u128) >> 64) as usize
    }

    /// True that often; nought and one draw no number.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.unit() < probability)
    }
}

/// Choices, each as likely as its weight is of their sum.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    /// The sums up to and with each.
    sums: Vec<u64>,
}

impl Weights {
    /// Nothing, if there are no weights or all are nought.
    pub(crate) fn new(weights: impl IntoIterator<Item = u32>) -> Option<Self> {
        let mut sum = 0;
        let sums: Vec<u64> = weights
            .into_iter()
            .map(|weight| {
                sum += u64::from(weight);
                sum
            })
            .collect();
        (sum > 0).then_some(Self { sums })
    }

    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        let total = self.sums.last().copied().unwrap_or(1);
        let at = random.below(total as usize) as u64;
        self.sums.partition_point(|sum| *sum <= at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Scenario: any weights, picked from 20,000 times. Guarantee: each choice comes as often
        /// as its weight says, within five standard deviations; those of no weight never.
        #[test]
        fn choices_come_as_often_as_they_weigh(
            weights in prop::collection::vec(0_u32..50, 1..8), seed: u64,
        ) {
            let sum: u32 = weights.iter().sum();
            let Some(choices) = Weights::new(weights.iter().copied()) else {
                prop_assert_eq!(sum, 0);
                return Ok(());
            };
            let mut random = Random::of(seed, 0);
            let mut counts = vec![0_u32; weights.len()];
            const PICKS: u32 = 20_000;
            for _ in 0..PICKS {
                counts[choices.pick(&mut random)] += 1;
            }
            for (count, weight) in counts.iter().zip(&weights) {
                let share = f64::from(*weight) / f64::from(sum);
                let expected = f64::from(PICKS) * share;
                let deviation = (expected * (1.0 - share)).sqrt();
                prop_assert!((f64::from(*count) - expected).abs() <= 5.0 * deviation);
            }
        }

        /// Scenario: a seed and a stream twice, and another stream. Guarantee: the same numbers,
        /// and others; all below their bound.
        #[test]
        fn a_seed_gives_its_numbers_again(seed: u64, stream: u64, end in 1_usize..1000) {
            let numbers = |stream| {
                let mut random = Random::of(seed, stream);
                [random.number(), random.number(), random.below(end) as u64]
            };
            prop_assert_eq!(numbers(stream), numbers(stream));
            prop_assert_ne!(numbers(stream), numbers(stream.wrapping_add(1)));
            prop_assert!(numbers(stream)[2] < end as u64);
        }
    }
}
