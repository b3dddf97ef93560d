//! The 56 bits that decide about a record at every ratio.

use twox_hash::XxHash3_64;

use super::Threshold;
use super::threshold::{HEX_DIGITS_MAX, HexDigits, MAX_ADJUSTED_COUNT, parse_hex};

/// The bits of a 64-bit hash that aren't used.
const UNUSED_HASH_BITS: u32 = 8;

/// The bytes of a trace id before its random ones, by W3C's Trace Context Level 2.
const TRACE_ID_HEAD_BYTES: usize = 9;

/// 56 bits that all samplers of a trace share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Randomness(u64);

impl Randomness {
    /// The randomness of a 56-bit value; absent if it has more bits.
    #[must_use]
    pub const fn new(value: u64) -> Option<Self> {
        if value < MAX_ADJUSTED_COUNT { Some(Self(value)) } else { None }
    }

    /// The last 7 bytes of a trace id. Absent if the id doesn't have 16 bytes, or is all zeros,
    /// which W3C declares invalid.
    #[must_use]
    pub fn from_trace_id(trace_id: &[u8]) -> Option<Self> {
        let id: &[u8; 16] = trace_id.try_into().ok()?;
        if *id == [0; 16] {
            return None;
        }
        let random = id[TRACE_ID_HEAD_BYTES..].iter();
        Some(Self(random.fold(0, |value, &byte| (value << 8) | u64::from(byte))))
    }

    /// Reads `rv`: exactly 14 hexadecimal digits.
    #[must_use]
    pub fn parse(digits: &[u8]) -> Option<Self> {
        if digits.len() == HEX_DIGITS_MAX { parse_hex(digits).map(Self) } else { None }
    }

    /// The randomness of a record without a trace id: the upper 56 bits of XXH3-64 over a value
    /// that it carries. Records with the same value are sampled or dropped together, by all
    /// processes with the same seed.
    #[must_use]
    pub fn from_bytes(seed: u64, bytes: &[u8]) -> Self {
        Self(XxHash3_64::oneshot_with_seed(seed, bytes) >> UNUSED_HASH_BITS)
    }

    /// The 56-bit value.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The digits of `rv`.
    #[must_use]
    pub fn to_digits(self) -> HexDigits {
        HexDigits::from_value(self.0)
    }

    /// Whether a record with this randomness is sampled at a threshold.
    #[must_use]
    pub const fn passes(self, threshold: Threshold) -> bool {
        self.0 >= threshold.value()
    }
}
