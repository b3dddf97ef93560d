//! How long rows are retained: a checked span of time, parsed from the user's text. No clock, no
//! SQL.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// The longest accepted time to live: 100 years of 365 days. A longer one is a typing error, and
/// ClickHouse's `DateTime` (32 bits of seconds) would wrap around long before it.
pub const TTL_SECONDS_MAX: u64 = 100 * 365 * DAY_SECONDS;

const MINUTE_SECONDS: u64 = 60;
const HOUR_SECONDS: u64 = 60 * MINUTE_SECONDS;
const DAY_SECONDS: u64 = 24 * HOUR_SECONDS;
const WEEK_SECONDS: u64 = 7 * DAY_SECONDS;

/// How long a row is retained after its own timestamp; whole seconds, 1 s to 100 years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(NonZeroU64);

/// The coarsest unit that divides a [`Ttl`], for rendering its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TtlUnit {
    Second,
    Minute,
    Hour,
    Day,
}

/// Why a text is not a time to live.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TtlError {
    /// Not a sequence of number and unit.
    #[error("{0:?} is not a time to live: write a number and a unit (s, m, h, d, w), such as 30d")]
    Malformed(String),
    /// Longer than [`TTL_SECONDS_MAX`].
    #[error("{0:?} is longer than 100 years: write a shorter time to live, or 0s to keep rows")]
    TooLong(String),
}

impl Ttl {
    /// Returns a time to live of whole seconds; `None` for 0 or for more than [`TTL_SECONDS_MAX`].
    #[must_use]
    pub fn from_seconds(seconds: u64) -> Option<Self> {
        NonZeroU64::new(seconds).filter(|_| seconds <= TTL_SECONDS_MAX).map(Self)
    }

    /// Returns the span in seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0.get()
    }

    /// Parses `30d`, `1d12h`, `90m`, `0s`. Zero, in any unit, is `Ok(None)`: rows are retained for
    /// ever.
    ///
    /// # Errors
    /// The text is malformed, or means more than 100 years.
    pub fn parse_optional(text: &str) -> Result<Option<Self>, TtlError> {
        let seconds = parse_seconds(text)?;
        if seconds == 0 {
            return Ok(None);
        }
        Self::from_seconds(seconds).map(Some).ok_or_else(|| TtlError::TooLong(text.to_owned()))
    }

    /// Returns the count and the coarsest unit that express it exactly.
    pub(crate) fn in_units(self) -> (u64, TtlUnit) {
        let seconds = self.seconds();
        for (unit_seconds, unit) in [
            (DAY_SECONDS, TtlUnit::Day),
            (HOUR_SECONDS, TtlUnit::Hour),
            (MINUTE_SECONDS, TtlUnit::Minute),
        ] {
            if seconds.is_multiple_of(unit_seconds) {
                return (seconds / unit_seconds, unit);
            }
        }
        (seconds, TtlUnit::Second)
    }
}

/// Returns the seconds of an interval in the server's spelling, such as `toIntervalDay(30)`; `None`
/// for any other text, and for months, whose length varies.
pub(crate) fn interval_seconds(text: &str) -> Option<u64> {
    let (unit, count) = text.strip_prefix("toInterval")?.split_once('(')?;
    let count: u64 = count.strip_suffix(')')?.parse().ok()?;
    let unit_seconds = match unit {
        "Second" => 1,
        "Minute" => MINUTE_SECONDS,
        "Hour" => HOUR_SECONDS,
        "Day" => DAY_SECONDS,
        "Week" => WEEK_SECONDS,
        _ => return None,
    };
    count.checked_mul(unit_seconds)
}

fn parse_seconds(text: &str) -> Result<u64, TtlError> {
    let malformed = || TtlError::Malformed(text.to_owned());
    let too_long = || TtlError::TooLong(text.to_owned());
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
        let count: u64 = match &rest[..digits] {
            "" => return Err(malformed()),
            number => number.parse().map_err(|_| too_long())?,
        };
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let unit_seconds = match &after[..letters] {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => MINUTE_SECONDS,
            "h" | "hour" | "hours" => HOUR_SECONDS,
            "d" | "day" | "days" => DAY_SECONDS,
            "w" | "week" | "weeks" => WEEK_SECONDS,
            _ => return Err(malformed()),
        };
        let seconds = count.checked_mul(unit_seconds).ok_or_else(too_long)?;
        total = total.checked_add(seconds).ok_or_else(too_long)?;
        rest = after[letters..].trim_start();
    }
    Ok(total)
}

impl FromStr for Ttl {
    type Err = TtlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_optional(text)?.ok_or_else(|| TtlError::Malformed(text.to_owned()))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = self.in_units();
        let letter = match unit {
            TtlUnit::Second => 's',
            TtlUnit::Minute => 'm',
            TtlUnit::Hour => 'h',
            TtlUnit::Day => 'd',
        };
        write!(f, "{count}{letter}")
    }
}

#[cfg(test)]
mod tests;
