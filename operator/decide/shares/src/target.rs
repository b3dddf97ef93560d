//! Targets as the decision uses them: an identity, a job, a weight, a zone. No addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The identity of a target; it stays the same as long as the target does.
///
/// The caller derives it from all that makes a target (job, address, path, parameters) with a hash
/// that nobody can steer (16 bytes of SHA-256): targets come from annotations that anyone may
/// write, and whoever could make two ids equal could hide another's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u128);

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target id `{0}`: write 32 hexadecimal digits")]
pub struct NoId(String);

impl FromStr for TargetId {
    type Err = NoId;

    fn from_str(text: &str) -> Result<Self, NoId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = u128::from_str_radix(text, 16).ok().filter(|_| digits);
        parsed.map(Self).ok_or_else(|| NoId(text.chars().take(64).collect()))
    }
}

impl Serialize for TargetId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TargetId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

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

/// A target to assign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its job: an unmeasured target gets the median weight of its job.
    pub job: String,
    /// Its cost, if measured.
    pub weight: Option<Weight>,
    /// Its zone, if known.
    pub zone: Option<String>,
}
