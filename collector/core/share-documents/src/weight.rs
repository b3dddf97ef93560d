//! The cost of a scrape target.

use serde::{Deserialize, Serialize};

/// A target's cost for its pod, in thousandths of a sample per second. At least 1, so that no
/// target is free, and bounded, so that a million of them add up in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Weight(u64);

impl Weight {
    /// A billion samples per second; 2^20 such targets stay below 2^60.
    pub const MAX: Self = Self(1_000_000_000_000);
    /// The weight when no target is measured: 1,000 samples a minute, about a node exporter.
    pub const UNKNOWN: Self = Self(16_667);
    /// The series that each scrape adds (`up` and four `scrape_*`), and so its minimum cost.
    const OF_EACH_SCRAPE: u64 = 5;

    /// Creates a weight, clamped to its range.
    #[must_use]
    pub fn new(millisamples_per_second: u64) -> Self {
        Self(millisamples_per_second.clamp(1, Self::MAX.0))
    }

    /// Returns the weight for the samples of a target's last successful scrape. A failed scrape
    /// does not show what the target costs once it recovers.
    #[must_use]
    pub fn of_scrape(samples: u64, interval_seconds: u32) -> Self {
        let milli = samples.saturating_add(Self::OF_EACH_SCRAPE).saturating_mul(1_000);
        Self::new(milli / u64::from(interval_seconds.max(1)))
    }

    /// Returns thousandths of a sample per second.
    #[must_use]
    pub fn milli(self) -> u64 {
        self.0
    }
}

impl From<u64> for Weight {
    fn from(milli: u64) -> Self {
        Self::new(milli)
    }
}

impl From<Weight> for u64 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}
