//! A small keyed bijection on 64 bits: numbers become ids that appear random, and ids map back to
//! their numbers; and draws from such bits. Not cryptographic: anyone who knows the seed can
//! generate them, on purpose.

/// Multipliers and shifts of splitmix64's output function (Steele, Lea, Flood 2014), and the
/// multipliers' inverses modulo 2^64. Every step is invertible, so the function is.
const FIRST: u64 = 0xBF58_476D_1CE4_E5B9;
const SECOND: u64 = 0x94D0_49BB_1331_11EB;
const FIRST_INVERSE: u64 = 0x96DE_1B17_3F11_9089;
const SECOND_INVERSE: u64 = 0x3196_42B2_D24D_8EC3;

/// Spreads a number over 64 bits. `mix_bits(0)` is 0, and no other input gives 0.
#[inline]
pub(crate) const fn mix_bits(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(FIRST);
    z = (z ^ (z >> 27)).wrapping_mul(SECOND);
    z ^ (z >> 31)
}

/// Returns the number that [`mix_bits`] spread.
#[inline]
pub(crate) const fn unmix_bits(mixed: u64) -> u64 {
    let mut z = mixed;
    z = (z ^ (z >> 31) ^ (z >> 62)).wrapping_mul(SECOND_INVERSE);
    z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(FIRST_INVERSE);
    z ^ (z >> 30) ^ (z >> 60)
}

/// 64 random-looking bits from which a record's variable fields are drawn. The same number gives
/// the same draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    /// Returns `count` of the bits, from bit `at` on.
    #[inline]
    pub(crate) const fn bits(self, at: u32, count: u32) -> u64 {
        (self.0 >> at) & ((1 << count) - 1)
    }

    /// Returns true with a chance of one in 2^`count`.
    #[inline]
    pub(crate) const fn is_rare(self, at: u32, count: u32) -> bool {
        self.bits(at, count) == 0
    }

    /// Picks one of a few, by four bits from bit `at` on.
    #[inline]
    pub(crate) const fn pick<T: Copy, const N: usize>(self, at: u32, from: &[T; N]) -> T {
        from[self.bits(at, 4) as usize % N]
    }

    /// Returns 64 more bits.
    #[inline]
    pub(crate) const fn next(self) -> Self {
        Self(mix_bits(self.0))
    }
}

/// A number as 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hex([u8; 16]);

impl Hex {
    #[inline]
    pub(crate) fn new(number: u64) -> Self {
        let mut digits = [0; 16];
        for (at, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(number >> (60 - 4 * at)) as usize & 0xF];
        }
        Self(digits)
    }

    #[inline]
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Guarantee: the constants are inverses, and only zero maps to zero.
    #[test]
    fn the_inverse_multipliers_are_inverse() {
        assert_eq!(FIRST.wrapping_mul(FIRST_INVERSE), 1);
        assert_eq!(SECOND.wrapping_mul(SECOND_INVERSE), 1);
        assert_eq!(mix_bits(0), 0);
    }

    proptest! {
        /// Guarantee: every id maps back to exactly its number.
        #[test]
        fn every_number_comes_back(number: u64) {
            prop_assert_eq!(unmix_bits(mix_bits(number)), number);
            prop_assert_eq!(mix_bits(unmix_bits(number)), number);
        }

        /// Guarantee: the digits equal the standard library's.
        #[test]
        fn digits_are_hexadecimal(number: u64) {
            let digits = Hex::new(number);
            prop_assert_eq!(digits.as_str(), format!("{number:016x}"));
        }
    }
}
