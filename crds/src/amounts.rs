//! Checked amounts: periods (`6h`), memory (`512Mi`), CPU (`500m`).
//!
//! The user's text is retained and written back unchanged; the number is computed once. Must not
//! depend on an amount's use.
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

const SECONDS_PER_DAY: u64 = 86_400;

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

impl Period {
    /// A period of whole days.
    pub(crate) fn from_days(days: u16) -> Self {
        Self { text: format!("{days}d"), amount: u64::from(days) * SECONDS_PER_DAY }
    }
}

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
    /// An amount of CPU as Kubernetes writes it.
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
        "d" => SECONDS_PER_DAY,
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
    let (cores, fraction) = text.split_once('.').unwrap_or((text, ""));
    let thousandths = format!("{fraction:0<3}").parse::<u64>().ok()?;
    cores.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(thousandths)
}

#[cfg(test)]
mod tests;
