//! Numbers for people.

/// A whole number, its thousands apart.
#[must_use]
pub fn count(number: impl Into<i128>) -> String {
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

/// A rate per second; below ten with a digit behind the point.
#[must_use]
pub fn rate(per_second: f64) -> String {
    // The cast saturates, and a NaN becomes 0.
    let whole = per_second.round() as i64;
    match per_second.abs() {
        small if small > 0.0 && small < 9.95 => format!("{per_second:.1}/s"),
        _ => format!("{}/s", count(whole)),
    }
}

/// Bytes, in the largest unit that leaves a whole part.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (size, unit) in UNITS {
        if bytes >= size {
            let value = bytes as f64 / size as f64;
            return match value < 10.0 {
                true => format!("{value:.1} {unit}"),
                false => format!("{value:.0} {unit}"),
            };
        }
    }
    format!("{bytes} B")
}

/// A time span, in its two largest units.
#[must_use]
pub fn ago(seconds: i64) -> String {
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
    use super::{ago, bytes, count, rate};

    /// Scenario: small, large and odd numbers. Guarantee: each reads as a person would write it.
    #[test]
    fn numbers_read_well() {
        assert_eq!([count(0), count(999), count(-1_234_567)], ["0", "999", "-1,234,567"]);
        assert_eq!(
            [rate(0.0), rate(0.44), rate(9.97), rate(12_345.6)],
            ["0/s", "0.4/s", "10/s", "12,346/s"]
        );
        assert_eq!([bytes(12), bytes(1_536), bytes(300 << 20)], ["12 B", "1.5 KiB", "300 MiB"]);
        let spans = [0, 59, 61, 600, 3_600, 3_660, 86_400, 90_000].map(ago);
        assert_eq!(
            spans,
            ["0 s", "59 s", "1 min 1 s", "10 min", "1 h", "1 h 1 min", "1 d", "1 d 1 h"]
        );
    }
}
