//! What replaces a match.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::hmac::HmacKey;
use super::limits::{
    HASH_KEY_BYTES_MIN, HASH_LENGTH_MAX, HASH_LENGTH_MIN, MASK_BYTES_MAX, VISIBLE_LAST_MAX,
};
use super::problem::RedactProblemKind;
use super::{ActionConfig, HashConfig, HashEncoding, MaskConfig};

/// The most bytes that replace a match: 32 of a mask and 8 characters of 4 bytes, or a hash. A text
/// grows by no more than this for each hit.
pub const REPLACEMENT_BYTES_MAX: usize = MASK_BYTES_MAX + 4 * VISIBLE_LAST_MAX;

/// No more than one in so many characters of a match stays.
const VISIBLE_LAST_SHARE: usize = 4;

/// What replaces a match.
#[derive(Clone, Debug)]
pub(super) enum RedactAction {
    Mask { text: Box<[u8]>, visible_last: usize },
    Hash { key: Box<HmacKey>, length: usize, encoding: HashEncoding },
    Drop,
}

impl RedactAction {
    pub(super) fn compile(
        config: &ActionConfig,
        key: Option<&[u8]>,
    ) -> Result<Self, RedactProblemKind> {
        match (&config.mask, &config.hash, &config.drop) {
            (Some(mask), None, None) => Self::mask(mask),
            (None, Some(hash), None) => Self::hash(*hash, key),
            (None, None, Some(_)) => Ok(Self::Drop),
            _ => Err(RedactProblemKind::Action),
        }
    }

    fn mask(mask: &MaskConfig) -> Result<Self, RedactProblemKind> {
        let visible_last = usize::from(mask.keep_last);
        if mask.text.len() > MASK_BYTES_MAX {
            return Err(RedactProblemKind::MaskLength(mask.text.len()));
        }
        if visible_last > VISIBLE_LAST_MAX {
            return Err(RedactProblemKind::KeepLast(mask.keep_last));
        }
        Ok(Self::Mask { text: mask.text.as_bytes().into(), visible_last })
    }

    fn hash(hash: HashConfig, key: Option<&[u8]>) -> Result<Self, RedactProblemKind> {
        if !(HASH_LENGTH_MIN..=HASH_LENGTH_MAX).contains(&hash.length) {
            return Err(RedactProblemKind::HashLength(hash.length));
        }
        let key = key.ok_or(RedactProblemKind::NoHashKey)?;
        if key.len() < HASH_KEY_BYTES_MIN {
            return Err(RedactProblemKind::HashKeyLength(key.len()));
        }
        Ok(Self::Hash {
            key: Box::new(HmacKey::new(key)),
            length: usize::from(hash.length),
            encoding: hash.encoding,
        })
    }

    /// How little an action leaves: the strictest applies where matches overlap.
    pub(super) fn strictness(&self) -> u8 {
        match self {
            Self::Mask { visible_last: 1.., .. } => 0,
            Self::Hash { .. } => 1,
            Self::Mask { .. } => 2,
            Self::Drop => 3,
        }
    }

    /// Appends what replaces a match.
    pub(super) fn write(&self, matched: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Mask { text, visible_last } => {
                out.extend_from_slice(text);
                out.extend_from_slice(last_characters(matched, *visible_last));
            }
            Self::Hash { key, length, encoding } => {
                let signature = key.sign(matched);
                let mut encoded = [0; 2 * 32];
                match encoding {
                    HashEncoding::Hex => {
                        for (pair, byte) in encoded.as_chunks_mut::<2>().0.iter_mut().zip(signature)
                        {
                            const DIGITS: &[u8; 16] = b"0123456789abcdef";
                            *pair = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
                        }
                    }
                    HashEncoding::Base64 => {
                        // 32 bytes are 43 characters: they fit.
                        let _ = URL_SAFE_NO_PAD.encode_slice(signature, &mut encoded);
                    }
                }
                out.extend_from_slice(&encoded[..*length]);
            }
            Self::Drop => {}
        }
    }
}

/// The last characters of a match, in no more bytes than as many characters have: in bytes that are
/// no text, a run of continuation bytes has any length.
fn last_characters(matched: &[u8], requested: usize) -> &[u8] {
    let begins = |byte: &u8| byte & 0xc0 != 0x80;
    let count =
        requested.min(matched.iter().filter(|byte| begins(byte)).count() / VISIBLE_LAST_SHARE);
    let starts = matched.iter().enumerate().rev().filter(|(_, byte)| begins(byte));
    let start = count.checked_sub(1).and_then(|last| starts.map(|(at, _)| at).nth(last));
    let characters = start.map_or(&[][..], |start| &matched[start..]);
    if characters.len() > 4 * VISIBLE_LAST_MAX { &[] } else { characters }
}
