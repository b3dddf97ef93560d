//! Parses and renders durations as Prometheus writes them: `15s`, `1m30s`, `500ms`, `1d`.

use std::time::Duration;

/// Units from the longest, in milliseconds; `true` for those that are only written without a
/// remainder.
const UNITS: [(&str, u64, bool); 7] = [
    ("y", 365 * 24 * 3_600_000, true),
    ("w", 7 * 24 * 3_600_000, true),
    ("d", 24 * 3_600_000, false),
    ("h", 3_600_000, false),
    ("m", 60_000, false),
    ("s", 1_000, false),
    ("ms", 1, false),
];

/// Parses a duration: whole numbers with units, each at most once, from the longest to the
/// shortest; or `0`. Returns `None` for other text.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut millis, mut units) = (text, 0_u64, &UNITS[..]);
    while !rest.is_empty() {
        let end = rest.find(|one: char| !one.is_ascii_digit()).filter(|end| *end > 0)?;
        let (digits, behind) = rest.split_at(end);
        let letters = behind.find(|one: char| one.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let index = units.iter().position(|(name, ..)| *name == unit)?;
        let value = digits.parse::<u64>().ok()?.checked_mul(units[index].1)?;
        millis = millis.checked_add(value)?;
        units = &units[index + 1..];
        rest = behind;
    }
    // Prometheus stores durations as signed nanoseconds.
    let is_held = !text.is_empty() && millis <= i64::MAX as u64 / 1_000_000;
    is_held.then(|| Duration::from_millis(millis))
}

/// Renders a duration, with years and weeks only if no remainder is left.
#[must_use]
pub fn render_duration(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, length, is_exact) in UNITS {
        let count = millis / length;
        if count > 0 && !(is_exact && millis % length != 0) {
            out.push_str(&format!("{count}{unit}"));
            millis -= count * length;
        }
    }
    out
}

#[cfg(test)]
mod tests;
