//! Tests of what `text.rs` keeps to itself.

use super::*;

/// The vectors of RFC 4648.
#[test]
fn base64_is_standard_with_padding() {
    for (bytes, text) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
    {
        let mut out = Vec::new();
        base64(bytes.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    let mut out = Vec::new();
    base64(&[0xfb, 0xff], &mut out);
    assert_eq!(out, b"+/8=");
}

/// What JSON demands to be escaped is, and nothing else.
#[test]
fn json_strings_escape_what_they_must() {
    let mut out = Vec::new();
    quoted("a\"\\\n\u{1}<ü>".as_bytes(), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\\\\\\n\\u0001<ü>\"");
}
