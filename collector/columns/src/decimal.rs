//! Numbers as text, made on the stack: integers, doubles and truth values.
//!
//! A text column takes them in one piece of a fixed size, so that appending one needs neither a
//! buffer of its own nor a call into the C library. No allocation, no input it can't write.

/// Room for a double's text while it is laid out: 25 bytes at the most (a sign, six zeros, a point
/// and 17 digits), and a piece of 16 from the 18th on.
const ROOM: usize = 40;

/// Below this, all whole numbers have exactly one double, and their digits are its shortest text.
const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// Digits that are made at once.
const PIECE: usize = 8;

/// Smallest number of more digits than that.
const PIECE_END: u64 = 100_000_000;

/// What follows a double's mantissa at the most: `e-324`.
const EXPONENT: usize = 5;

/// The digits of `number`, which has at most eight: the first in the first byte, and how many.
#[inline]
fn digits(number: u32) -> ([u8; PIECE], usize) {
    let number = u64::from(number);
    // Two fours, then four pairs, then eight digits, each in a part of one word.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - 100 * hundreds) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | ((pairs - 10 * tens) << 8);
    // Zeros in front, in whole bytes; the last digit stays.
    let zeros = (digits | (1 << 56)).trailing_zeros() & !7;
    let text = (digits | 0x3030_3030_3030_3030) >> zeros;
    (text.to_le_bytes(), PIECE - zeros as usize / 8)
}

/// The text of a whole number of at most eight digits and no sign: a piece, and how much of it.
#[inline]
pub(crate) fn short(number: i64) -> Option<([u8; PIECE], usize)> {
    let number = number.cast_unsigned();
    (number < PIECE_END).then(|| digits(number as u32))
}

/// The text of a truth value: a piece, and how much of it. A table, as no branch foresees it.
#[inline]
pub(crate) fn truth(truth: bool) -> (&'static [u8; PIECE], usize) {
    const TEXTS: [&[u8; PIECE]; 2] = [b"false   ", b"true    "];
    (TEXTS[usize::from(truth)], 5 - usize::from(truth))
}

/// Hands `take` the text of a whole number.
#[inline]
pub(crate) fn integer<R>(number: i64, take: impl FnOnce(&[u8]) -> R) -> R {
    take(itoa::Buffer::new().format(number).as_bytes())
}

/// Hands `take` a double in its shortest form that reads back the same, with an exponent below 1e-6
/// and from 1e21 on, as JavaScript and Go's JSON write it.
#[inline]
pub(crate) fn double<R>(number: f64, take: impl FnOnce(&[u8]) -> R) -> R {
    let whole = number as i64;
    // By their bits, since minus zero keeps its sign.
    if whole.unsigned_abs() < EXACT && (whole as f64).to_bits() == number.to_bits() {
        return integer(whole, take);
    }
    if !number.is_finite() {
        return take(match number {
            f64::INFINITY => b"+Inf",
            f64::NEG_INFINITY => b"-Inf",
            _ => b"NaN",
        });
    }
    // As short as the standard library's and as near, found in a quarter of the time. Of two that
    // are equally near this takes the even one, like Go and JavaScript.
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number).as_bytes();
    let tail = text.len().saturating_sub(EXPONENT);
    match text[tail..].iter().rposition(|&byte| byte == b'e') {
        None => take(text.strip_suffix(b".0").unwrap_or(text)),
        Some(place) => {
            let mut room = [b'0'; ROOM];
            let len = by_exponent(text, tail + place, &mut room);
            take(&room[..len])
        }
    }
}

/// Lays out a mantissa and the exponent that begins at `end`: as a plain number from 1e-6 on and
/// below 1e21. The length of the text; `room` has zeros behind it.
fn by_exponent(text: &[u8], end: usize, room: &mut [u8; ROOM]) -> usize {
    let (mantissa, exponent) = (&text[..end], &text[end + 1..]);
    let power = power(exponent);
    let sign = usize::from(text.first() == Some(&b'-'));
    // A sign stays in front of whatever is written; the mantissa is a digit, or one and a point.
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
                // In one piece with what is behind them, which the zeros cover again.
                Some(piece) if rest < end => {
                    put::<16>(room, sign + 1, piece);
                    put(room, sign + 1 + end - rest, &[b'0'; 16]);
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

/// Writes the digits from `rest` on, if there are any, to `start`; how many.
fn put_digits(mantissa: &[u8], rest: usize, room: &mut [u8; ROOM], start: usize) -> usize {
    let digits = mantissa.get(rest..).unwrap_or_default();
    room[start..start + digits.len()].copy_from_slice(digits);
    digits.len()
}

#[inline]
fn put<const N: usize>(room: &mut [u8; ROOM], start: usize, piece: &[u8; N]) {
    room[start..start + N].copy_from_slice(piece);
}

/// An exponent's number: a sign or none, and at most three digits.
fn power(exponent: &[u8]) -> i32 {
    let number = |digits: &[u8]| {
        digits.iter().fold(0, |number, digit| number * 10 + i32::from(digit.wrapping_sub(b'0')))
    };
    match exponent {
        [b'-', digits @ ..] => -number(digits),
        [b'+', digits @ ..] | digits => number(digits),
    }
}

#[cfg(test)]
#[path = "../tests/unit/decimal.rs"]
mod tests;
