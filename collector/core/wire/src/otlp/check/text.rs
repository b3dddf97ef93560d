//! Checks texts: nearly all are short and ASCII.

use crate::error::{WireErrorKind, WireFault};

/// The bytes of a long text that are read at once.
const BLOCK_BYTES: usize = 32;

/// Checks that a text is UTF-8.
#[inline]
pub(super) fn check_utf8(text: &[u8]) -> Result<(), WireFault> {
    if is_ascii(text) {
        return Ok(());
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(WireFault::new(WireErrorKind::Utf8, &text[error.valid_up_to()..])),
    }
}

/// Whether a text is ASCII: a short one by its first and its last bytes, which may overlap. The
/// library's validation of UTF-8 takes three to ten times as long for what is ASCII.
#[inline(always)]
pub(super) fn is_ascii(text: &[u8]) -> bool {
    const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
    if text.len() >= BLOCK_BYTES {
        return is_long_ascii(text);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u128::from_ne_bytes(*first) | u128::from_ne_bytes(*last)) & HIGH_BITS == 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last)) & HIGH_BITS as u64 == 0;
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        return (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & HIGH_BITS as u32 == 0;
    }
    text.iter().all(u8::is_ascii)
}

/// As [`is_ascii`], for texts of a block or more: without a branch that depends on their bytes.
#[inline]
fn is_long_ascii(text: &[u8]) -> bool {
    // The last block overlaps the one before.
    let Some(mut all) = text.last_chunk::<BLOCK_BYTES>().copied() else { return text.is_ascii() };
    for block in text.as_chunks::<BLOCK_BYTES>().0 {
        for (all, byte) in all.iter_mut().zip(block) {
            *all |= byte;
        }
    }
    all.is_ascii()
}

/// Returns the bytes by which a text is longer in JSON.
pub(super) fn escapes_len(text: &[u8]) -> u64 {
    let escapes = text.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    });
    escapes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: texts of each length up to four blocks, with a byte that isn't ASCII at each
    /// position, or none. Guarantee: it is found wherever it is, and nothing else is.
    #[test]
    fn a_byte_beyond_ascii_is_found_at_each_position() {
        let mut text = [0x7f; 4 * BLOCK_BYTES + 1];
        for length in 0..=text.len() {
            assert!(is_ascii(&text[..length]), "{length}");
            for position in 0..length {
                text[position] = 0x80;
                assert!(!is_ascii(&text[..length]), "{position} of {length}");
                assert!(check_utf8(&text[..length]).is_err(), "{position} of {length}");
                text[position] = 0x7f;
            }
        }
    }
}
