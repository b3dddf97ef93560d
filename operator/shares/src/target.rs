//! Targets as the decision sees them: an identity, a job, a weight, a zone. No addresses here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What tells a target from all others, and stays the same as long as the target does.
///
/// The caller makes it of all that makes a target (job, address, path, parameters) with a hash that
/// nobody can steer (16 bytes of SHA-256): targets come from annotations that anyone may write, and
/// whoever could make two ids equal could hide another's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u128);

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is no id.
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

/// What a target costs its pod, in thousandths of a sample per second. At least 1, so that no
/// target is free, and bounded, so that a million of them add up in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Weight(u64);

impl Weight {
    /// A billion samples per second; 2^20 such targets stay below 2^60.
    pub const MAX: Self = Self(1_000_000_000_000);
    /// A target of which nothing is measured, nor of any other: 1,000 samples a minute, about a
    /// node exporter.
    pub const UNKNOWN: Self = Self(16_667);
    /// Series that each scrape has of itself (`up` and four `scrape_*`), and so the least it costs.
    const OF_EACH_SCRAPE: u64 = 5;

    /// Of so many thousandths of a sample per second.
    #[must_use]
    pub fn new(millisamples_per_second: u64) -> Self {
        Self(millisamples_per_second.clamp(1, Self::MAX.0))
    }

    /// Of the samples of a target's last successful scrape. One that failed says nothing of what
    /// the target costs once it is back.
    #[must_use]
    pub fn of_scrape(samples: u64, interval_seconds: u32) -> Self {
        let milli = samples.saturating_add(Self::OF_EACH_SCRAPE).saturating_mul(1_000);
        Self::new(milli / u64::from(interval_seconds.max(1)))
    }

    /// In thousandths of a sample per second.
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

/// A target to be shared out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its job: where it is not measured, it is taken for the median of its job.
    pub job: String,
    /// What it costs, where that was measured.
    pub weight: Option<Weight>,
    /// Where it runs, if that is known.
    pub zone: Option<String>,
}
