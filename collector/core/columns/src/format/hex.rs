//! Lower-case hexadecimal, without branches or tables so that the compiler vectorizes it.

/// Returns the hexadecimal digit of a value of 0 to 15.
#[inline]
const fn hex_digit(nibble: u8) -> u8 {
    // A comparison and a mask keep every lane eight bits wide.
    nibble + b'0' + if nibble > 9 { b'a' - b'0' - 10 } else { 0 }
}

/// Returns the 2 x `N` digits of `bytes`, as one array per byte.
#[inline]
pub(crate) fn digit_pairs<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    let high = bytes.map(|byte| hex_digit(byte >> 4));
    let low = bytes.map(|byte| hex_digit(byte & 15));
    let mut pairs = [[0; 2]; N];
    for (pair, digits) in pairs.iter_mut().zip(high.into_iter().zip(low)) {
        *pair = [digits.0, digits.1];
    }
    pairs
}

/// Appends the digits of `bytes` to `out`.
pub(crate) fn append_hex(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        out.extend_from_slice(&[hex_digit(byte >> 4), hex_digit(byte & 15)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guarantee: every byte has its two digits.
    #[test]
    fn every_byte_has_its_two_digits() {
        for byte in 0..=255_u8 {
            assert_eq!(digit_pairs(&[byte])[0], *format!("{byte:02x}").as_bytes());
        }
        let mut out = Vec::new();
        append_hex(&[0, 0xab, 0xff], &mut out);
        assert_eq!(out, b"00abff");
    }
}
