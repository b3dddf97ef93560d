//! Appends and compares short texts without a call into the C library.
//!
//! Most texts have 4 to 32 bytes; for those the call to `memcpy` or `memcmp` costs more than the
//! work: on rich spans, a fifth of the time of appending. This is the only module of the crate with
//! unsafe code. Each function reserves the memory that it writes.
#![allow(unsafe_code)]

use millrace_wire::protobuf::put_varint;

use crate::format::hex;

/// The longest text copied in place: two copies of half of it, which may overlap.
const SHORT: usize = 32;

/// Appends a text in the format's form: its length as a variable-length integer, then its bytes.
#[inline]
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let len = text.len();
    if len > SHORT {
        put_long_text(out, text);
        return;
    }
    out.reserve(1 + SHORT);
    let end = out.len();
    // SAFETY: `1 + SHORT` bytes are reserved behind `end`; `copy_short` writes `len` of them, at
    // most `SHORT`, behind the length, so that the new length covers only written bytes.
    unsafe {
        let to = out.as_mut_ptr().add(end);
        to.write(len as u8);
        copy_short(text, to.add(1));
        out.set_len(end + 1 + len);
    }
}

/// Appends a text that is the start of a piece. It copies the complete piece, however long the text
/// is: a copy of a fixed size has no branch that depends on it.
#[inline]
pub(crate) fn put_piece<const N: usize>(out: &mut Vec<u8>, piece: &[u8; N], len: usize) {
    const { assert!(N < 0x80, "the length takes one byte") };
    let len = len.min(N);
    out.reserve(1 + N);
    let end = out.len();
    // SAFETY: `1 + N` bytes are reserved behind `end` and written here; the new length covers
    // `1 + len` of them, which are no more.
    unsafe {
        let to = out.as_mut_ptr().add(end);
        to.write(len as u8);
        std::ptr::copy_nonoverlapping(piece.as_ptr(), to.add(1), N);
        out.set_len(end + 1 + len);
    }
}

#[inline(never)]
fn put_long_text(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends the hexadecimal digits of an id as a text.
#[inline]
pub(crate) fn put_hex<const N: usize>(out: &mut Vec<u8>, id: &[u8; N]) {
    const { assert!(2 * N < 0x80, "the length takes one byte") };
    out.reserve(1 + 2 * N);
    out.push(2 * N as u8);
    out.extend_from_slice(hex::digit_pairs(id).as_flattened());
}

/// Returns whether two texts are equal.
#[inline]
pub(crate) fn is_same_text(one: &[u8], other: &[u8]) -> bool {
    let len = one.len();
    if len != other.len() {
        return false;
    }
    // Compare both ends, which overlap unless the length is twice the piece's.
    match len {
        16..=SHORT => both_ends::<16>(one) == both_ends::<16>(other),
        8..16 => both_ends::<8>(one) == both_ends::<8>(other),
        4..8 => both_ends::<4>(one) == both_ends::<4>(other),
        _ => one == other,
    }
}

#[inline]
fn both_ends<const N: usize>(text: &[u8]) -> (Option<&[u8; N]>, Option<&[u8; N]>) {
    (text.first_chunk(), text.last_chunk())
}

/// Copies `text`, of at most [`SHORT`] bytes, to `to`.
///
/// # Safety
/// `text.len()` bytes at `to` are writable and don't overlap `text`.
#[inline]
unsafe fn copy_short(text: &[u8], to: *mut u8) {
    let len = text.len();
    // SAFETY: every copy starts at 0 or ends at `len`, and is at most `len` long, on both sides.
    unsafe {
        match len {
            16.. => copy_ends::<16>(text, to),
            8..16 => copy_ends::<8>(text, to),
            4..8 => copy_ends::<4>(text, to),
            2..4 => copy_ends::<2>(text, to),
            1 => to.write(*text.as_ptr()),
            0 => {}
        }
    }
}

/// Copies the first and the last `N` bytes of `text` to their places at `to`.
///
/// # Safety
/// `text` has between `N` and 2 x `N` bytes, as many are writable at `to` and don't overlap `text`.
#[inline]
unsafe fn copy_ends<const N: usize>(text: &[u8], to: *mut u8) {
    let from = text.as_ptr();
    let last = text.len() - N;
    // SAFETY: `last + N` is the length, which the caller guarantees to be valid on both sides.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, N);
        std::ptr::copy_nonoverlapping(from.add(last), to.add(last), N);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_wire::protobuf::Cursor;
    use proptest::prelude::*;

    proptest! {
        /// Guarantee: texts of all lengths around the borders are read back complete, without extra
        /// bytes.
        #[test]
        fn texts_are_whole(texts in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..140), 0..20,
        )) {
            let mut out = Vec::new();
            texts.iter().for_each(|text| put_text(&mut out, text));
            let mut cursor = Cursor::new(&out);
            for text in &texts {
                prop_assert_eq!(cursor.bytes(), Ok(text.as_slice()));
            }
            prop_assert!(cursor.is_empty());
        }

        /// Guarantee: a piece is read back with its given length.
        #[test]
        fn of_a_piece_its_start_is_written(
            pieces in proptest::collection::vec((any::<[u8; 8]>(), 0_usize..=8), 0..20),
        ) {
            let mut out = Vec::new();
            pieces.iter().for_each(|(piece, len)| put_piece(&mut out, piece, *len));
            let mut cursor = Cursor::new(&out);
            for (piece, len) in &pieces {
                prop_assert_eq!(cursor.bytes(), Ok(&piece[..*len]));
            }
            prop_assert!(cursor.is_empty());
        }

        /// Guarantee: texts are equal if and only if all their bytes are.
        #[test]
        fn one_other_byte_is_another_text(
            text in proptest::collection::vec(any::<u8>(), 1..70),
            place in any::<prop::sample::Index>(),
            flip in 1_u8..,
        ) {
            prop_assert!(is_same_text(&text, &text.clone()));
            let mut other = text.clone();
            other[place.index(text.len())] ^= flip;
            prop_assert!(!is_same_text(&text, &other));
            prop_assert!(!is_same_text(&text, &text[1..]));
        }
    }
}
