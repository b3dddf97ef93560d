//! Delays between attempts: growing, capped, and jittered so that callers that failed together
//! don't retry together.
//!
//! Pure: no clock and no sleep; the caller's seed gives the randomness.

use std::time::Duration;

/// The growth of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffPolicy {
    /// The first wait, before jitter.
    pub first: Duration,
    /// The longest wait, before jitter.
    pub longest: Duration,
}

/// The waits of one retried operation.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    tries: u32,
    random: u64,
}

impl Backoff {
    /// Returns a backoff at its first wait. Operations that may fail together should have different
    /// seeds.
    #[must_use]
    pub fn new(policy: BackoffPolicy, seed: u64) -> Self {
        Self { policy, tries: 0, random: seed }
    }

    /// The number of waits since the start or the last [`Backoff::reset`].
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns the next wait: double the one before, at most the longest, minus a random part of up
    /// to half. So it is between half of the policy's wait and all of it.
    pub fn next_wait(&mut self) -> Duration {
        let doubled = 1_u32.checked_shl(self.tries).unwrap_or(u32::MAX);
        let full = self.policy.first.saturating_mul(doubled).min(self.policy.longest);
        self.tries = self.tries.saturating_add(1);
        full.div_f64(2.0).saturating_add(full.mul_f64(self.random_unit() / 2.0)).min(full)
    }

    /// Restarts at the first wait.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// Returns a number in [0, 1), by Steele's splitmix64.
    fn random_unit(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // The upper 53 bits: a double holds them exactly.
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
