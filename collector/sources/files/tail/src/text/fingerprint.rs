//! Identifies a file by a hash of its first bytes.

use serde::{Deserialize, Serialize};

/// The maximum bytes that a fingerprint covers. 1 KiB holds a first line with a time in nearly
/// every log, in one page.
pub const FINGERPRINT_BYTES: usize = 1024;

/// A hash of a file's first bytes, and their number. It grows with the file up to
/// [`FINGERPRINT_BYTES`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The number of bytes.
    #[serde(rename = "l")]
    length: u16,
    /// Their hash.
    #[serde(rename = "h")]
    hash: u64,
}

impl Fingerprint {
    /// Hashes a file's beginning. Bytes beyond [`FINGERPRINT_BYTES`] don't count.
    #[must_use]
    pub fn of_head(head: &[u8]) -> Self {
        let head = &head[..head.len().min(FINGERPRINT_BYTES)];
        Self { length: head.len() as u16, hash: hash(head) }
    }

    /// Whether a file that begins with `head` may be this one. Any may while the fingerprint covers
    /// no byte.
    #[must_use]
    pub fn matches_head(&self, head: &[u8]) -> bool {
        self.length == 0
            || head.get(..usize::from(self.length)).is_some_and(|head| hash(head) == self.hash)
    }

    /// Extends the fingerprint to more of the file, once there is more.
    pub fn extend_from(&mut self, head: &[u8]) {
        let longest = head.len().min(FINGERPRINT_BYTES);
        if longest > usize::from(self.length) {
            *self = Self::of_head(head);
        }
    }

    /// The number of bytes that it covers.
    #[must_use]
    pub fn covered_bytes(&self) -> usize {
        usize::from(self.length)
    }
}

/// FNV-1a, 64 bits: positions on disk need the same hash in every release. It is also their
/// checksum.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a file of three bytes grows past a fingerprint's length. Guarantee: each
    /// fingerprint matches every later state of the file, and no other file.
    #[test]
    fn a_fingerprint_grows_with_its_file_and_fits_no_other() {
        let whole: Vec<u8> = (0..3000_u32).map(|n| (n % 251) as u8).collect();
        let mut print = Fingerprint::default();
        for length in [3, 900, 1024, 3000] {
            assert!(print.matches_head(&whole[..length]));
            print.extend_from(&whole[..length]);
            assert_eq!(print.covered_bytes(), length.min(FINGERPRINT_BYTES));
            assert!(print.matches_head(&whole));
            let mut other = whole.clone();
            other[1] ^= 1;
            assert!(!print.matches_head(&other));
        }
        assert!(!print.matches_head(&whole[..1023]), "a shorter file isn't the same any more");
    }

    /// Scenario: a known text. Guarantee: its hash is the same in all releases; otherwise all
    /// positions would be void.
    #[test]
    fn the_hash_is_the_published_fnv1a() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
