//! Sizes in bytes, written as people write them.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A size in bytes: a plain number, or a number with `Ki`, `Mi` or `Gi` (an added `B` is allowed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a size: use bytes as a number, or with Ki, Mi or Gi, as in 512Mi")]
pub struct ByteSizeError(String);

const UNITS: [(&str, u64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];

impl ByteSize {
    /// A number of bytes.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A number of kibibytes.
    #[must_use]
    pub const fn kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// A number of mebibytes.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self(mib * 1024 * 1024)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes, as a length in memory.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl std::str::FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let error = || ByteSizeError(text.to_owned());
        let short = text.strip_suffix('B').unwrap_or(text);
        let (digits, factor) = UNITS
            .iter()
            .find_map(|(unit, factor)| Some((short.strip_suffix(unit)?, *factor)))
            .unwrap_or((text, 1));
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(error());
        }
        let number: u64 = digits.parse().map_err(|_| error())?;
        number.checked_mul(factor).map(Self).ok_or_else(error)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, factor)| self.0 != 0 && self.0.is_multiple_of(*factor));
        match unit {
            Some((unit, factor)) => write!(f, "{}{unit}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.to_string();
        match text.parse::<u64>() {
            Ok(number) => serializer.serialize_u64(number),
            Err(_) => serializer.serialize_str(&text),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = ByteSize;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size: bytes as a number, or with Ki, Mi or Gi, as in 512Mi")
            }
            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Size)
    }
}

#[cfg(feature = "json-schema")]
impl schemars::JsonSchema for ByteSize {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "x-takes": "size"})
    }
}

#[cfg(test)]
mod tests {
    use super::ByteSize;

    /// Scenario: every way to write a size, and some that look like one. Guarantee: stated bytes.
    #[test]
    fn sizes_are_read_in_binary_units_only() {
        assert_eq!("512Mi".parse(), Ok(ByteSize::mib(512)));
        assert_eq!("4KiB".parse(), Ok(ByteSize::kib(4)));
        assert_eq!("7".parse(), Ok(ByteSize::bytes(7)));
        for bad in ["", "Mi", "1.5Gi", "1M", "-1", "18446744073709551615Gi", "1 Mi", "7B"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}
