//! Durations as Go writes them.

use millrace_crds::Period;

/// Units, the longer name of two with the same prefix first, in nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Returns the whole seconds of a duration such as `72h`, `1h30m0s`, or a number of nanoseconds.
pub(crate) fn parse_seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    if let Ok(nanoseconds) = text.parse::<u64>() {
        return exact_seconds(nanoseconds);
    }
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at_checked(digits)?;
        let (name, size) = UNITS.iter().find(|(name, _)| {
            // `m` must not match the beginning of `ms`.
            tail.starts_with(name) && !(*name == "m" && tail.starts_with("ms"))
        })?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*size)?)?;
        rest = tail.strip_prefix(name)?;
    }
    exact_seconds(total)
}

fn exact_seconds(nanoseconds: u64) -> Option<u64> {
    nanoseconds.is_multiple_of(1_000_000_000).then_some(nanoseconds / 1_000_000_000)
}

/// Returns the seconds in the largest unit that divides them; `None` for 0, or more than a period
/// allows.
pub(crate) fn to_period(seconds: u64) -> Option<Period> {
    let (unit, size) = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)]
        .into_iter()
        .find(|(_, size)| seconds.is_multiple_of(*size))?;
    format!("{}{unit}", seconds / size).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{parse_seconds, to_period};

    /// Scenario: durations that Go's parser accepts, and texts that it doesn't. Guarantee: the same
    /// time as a period, in the largest unit; nothing for the others.
    #[test]
    fn times_of_go_become_periods() {
        let read = |text: &str| parse_seconds(text).and_then(to_period).map(String::from);
        for (text, becomes) in [
            ("72h", Some("3d")),
            ("36h", Some("36h")),
            ("1h30m", Some("90m")),
            ("720h0m0s", Some("30d")),
            ("90s", Some("90s")),
            ("60000ms", Some("1m")),
            ("0", None),
            ("1500ms", None),
            ("3d", None),
            ("h", None),
            ("soon", None),
        ] {
            assert_eq!(read(text).as_deref(), becomes, "{text}");
        }
    }
}
