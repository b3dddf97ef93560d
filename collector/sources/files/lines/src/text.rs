//! Handles UTF-8: validates it, replaces invalid bytes, and finds where text may be cut.

/// Replaces a sequence of bytes that isn't UTF-8.
pub(crate) const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Whether `bytes` are UTF-8. The check for ASCII, which nearly all lines are, is twice as fast.
#[inline]
pub(crate) fn is_text(bytes: &[u8]) -> bool {
    bytes.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

/// The length of `bytes` with each invalid sequence replaced.
pub(crate) fn replaced_len(bytes: &[u8]) -> usize {
    let lengths = bytes.utf8_chunks().map(|chunk| {
        chunk.valid().len() + if chunk.invalid().is_empty() { 0 } else { REPLACEMENT.len() }
    });
    lengths.sum()
}

/// Appends `bytes` with each invalid sequence replaced.
pub(crate) fn put_replaced(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.extend_from_slice(chunk.valid().as_bytes());
        if !chunk.invalid().is_empty() {
            out.extend_from_slice(REPLACEMENT);
        }
    }
}

/// Cuts `text` to at most `limit` bytes after a complete character, and returns whether anything
/// was cut.
#[inline]
pub(crate) fn cut_text(text: &[u8], limit: usize) -> (&[u8], bool) {
    if text.len() <= limit { (text, false) } else { (complete_chars(&text[..limit]), true) }
}

/// Strips an incomplete character at the end.
pub(crate) fn complete_chars(text: &[u8]) -> &[u8] {
    // An incomplete character begins at most three bytes before the end.
    for back in 1..=text.len().min(3) {
        let at = text.len() - back;
        let length = match text[at] {
            0x80..0xc0 => continue,
            0xc0..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf8 => 4,
            _ => 1,
        };
        return if length > back { &text[..at] } else { text };
    }
    text
}

/// Strips a CR at the end.
#[inline]
pub(crate) fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Strips empty lines at the end.
#[inline]
pub(crate) fn without_empty_lines(mut text: &[u8]) -> &[u8] {
    while let Some(shorter) = text.strip_suffix(b"\n") {
        text = shorter;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: texts cut at every length. Guarantee: the result is the longest prefix that is
    /// UTF-8.
    #[test]
    fn no_character_is_cut_in_two() {
        let text = "aä€𝄞\u{7f}\u{80}ü";
        for limit in 0..=text.len() {
            let mut end = limit;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let (kept, is_cut) = cut_text(text.as_bytes(), limit);
            assert_eq!(kept, &text.as_bytes()[..end], "{limit}");
            assert_eq!(is_cut, limit < text.len());
        }
        assert_eq!(complete_chars(b"\x80\x80\x80\x80"), b"\x80\x80\x80\x80");
    }

    /// Scenario: bytes that aren't UTF-8. Guarantee: they are replaced as by the standard library,
    /// with the predicted length.
    #[test]
    fn bad_bytes_are_replaced_one_sequence_at_a_time() {
        for bytes in [&b"a\xffb"[..], b"\xf0\x9f\x92", b"\xed\xa0\x80", b"\xc3(", b"ok", b""] {
            let mut out = Vec::new();
            put_replaced(&mut out, bytes);
            assert_eq!(out, String::from_utf8_lossy(bytes).as_bytes());
            assert_eq!(out.len(), replaced_len(bytes));
            assert_eq!(is_text(bytes), std::str::from_utf8(bytes).is_ok());
        }
    }
}
