//! Parses numbers in text: values, and times in seconds.

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The most digits with which every number is below 2^53, so that a double represents it exactly.
const EXACT_DIGITS: usize = 15;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANO_DIGITS: usize = 9;

/// Bounds have an exponent from this power of ten on, and below the other one.
const EXPONENT_FROM: i32 = 6;
const EXPONENT_BELOW: i32 = -4;

/// Writes a bucket's bound or a quantile as Prometheus does in a label: with the fewest digits that
/// identify the number, and a point or an exponent (`1.0`, `2.5`, `1e+06`, `+Inf`).
pub(crate) fn put_bound(out: &mut Vec<u8>, bound: f64) {
    if !bound.is_finite() {
        let text: &[u8] = match (bound.is_nan(), bound > 0.0) {
            (true, _) => b"NaN",
            (false, true) => b"+Inf",
            (false, false) => b"-Inf",
        };
        out.extend_from_slice(text);
        return;
    }
    let text = format!("{bound:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (EXPONENT_BELOW..EXPONENT_FROM).contains(&exponent) {
        let text = format!("{bound}");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(if text.contains('.') { b"" } else { b".0" });
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let text = format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Parses a value: decimal digits, `Inf`, `NaN`. Returns `None` for other text.
#[inline]
pub(crate) fn parse_float(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let Some((mantissa, exponent)) = parse_short(digits) else { return any_float(text) };
    // Both operands are exact, so the result is rounded once: it is the nearest double.
    let size = mantissa as f64;
    let value = if exponent < 0 {
        size / POWERS[exponent.unsigned_abs() as usize]
    } else {
        size * POWERS[exponent as usize]
    };
    Some(if is_negative { -value } else { value })
}

/// Parses the value at the beginning of a text, up to its end or a blank. Returns it and its
/// length.
#[inline]
pub(crate) fn parse_leading(text: &[u8]) -> Option<(f64, usize)> {
    let (mut mantissa, mut point, mut at) = (0_u64, None, 0);
    loop {
        match text.get(at) {
            Some(byte @ b'0'..=b'9') => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            }
            Some(b'.') if point.is_none() => point = Some(at),
            None | Some(b' ' | b'e') => break,
            Some(_) => return leading_field(text),
        }
        at += 1;
    }
    if text.get(at) == Some(&b'e') {
        return leading_power(text, (mantissa, point, at));
    }
    let (digits, behind) = match point {
        Some(point) => (at - 1, at - 1 - point),
        None => (at, 0),
    };
    if !(1..=EXACT_DIGITS).contains(&digits) {
        return leading_field(text);
    }
    // Both operands are exact, so the result is rounded once: it is the nearest double.
    Some((mantissa as f64 / POWERS[behind], at))
}

/// The same for a number with an exponent: takes its digits, its point and the exponent's position.
#[inline]
fn leading_power(
    text: &[u8],
    (mantissa, point, at): (u64, Option<usize>, usize),
) -> Option<(f64, usize)> {
    let digits = at - usize::from(point.is_some());
    let length = text[at..].iter().position(|byte| *byte == b' ');
    let end = length.map_or(text.len(), |length| at + length);
    let behind = point.map_or(0, |point| at - 1 - point);
    match parse_exponent(&text[at + 1..end]) {
        Some(power) if (1..=EXACT_DIGITS).contains(&digits) => {
            let power = power - behind as i32;
            let size = mantissa as f64;
            let exponent = power.unsigned_abs() as usize;
            let Some(scale) = POWERS.get(exponent) else { return leading_field(text) };
            Some((if power < 0 { size / scale } else { size * scale }, end))
        }
        _ => leading_field(text),
    }
}

#[inline(never)]
fn leading_field(text: &[u8]) -> Option<(f64, usize)> {
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    Some((parse_float(&text[..end])?, end))
}

/// Parses a number of few digits, and the power of ten that multiplies it.
#[inline]
fn parse_short(text: &[u8]) -> Option<(u64, i32)> {
    let (mut mantissa, mut count, mut behind, mut has_point) = (0_u64, 0, 0_i32, false);
    let mut exponent = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                count += 1;
                behind += i32::from(has_point);
            }
            b'.' if !has_point => has_point = true,
            b'e' | b'E' => {
                exponent = parse_exponent(&text[at + 1..])?;
                break;
            }
            _ => return None,
        }
    }
    let exponent = exponent - behind.min(99);
    let is_exact = (1..=EXACT_DIGITS).contains(&count);
    (is_exact && (-22..=22).contains(&exponent)).then_some((mantissa, exponent))
}

fn parse_exponent(text: &[u8]) -> Option<i32> {
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let power = match digits {
        [one @ b'0'..=b'9'] => i32::from(one - b'0'),
        [ten @ b'0'..=b'9', one @ b'0'..=b'9'] => {
            i32::from(ten - b'0') * 10 + i32::from(one - b'0')
        }
        _ => return None,
    };
    Some(if is_negative { -power } else { power })
}

#[inline(never)]
fn any_float(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // A number too large for a double is refused; infinity has no digits.
    let is_one = value.is_finite() || !text.iter().any(u8::is_ascii_digit);
    is_one.then_some(value)
}

/// Parses whole milliseconds to nanoseconds, clamped to the range. Returns `None` for anything but
/// a whole number.
pub(crate) fn parse_millis(text: &[u8]) -> Option<i64> {
    let millis: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(millis.saturating_mul(1_000_000))
}

/// Parses seconds to nanoseconds, clamped to the range; exact for up to nine digits after the
/// point.
pub(crate) fn parse_seconds(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (integer, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    let are_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if integer.is_empty() || integer.len() > 9 + 2 || !are_digits(integer) || !are_digits(fraction)
    {
        let seconds = parse_float(text).filter(|seconds| !seconds.is_nan())?;
        return Some((seconds * NANOS_PER_SECOND as f64) as i64);
    }
    let digits = |text: &[u8]| text.iter().fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'));
    let used_digits = &fraction[..fraction.len().min(NANO_DIGITS)];
    let missing = (NANO_DIGITS - used_digits.len()) as u32;
    let nanos = digits(used_digits) * 10_i64.pow(missing);
    Some(digits(integer).saturating_mul(NANOS_PER_SECOND).saturating_add(nanos))
}

#[cfg(test)]
mod tests;
