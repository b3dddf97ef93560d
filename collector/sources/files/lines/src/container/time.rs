//! Parses times as container runtimes write them (RFC 3339 with up to nine digits of a second), and
//! as applications do (with less care, or as numbers).

const SECONDS_PER_DAY: u64 = 86_400;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Days from the first of March of year 0 to the first day of 1970.
const DAYS_TO_1970: u64 = 719_468;
/// Years that fit into signed nanoseconds since 1970, the type that readers use.
const YEARS: std::ops::Range<u64> = 1970..2262;
/// The end of those years: the first of January of 2262, after 106,651 days.
const NANOS_END: u64 = 106_651 * SECONDS_PER_DAY * NANOS_PER_SECOND;
/// The length of `YYYY-MM-DDTHH:MM:SS`.
const SECONDS_END: usize = 19;

/// Parses a time at the beginning of `text`: returns nanoseconds since 1970, and what follows. None
/// outside 1970 to 2261.
#[inline]
pub(crate) fn parse_rfc3339(text: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = text.split_first_chunk::<SECONDS_END>()?;
    if head[10] | 0x20 != b't' {
        return None;
    }
    let seconds = parse_seconds(head)?;
    let (nanos, rest) = parse_fraction(rest)?;
    let (offset_seconds, rest) = parse_offset(rest)?;
    Some((unix_nanos(seconds, offset_seconds, nanos)?, rest))
}

/// Parses a complete text, also with a space instead of the `T`, a comma instead of the point, and
/// an offset without colon, after a space, or absent (UTC).
pub(crate) fn parse_lenient(text: &[u8]) -> Option<u64> {
    let (head, rest) = text.split_first_chunk::<SECONDS_END>()?;
    if !matches!(head[10], b'T' | b't' | b' ') {
        return None;
    }
    let seconds = parse_seconds(head)?;
    let (nanos, rest) = match rest {
        [b',', ..] => parse_nano_digits(&rest[1..])?,
        _ => parse_fraction(rest)?,
    };
    let offset_seconds = match rest.strip_prefix(b" ").unwrap_or(rest) {
        [] if rest.is_empty() => 0,
        rest => match parse_any_offset(rest)? {
            (offset_seconds, []) => offset_seconds,
            _ => return None,
        },
    };
    unix_nanos(seconds, offset_seconds, nanos)
}

/// Parses an offset with or without a colon, and returns what follows.
pub(crate) fn parse_any_offset(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [sign @ (b'+' | b'-'), h1, h2, m1, m2, rest @ ..] if *m1 != b':' => {
            let (offset_seconds, _) = parse_offset(&[*sign, *h1, *h2, b':', *m1, *m2])?;
            Some((offset_seconds, rest))
        }
        _ => parse_offset(text),
    }
}

/// Parses a complete text: a number with up to `digits` decimals, of units of 10^`digits`
/// nanoseconds.
pub(crate) fn parse_number(text: &[u8], digits: usize) -> Option<u64> {
    let (integer, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    let is_long = fraction.len() > digits || fraction.is_empty() && integer.len() < text.len();
    if integer.is_empty() || is_long {
        return None;
    }
    let padding = std::iter::repeat_n(&b'0', digits - fraction.len());
    let mut nanos = 0_u64;
    for byte in integer.iter().chain(fraction).chain(padding) {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        nanos = nanos.checked_mul(10)?.checked_add(digit)?;
    }
    (nanos < NANOS_END).then_some(nanos)
}

/// Seconds since 1970 of `YYYY-MM-DDTHH:MM:SS`, with any byte instead of the `T`.
#[inline]
fn parse_seconds(head: &[u8; SECONDS_END]) -> Option<u64> {
    let marks = [head[4], head[7], head[13], head[16]];
    if marks != [b'-', b'-', b':', b':'] {
        return None;
    }
    let year = two_digits(head, 0)? * 100 + two_digits(head, 2)?;
    let (month, day) = (two_digits(head, 5)?, two_digits(head, 8)?);
    let (hour, minute, second) =
        (two_digits(head, 11)?, two_digits(head, 14)?, two_digits(head, 17)?);
    seconds_of([year, month, day], [hour, minute, second])
}

/// Seconds since 1970 of a date and a time of day.
#[inline]
pub(crate) fn seconds_of(
    [year, month, day]: [u64; 3],
    [hour, minute, second]: [u64; 3],
) -> Option<u64> {
    // A leap second has the number 60.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !is_time || !YEARS.contains(&year) || day == 0 || day > days_of(year, month) {
        return None;
    }
    Some(days_before(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second)
}

#[inline]
pub(crate) fn unix_nanos(seconds: u64, offset_seconds: i64, nanos: u64) -> Option<u64> {
    let seconds = seconds.checked_add_signed(-offset_seconds)?;
    Some(seconds.checked_mul(NANOS_PER_SECOND)? + nanos)
}

#[inline]
fn two_digits(text: &[u8; SECONDS_END], at: usize) -> Option<u64> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

/// Parses `.` and one to nine digits, or nothing.
#[inline]
fn parse_fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    match text {
        [b'.', rest @ ..] => parse_nano_digits(rest),
        _ => Some((0, text)),
    }
}

/// Parses one to nine digits of a second as nanoseconds.
#[inline]
pub(crate) fn parse_nano_digits(parse_nano_digits: &[u8]) -> Option<(u64, &[u8])> {
    let mut nanos = 0;
    let mut count = 0;
    while let Some(digit) = parse_nano_digits.get(count).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 || count == 9 {
            break;
        }
        nanos = nanos * 10 + u64::from(digit);
        count += 1;
    }
    for _ in count..9 {
        nanos *= 10;
    }
    (count > 0).then(|| (nanos, &parse_nano_digits[count..]))
}

/// Parses `Z`, or a sign, hours and minutes, as seconds ahead of UTC.
#[inline]
fn parse_offset(text: &[u8]) -> Option<(i64, &[u8])> {
    match text {
        [b'Z' | b'z', rest @ ..] => Some((0, rest)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, rest @ ..] => {
            let digits = [h1, h2, m1, m2].map(|byte| i64::from(byte.wrapping_sub(b'0')));
            let (hours, minutes) = (digits[0] * 10 + digits[1], digits[2] * 10 + digits[3]);
            if digits.iter().any(|digit| *digit > 9) || hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60;
            Some((if *sign == b'-' { -seconds } else { seconds }, rest))
        }
        _ => None,
    }
}

fn days_of(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// The days from the first day of 1970 to this one. Years begin in March here, so that the leap day
/// is a year's last.
fn days_before(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let month = (month + 9) % 12;
    let in_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + in_year - DAYS_TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: times with and without fraction, with offsets of both signs, around leap days.
    /// Guarantee: the known nanoseconds since 1970, and the remaining text is returned.
    #[test]
    fn times_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T02:00:00.000000001+02:00", 1),
            ("2016-10-06T00:17:09.669794202Z", 1_475_713_029_669_794_202),
            ("2016-10-06t00:17:09.66z", 1_475_713_029_660_000_000),
            ("2024-02-29T23:59:59.5-01:30", 1_709_256_599_500_000_000),
            ("2000-03-01T00:00:00Z", 951_868_800_000_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000_000),
            ("2261-12-31T23:59:59.999999999Z", 9_214_646_399_999_999_999),
        ] {
            let with_more = format!("{text} more");
            let read = parse_rfc3339(with_more.as_bytes());
            assert_eq!(read, Some((nanos, &b" more"[..])), "{text}");
        }
    }

    /// Scenario: texts that resemble a time. Guarantee: each is refused.
    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2016-10-06T00:17:0",
            "2016-10-06 00:17:09Z",
            "2016-10-06T00:17:09",
            "2016-10-06T00:17:09.Z",
            "2016-10-06T00:17:09.1234567891Z",
            "2016-10-06T24:17:09Z",
            "2016-13-06T00:17:09Z",
            "2023-02-29T00:17:09Z",
            "2016-10-00T00:17:09Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "2016-10-06T00:17:09+2:00",
            "2016-10-06T00:17:09+02:60",
            "2262-01-01T00:00:00Z",
            "2016-1\u{660}-06T00:17:09Z",
        ] {
            assert_eq!(parse_rfc3339(text.as_bytes()), None, "{text}");
        }
    }

    /// Scenario: times as applications write them, and similar texts. Guarantee: they are parsed to
    /// the nanosecond as RFC 3339 would be, or refused.
    #[test]
    fn careless_times_are_read_as_careful_ones() {
        let second = 1_475_713_029_000_000_000;
        for (text, nanos) in [
            ("2016-10-06T00:17:09Z", Some(second)),
            ("2016-10-06 00:17:09", Some(second)),
            ("2016-10-06 00:17:09,669", Some(second + 669_000_000)),
            ("2016-10-06 00:17:09.669 +0000", Some(second + 669_000_000)),
            ("2016-10-06T02:17:09.5+0200", Some(second + 500_000_000)),
            ("2016-10-06 02:17:09 +02:00", Some(second)),
            ("2016-10-06 00:17:09 Z", Some(second)),
            ("2016-10-06 00:17:09 ", None),
            ("2016-10-06 00:17:09,", None),
            ("2016-10-06_00:17:09", None),
            ("2016-10-06 00:17:09 CEST", None),
            ("2016-10-06 00:17:09+020", None),
            ("2016-10-06 00:17:09Zx", None),
        ] {
            assert_eq!(parse_lenient(text.as_bytes()), nanos, "{text}");
        }
    }

    /// Scenario: numbers of seconds and of smaller units. Guarantee: they are parsed to the last
    /// digit; more digits, another form or a later year are refused.
    #[test]
    fn numbers_are_read_to_the_last_digit() {
        for (text, digits, nanos) in [
            ("1764000000", 9, Some(1_764_000_000_000_000_000)),
            ("1764000000.123456789", 9, Some(1_764_000_000_123_456_789)),
            ("1764000000123", 6, Some(1_764_000_000_123_000_000)),
            ("1764000000123.5", 6, Some(1_764_000_000_123_500_000)),
            ("1764000000123456789", 0, Some(1_764_000_000_123_456_789)),
            ("9214646400", 9, None),
            ("9214646399.999999999", 9, Some(NANOS_END - 1)),
            ("1764000000.1234567891", 9, None),
            ("1764000000.", 9, None),
            (".5", 9, None),
            ("1.5", 0, None),
            ("-1", 9, None),
            ("1e9", 9, None),
            ("", 9, None),
            ("99999999999999999999", 9, None),
        ] {
            assert_eq!(parse_number(text.as_bytes(), digits), nanos, "{text}");
        }
    }

    /// Scenario: every day from 1970 to 2261. Guarantee: each is one day after the previous one.
    #[test]
    fn days_follow_each_other_without_a_gap() {
        let mut expected = 0;
        for year in YEARS {
            for month in 1..=12 {
                for day in 1..=days_of(year, month) {
                    assert_eq!(days_before(year, month, day), expected, "{year}-{month}-{day}");
                    expected += 1;
                }
            }
        }
    }
}
