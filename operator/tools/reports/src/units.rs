//! Formats numbers for people.

/// Formats a whole number with separated thousands.
#[must_use]
pub fn format_count(number: impl Into<i128>) -> String {
    let number: i128 = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// Formats a number with its noun, in the singular for 1.
#[must_use]
pub fn format_plural(number: impl Into<i128>, noun: &str) -> String {
    match number.into() {
        1 => format!("1 {noun}"),
        number => format!("{} {noun}s", format_count(number)),
    }
}

/// Formats a rate per second; below ten with one decimal.
#[must_use]
pub fn format_rate(per_second: f64) -> String {
    // The cast saturates, and a NaN becomes 0.
    let rounded = per_second.round() as i64;
    match per_second.abs() {
        small if small > 0.0 && small < 9.95 => format!("{per_second:.1}/s"),
        _ => format!("{}/s", format_count(rounded)),
    }
}

/// Formats bytes, in the largest unit of which there is at least one.
#[must_use]
pub fn format_bytes(format_bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if format_bytes >= size {
            let value = format_bytes as f64 / size as f64;
            return match value < 10.0 {
                true => format!("{value:.1} {unit}"),
                false => format!("{value:.0} {unit}"),
            };
        }
    }
    format!("{format_bytes} B")
}

/// Formats a duration, in its two largest units.
#[must_use]
pub fn format_duration(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours) = (seconds / 86_400, seconds % 86_400 / 3_600);
    let (minutes, rest) = (seconds % 3_600 / 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) if minutes >= 10 || rest == 0 => format!("{minutes} min"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, 0) => format!("{hours} h"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        (_, 0, _) => format!("{days} d"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::{format_bytes, format_count, format_duration, format_rate};

    /// Scenario: small, large and odd numbers. Guarantee: each reads as a person would write it.
    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [format_count(0), format_count(999), format_count(-1_234_567)],
            ["0", "999", "-1,234,567"]
        );
        assert_eq!(
            [format_rate(0.0), format_rate(0.44), format_rate(9.97), format_rate(12_345.6)],
            ["0/s", "0.4/s", "10/s", "12,346/s"]
        );
        assert_eq!(
            [format_bytes(12), format_bytes(1_536), format_bytes(300 << 20)],
            ["12 B", "1.5 KiB", "300 MiB"]
        );
        let spans = [0, 59, 61, 600, 3_600, 3_660, 86_400, 90_000].map(format_duration);
        assert_eq!(
            spans,
            ["0 s", "59 s", "1 min 1 s", "10 min", "1 h", "1 h 1 min", "1 d", "1 d 1 h"]
        );
    }
}
