//! Payment card numbers.

const DIGITS_MIN: usize = 14;
const DIGITS_MAX: usize = 19;

/// How issuers print numbers in groups: most, American Express, Diners Club, and 19 digits.
const GROUPINGS: [&[usize]; 4] = [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4]];

/// The most bytes that are read at groups: those of each grouping.
const STEPS_MAX: usize = 4 * (DIGITS_MAX + 4);

/// The end of the card number in one piece that begins at `start`, a run of 14 digits at least.
///
/// A number is bounded by other characters than letters and digits, is no part of a decimal
/// fraction, has the beginning and length of an issuer, and Luhn's check digit.
pub(in crate::redact) fn run_end(text: &[u8], start: usize) -> Option<usize> {
    crate::redact::steps::count(DIGITS_MAX + 1);
    let digits = text[start..].iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit());
    let end = start + digits.count();
    let is_bounded = begins_number(text, start, false) && ends_number(text, end);
    let is_long = (DIGITS_MIN..=DIGITS_MAX).contains(&(end - start));
    (is_long && is_bounded && is_card(&text[start..end])).then_some(end)
}

/// The end of the card number in groups that begins at `start`: four digits, a separator and four
/// digits at least.
pub(in crate::redact) fn groups_end(text: &[u8], start: usize) -> Option<usize> {
    let separator = *text.get(start + 4)?;
    if !matches!(separator, b' ' | b'-' | b'.') || !begins_number(text, start, true) {
        return None;
    }
    crate::redact::steps::count(STEPS_MAX);
    GROUPINGS.iter().find_map(|groups| {
        let mut digits = [0; DIGITS_MAX];
        let (count, end) = read_groups(text, start, separator, groups, &mut digits)?;
        (ends_number(text, end) && is_card(&digits[..count])).then_some(end)
    })
}

fn begins_number(text: &[u8], start: usize, is_grouped: bool) -> bool {
    let before = |back: usize| start.checked_sub(back).and_then(|at| text.get(at)).copied();
    match before(1) {
        Some(byte) if byte.is_ascii_alphanumeric() || byte == b'+' => false,
        Some(b'.') => !before(2).is_some_and(|byte| byte.is_ascii_digit()),
        // The middle of a UUID.
        Some(b'-') if is_grouped => !before(2).is_some_and(|byte| byte.is_ascii_hexdigit()),
        _ => true,
    }
}

fn read_groups(
    text: &[u8],
    start: usize,
    separator: u8,
    groups: &[usize],
    digits: &mut [u8; DIGITS_MAX],
) -> Option<(usize, usize)> {
    let (mut at, mut count) = (start, 0);
    for (index, &length) in groups.iter().enumerate() {
        if index > 0 {
            if *text.get(at)? != separator {
                return None;
            }
            at += 1;
        }
        let group = text.get(at..at + length)?;
        if !group.iter().all(u8::is_ascii_digit) {
            return None;
        }
        digits[count..count + length].copy_from_slice(group);
        count += length;
        at += length;
    }
    Some((count, at))
}

fn ends_number(text: &[u8], end: usize) -> bool {
    match text.get(end) {
        Some(byte) if byte.is_ascii_alphanumeric() => false,
        Some(b'.') => !text.get(end + 1).is_some_and(u8::is_ascii_digit),
        _ => true,
    }
}

fn is_card(digits: &[u8]) -> bool {
    has_issuer(digits) && has_luhn_digit(digits)
}

/// Whether the beginning and the length are an issuer's (ISO/IEC 7812). Visa's numbers of 13 digits
/// are out of use, and as long as telephone numbers.
fn has_issuer(digits: &[u8]) -> bool {
    let prefix =
        digits[..6].iter().fold(0_u32, |value, digit| value * 10 + u32::from(digit - b'0'));
    match digits.len() {
        14 => is_diners(prefix),
        15 => matches!(prefix / 10_000, 34 | 37),
        16 => {
            let is_mastercard = matches!(prefix / 10_000, 51..=55)
                || matches!(prefix / 100, 2221..=2720)
                || matches!(prefix / 100, 2200..=2204);
            prefix / 100_000 == 4 || is_mastercard || is_long_range(prefix)
        }
        19 => prefix / 100_000 == 4 || is_long_range(prefix),
        _ => is_long_range(prefix),
    }
}

/// Diners Club.
fn is_diners(prefix: u32) -> bool {
    matches!(prefix / 1000, 300..=305) || matches!(prefix / 10_000, 36 | 38 | 39)
}

/// Discover, JCB, UnionPay, Maestro, and Diners Club's newer numbers: 16 to 19 digits.
fn is_long_range(prefix: u32) -> bool {
    matches!(prefix / 10_000, 62 | 65)
        || matches!(prefix / 1000, 644..=649)
        || matches!(prefix / 100, 3528..=3589 | 6011)
        || matches!(prefix / 100, 5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763)
        || is_diners(prefix)
}

fn has_luhn_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let value = u32::from(digit - b'0') << (index & 1);
            if value > 9 { value - 9 } else { value }
        })
        .sum();
    sum.is_multiple_of(10)
}
