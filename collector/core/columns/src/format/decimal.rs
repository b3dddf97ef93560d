//! Formats numbers as text on the stack: integers, doubles and truth values.
//!
//! A text column copies a text in one piece of a fixed size, so that appending one needs neither a
//! separate buffer nor a call into the C library. It allocates nothing and accepts every input.

/// The buffer for a double's text: 25 bytes at most (a sign, six zeros, a point and 17 digits), and
/// a piece of 16 from the 18th on.
const ROOM: usize = 40;

/// Below this, every whole number has exactly one double, and its digits are the double's shortest
/// text.
const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// The number of digits that are computed at once.
const PIECE: usize = 8;

/// The smallest number with more digits than that.
const PIECE_END: u64 = 100_000_000;

/// The longest text after a double's mantissa: `e-324`.
const EXPONENT: usize = 5;

/// Returns the digits of `number`, which has at most eight: the first in the first byte, and their
/// count.
#[inline]
fn digits_of(number: u32) -> ([u8; PIECE], usize) {
    let number = u64::from(number);
    // Compute two fours, then four pairs, then eight digits, each in a part of one word.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | ((pairs - 10 * tens) << 8);
    // Count the leading zeros, in whole bytes; the last digit stays.
    let zeros = (digits | (1 << 56)).trailing_zeros() & !7;
    let text = (digits | 0x3030_3030_3030_3030) >> zeros;
    (text.to_le_bytes(), PIECE - zeros as usize / 8)
}

/// Returns the text of a whole number of at most eight digits and no sign: a piece, and its used
/// length.
#[inline]
pub(crate) fn format_short(number: i64) -> Option<([u8; PIECE], usize)> {
    let number = number.cast_unsigned();
    (number < PIECE_END).then(|| digits_of(number as u32))
}

/// Returns the text of a truth value: a piece, and its used length. It uses a table, as no branch
/// predictor foresees the value.
#[inline]
pub(crate) fn format_bool(truth: bool) -> (&'static [u8; PIECE], usize) {
    const TEXTS: [&[u8; PIECE]; 2] = [b"false   ", b"true    "];
    (TEXTS[usize::from(truth)], 5 - usize::from(truth))
}

/// Passes the text of a whole number to `take`.
#[inline]
pub(crate) fn format_integer<R>(number: i64, take: impl FnOnce(&[u8]) -> R) -> R {
    take(itoa::Buffer::new().format(number).as_bytes())
}

/// Passes to `take` a double in its shortest form that reads back the same, with an exponent below
/// 1e-6 and from 1e21 on, as JavaScript and Go's JSON write it.
#[inline]
pub(crate) fn format_double<R>(number: f64, take: impl FnOnce(&[u8]) -> R) -> R {
    let integer = number as i64;
    // Compare by bits, since minus zero keeps its sign.
    if integer.unsigned_abs() < EXACT && (integer as f64).to_bits() == number.to_bits() {
        return format_integer(integer, take);
    }
    if !number.is_finite() {
        return take(match number {
            f64::INFINITY => b"+Inf",
            f64::NEG_INFINITY => b"-Inf",
            _ => b"NaN",
        });
    }
    // As short and as near as the standard library's text, in a quarter of the time. Of two equally
    // near texts zmij chooses the even one, like Go and JavaScript.
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number).as_bytes();
    let tail = text.len().saturating_sub(EXPONENT);
    match text[tail..].iter().rposition(|&byte| byte == b'e') {
        None => take(text.strip_suffix(b".0").unwrap_or(text)),
        Some(offset) => {
            let mut room = [b'0'; ROOM];
            let len = by_exponent(text, tail + offset, &mut room);
            take(&room[..len])
        }
    }
}

/// Formats a mantissa and the exponent that begins at `end`, as a plain number from 1e-6 on and
/// below 1e21. Returns the length of the text; `room` has zeros behind it.
fn by_exponent(text: &[u8], end: usize, room: &mut [u8; ROOM]) -> usize {
    let (mantissa, exponent) = (&text[..end], &text[end + 1..]);
    let power = parse_exponent(exponent);
    let sign = usize::from(text.first() == Some(&b'-'));
    // A sign stays in front of any text; the mantissa is a digit, or a digit and a point.
    room[0] = b'-';
    let rest = sign + 2;
    match power {
        // Below zero, down to 1e-6: zeros before the digits.
        -6..0 => {
            room[sign + 1] = b'.';
            room[sign] = b'0';
            let start = sign + 1 + power.unsigned_abs() as usize;
            room[start] = mantissa[sign];
            start + 1 + put_digits(mantissa, rest, room, start + 1)
        }
        // Whole numbers (17 digits at most, and 1e16 at least): zeros after the digits.
        0..=20 => {
            room[sign] = mantissa[sign];
            match text.get(rest..).and_then(<[u8]>::first_chunk) {
                // Copy it in one piece with the bytes behind it, which zeros overwrite again.
                Some(piece) if rest < end => {
                    put_piece::<16>(room, sign + 1, piece);
                    put_piece(room, sign + 1 + end - rest, &[b'0'; 16]);
                }
                _ => {
                    put_digits(mantissa, rest, room, sign + 1);
                }
            }
            sign + 1 + power as usize
        }
        _ => {
            let mut len = mantissa.len();
            room[..len].copy_from_slice(mantissa);
            room[len] = b'e';
            len += 1;
            if power > 0 && exponent.first() != Some(&b'+') {
                room[len] = b'+';
                len += 1;
            }
            room[len..len + exponent.len()].copy_from_slice(exponent);
            len + exponent.len()
        }
    }
}

/// Writes the digits from `rest` on, if there are any, to `start`; returns their count.
fn put_digits(mantissa: &[u8], rest: usize, room: &mut [u8; ROOM], start: usize) -> usize {
    let digits = mantissa.get(rest..).unwrap_or_default();
    room[start..start + digits.len()].copy_from_slice(digits);
    digits.len()
}

#[inline]
fn put_piece<const N: usize>(room: &mut [u8; ROOM], start: usize, piece: &[u8; N]) {
    room[start..start + N].copy_from_slice(piece);
}

/// Parses an exponent's number: a sign or none, and at most three digits.
fn parse_exponent(exponent: &[u8]) -> i32 {
    let number = |digits: &[u8]| {
        digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit.wrapping_sub(b'0')))
    };
    match exponent {
        [b'-', digits @ ..] => -number(digits),
        [b'+', digits @ ..] | digits => number(digits),
    }
}

#[cfg(test)]
mod tests;
