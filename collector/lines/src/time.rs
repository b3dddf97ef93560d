//! Times as container runtimes write them: RFC 3339 with up to nine digits of a second.

const SECONDS_PER_DAY: u64 = 86_400;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Days from the first of March of year 0 to the first day of 1970.
const DAYS_TO_1970: u64 = 719_468;
/// Years that fit into nanoseconds since 1970 with a sign: readers take them for signed.
const YEARS: std::ops::Range<u64> = 1970..2262;
/// `YYYY-MM-DDTHH:MM:SS`.
const SECONDS_END: usize = 19;

/// Reads a time at the beginning of `text`: nanoseconds since 1970, and what is behind it. None if
/// there is none, or none within 1970 to 2261.
#[inline]
pub(crate) fn parse(text: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = text.split_first_chunk::<SECONDS_END>()?;
    let marks = [head[4], head[7], head[10] | 0x20, head[13], head[16]];
    if marks != [b'-', b'-', b't', b':', b':'] {
        return None;
    }
    let year = two(head, 0)? * 100 + two(head, 2)?;
    let (month, day) = (two(head, 5)?, two(head, 8)?);
    let (hour, minute, second) = (two(head, 11)?, two(head, 14)?, two(head, 17)?);
    // A leap second has the number 60.
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !is_time || !YEARS.contains(&year) || day == 0 || day > days_of(year, month) {
        return None;
    }
    let (nanos, rest) = fraction(rest)?;
    let (offset_seconds, rest) = offset(rest)?;
    let seconds =
        days_before(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second;
    let seconds = seconds.checked_add_signed(-offset_seconds)?;
    Some((seconds.checked_mul(NANOS_PER_SECOND)? + nanos, rest))
}

#[inline]
fn two(text: &[u8; SECONDS_END], at: usize) -> Option<u64> {
    let (tens, ones) = (text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

/// `.` and one to nine digits, or nothing.
#[inline]
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some((b'.', digits)) = text.split_first() else { return Some((0, text)) };
    let mut nanos = 0;
    let mut count = 0;
    while let Some(digit) = digits.get(count).map(|byte| byte.wrapping_sub(b'0')) {
        if digit > 9 || count == 9 {
            break;
        }
        nanos = nanos * 10 + u64::from(digit);
        count += 1;
    }
    for _ in count..9 {
        nanos *= 10;
    }
    (count > 0).then(|| (nanos, &digits[count..]))
}

/// `Z`, or a sign, hours and minutes: seconds ahead of UTC.
#[inline]
fn offset(text: &[u8]) -> Option<(i64, &[u8])> {
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

/// Days between the first day of 1970 and this one. Years begin in March here, so that the leap day
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
    /// Guarantee: nanoseconds since 1970 as known, and what follows is left.
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
            let read = parse(with_more.as_bytes());
            assert_eq!(read, Some((nanos, &b" more"[..])), "{text}");
        }
    }

    /// Scenario: what is nearly a time. Guarantee: none is taken for one.
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
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    /// Scenario: every day from 1970 to 2261. Guarantee: each is one day after the one before.
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
