//! The identity of a scrape target.

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
