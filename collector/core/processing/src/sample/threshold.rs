//! The rejection threshold: how many of the 2^56 values of randomness are rejected.

/// The number of values of randomness, and the largest adjusted count: 2^56.
pub const MAX_ADJUSTED_COUNT: u64 = 1 << 56;

/// The hexadecimal digits of 56 bits.
pub const HEX_DIGITS_MAX: usize = 14;

const BITS: u32 = 56;
const BITS_PER_DIGIT: u32 = 4;

/// A rejection threshold, from 0 (all records are sampled) to 2^56 - 1 (one value of 2^56 is).
/// "Sample none" is no threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(u64);

impl Threshold {
    /// The threshold at which every record is sampled.
    pub const ZERO: Self = Self(0);

    /// The threshold of a 56-bit value; absent if it has more bits.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value < MAX_ADJUSTED_COUNT { Some(Self(value)) } else { None }
    }

    /// The threshold of a probability in `[2^-56, 1]`; absent outside, and for NaN.
    ///
    /// `precision` is the number of significant hexadecimal digits. Leading digits that are all
    /// `f` (small probabilities) or all `0` (close to 1) don't count, so that the relative error is
    /// the same for all.
    #[must_use]
    pub fn from_probability(probability: f64, precision: u8) -> Option<Self> {
        let smallest = 1.0 / MAX_ADJUSTED_COUNT as f64;
        if !(smallest..=1.0).contains(&probability) {
            return None;
        }
        let accepted = (probability * MAX_ADJUSTED_COUNT as f64).round() as u64;
        let rejected = MAX_ADJUSTED_COUNT - accepted;
        if rejected == 0 {
            return Some(Self::ZERO);
        }
        let free_digits = leading_digits(accepted) + leading_digits(rejected);
        let digits = (u32::from(precision.max(1)) + free_digits).min(HEX_DIGITS_MAX as u32);
        let shift = BITS_PER_DIGIT * (HEX_DIGITS_MAX as u32 - digits);
        let half = (1_u64 << shift) >> 1;
        let rounded = ((rejected + half) >> shift) << shift;
        Some(Self(rounded.min(MAX_ADJUSTED_COUNT - (1 << shift))))
    }

    /// Reads `th`: 1 to 14 hexadecimal digits, to which trailing zeros are added.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        if digits.is_empty() || digits.len() > HEX_DIGITS_MAX {
            return None;
        }
        let omitted = (HEX_DIGITS_MAX - digits.len()) as u32;
        Some(Self(parse_hex(digits)? << (BITS_PER_DIGIT * omitted)))
    }

    /// The 56-bit value.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The digits of `th`: without trailing zeros, but one at least.
    #[must_use]
    pub fn to_digits(self) -> HexDigits {
        let all = HexDigits::from_value(self.0);
        let length = all.as_bytes().iter().rposition(|&digit| digit != b'0').map_or(1, |at| at + 1);
        HexDigits { length: length as u8, ..all }
    }

    /// The probability that a record is sampled.
    #[must_use]
    pub fn probability(self) -> f64 {
        (MAX_ADJUSTED_COUNT - self.0) as f64 / MAX_ADJUSTED_COUNT as f64
    }

    /// How many records a sampled one represents. Exact for powers of two; else within the rounding
    /// of one conversion and one division.
    #[must_use]
    pub fn adjusted_count(self) -> f64 {
        MAX_ADJUSTED_COUNT as f64 / (MAX_ADJUSTED_COUNT - self.0) as f64
    }
}

/// How many leading digits a 56-bit number leaves zero. One less bit counts for powers of two, as
/// in the specification: 1/16 has the threshold `f`, which is a significant digit.
fn leading_digits(value: u64) -> u32 {
    let bits = u64::BITS - value.leading_zeros();
    BITS.saturating_sub(bits) / BITS_PER_DIGIT
}

/// Reads hexadecimal digits; the caller bounds their number to 16.
pub(super) fn parse_hex(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for &digit in digits {
        value = (value << BITS_PER_DIGIT) | u64::from(char::from(digit).to_digit(16)?);
    }
    Some(value)
}

/// Up to 14 lower-case hexadecimal digits, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HexDigits {
    digits: [u8; HEX_DIGITS_MAX],
    length: u8,
}

impl HexDigits {
    pub(super) fn from_value(value: u64) -> Self {
        let mut digits = [b'0'; HEX_DIGITS_MAX];
        let mut left = value;
        for digit in digits.iter_mut().rev() {
            *digit = b"0123456789abcdef"[(left & 15) as usize];
            left >>= BITS_PER_DIGIT;
        }
        Self { digits, length: HEX_DIGITS_MAX as u8 }
    }

    /// The digits as ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[..usize::from(self.length)]
    }
}
