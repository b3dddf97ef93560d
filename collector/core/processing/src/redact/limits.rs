//! What a redaction may be made of. Constants that only these files share.

/// The shortest key of hashes: 128 bits. A shorter one can be guessed.
pub const HASH_KEY_BYTES_MIN: usize = 16;
/// Hashes of less than 32 bits collide among some ten thousand values. 43 characters of base64 are
/// all 256 bits.
pub(super) const HASH_LENGTH_MIN: u8 = 8;
pub(super) const HASH_LENGTH_MAX: u8 = 43;
pub(super) const MASK_BYTES_MAX: usize = 32;
pub(super) const VISIBLE_LAST_MAX: usize = 8;
/// Most patterns of a step.
pub const PATTERNS_MAX: usize = 64;
/// The longest pattern: that of the other patterns in settings.
pub const PATTERN_BYTES_MAX: usize = 1024;
/// Most names, and most patterns, of a list.
pub const KEY_NAMES_MAX: usize = 256;
