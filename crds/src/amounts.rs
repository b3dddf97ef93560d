//! Checked amounts: periods (`6h`), memory (`512Mi`), CPU (`500m`).
//!
//! The user's text is kept and written back unchanged; the number is computed once. Must not know
//! what an amount is for.
//!
//! Limits: periods up to 99,999 of a unit (273 years of days), memory up to 9,999 TiB.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex_lite::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::names::{InvalidText, checked_schema, compiled};

macro_rules! checked_amount {
    (
        $(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $pattern:expr, $says:literal,
        $(#[$unit_doc:meta])* $unit:ident, $read:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            text: String,
            amount: u64,
        }

        impl $name {
            /// Longest text allowed, in bytes.
            pub const MAX_LENGTH: usize = $max;

            pub(crate) const PATTERN: &'static str = $pattern;

            $(#[$unit_doc])*
            pub fn $unit(&self) -> u64 {
                self.amount
            }

            /// The text as the user wrote it.
            pub fn as_str(&self) -> &str {
                &self.text
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidText;

            fn try_from(text: String) -> Result<Self, InvalidText> {
                static CHECK: LazyLock<Option<Regex>> = LazyLock::new(|| compiled($name::PATTERN));
                let read: fn(&str) -> Option<u64> = $read;
                CHECK
                    .as_ref()
                    .filter(|check| text.len() <= Self::MAX_LENGTH && check.is_match(&text))
                    .and_then(|_| read(&text))
                    .map(|amount| Self { text: text.clone(), amount })
                    .ok_or_else(|| InvalidText::new(&text, $what, $says))
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;

            fn from_str(text: &str) -> Result<Self, InvalidText> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(amount: $name) -> Self {
                amount.text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.text)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                checked_schema(Self::MAX_LENGTH, Self::PATTERN, $says)
            }
        }
    };
}

checked_amount!(
    /// A period of time: a whole number and one of `s`, `m`, `h`, `d`.
    Period,
    "period",
    16,
    "^[1-9][0-9]{0,4}[smhd]$",
    "write a whole number and a unit: s, m, h or d, for example 6h or 30d",
    /// Length in seconds, 1 to 8,639,913,600.
    seconds,
    read_period
);

checked_amount!(
    /// An amount of memory as Kubernetes writes it.
    MemoryQuantity,
    "amount of memory",
    16,
    // So few digits before each unit that the largest amount is below 2^50 bytes.
    "^[1-9][0-9]{0,3}([0-9]{0,10}|[0-9]{0,7}(Ki|k)|[0-9]{0,4}(Mi|M)|[0-9]{0,2}(Gi|G)|(Ti|T))$",
    "write a whole number and a unit, for example 512Mi or 4Gi",
    /// Size in bytes.
    bytes,
    read_memory
);

checked_amount!(
    /// An amount of processor time as Kubernetes writes it.
    CpuQuantity,
    "amount of processor time",
    8,
    "^([1-9][0-9]{0,5}m|[1-9][0-9]{0,3}([.][0-9]{1,3})?|0[.](0[1-9]|00[1-9]|[1-9])[0-9]{0,2})$",
    "write cores or thousandths of a core in quotes, for example \"2\", \"0.5\" or \"500m\"",
    /// Thousandths of a core.
    millicores,
    read_cpu
);

fn read_period(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(seconds)
}

fn read_memory(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let bytes: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    // Kubernetes itself counts in a signed 64-bit number.
    let total = number.parse::<u64>().ok()?.checked_mul(bytes)?;
    i64::try_from(total).ok().map(|_| total)
}

fn read_cpu(text: &str) -> Option<u64> {
    if let Some(thousandths) = text.strip_suffix('m') {
        return thousandths.parse().ok();
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let thousandths = format!("{fraction:0<3}").parse::<u64>().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: each unit. Guarantee: the number of seconds is exact, the text is kept.
    #[test]
    fn a_period_is_counted_in_seconds() {
        for (text, seconds) in [("1s", 1), ("90m", 5_400), ("6h", 21_600), ("30d", 2_592_000)] {
            let period = text.parse::<Period>().unwrap();
            assert_eq!(period.seconds(), seconds);
            assert_eq!(period.to_string(), text);
        }
        for bad in ["", "6", "6 h", "0h", "6w", "-1d", "1h30m", "100000d"] {
            assert!(bad.parse::<Period>().is_err(), "{bad}");
        }
    }

    /// Scenario: binary and decimal units. Guarantee: bytes as Kubernetes counts them.
    #[test]
    fn memory_is_counted_in_bytes() {
        for (text, bytes) in [("256Mi", 256 << 20), ("4Gi", 4 << 30), ("1M", 1_000_000), ("7", 7)] {
            assert_eq!(text.parse::<MemoryQuantity>().unwrap().bytes(), bytes);
        }
        for bad in ["", "0", "4GB", "1.5Gi", "4 Gi", "Mi", "999999999999Ti"] {
            assert!(bad.parse::<MemoryQuantity>().is_err(), "{bad}");
        }
    }

    /// Scenario: cores, fractions and thousandths. Guarantee: thousandths of a core.
    #[test]
    fn processor_time_is_counted_in_thousandths() {
        for (text, expected) in
            [("1", 1_000), ("0.5", 500), ("0.05", 50), ("1.25", 1_250), ("250m", 250)]
        {
            assert_eq!(text.parse::<CpuQuantity>().unwrap().millicores(), expected);
        }
        for bad in ["", "0", "0.0", "m", "1.2345", "two", "-1"] {
            assert!(bad.parse::<CpuQuantity>().is_err(), "{bad}");
        }
    }
}
