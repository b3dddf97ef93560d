//! Tests of the private functions of `text.rs`.

use super::*;

/// Guarantee: the vectors of RFC 4648 match.
#[test]
fn base64_is_standard_with_padding() {
    for (bytes, text) in
        [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
    {
        let mut out = Vec::new();
        append_base64(bytes.as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
    let mut out = Vec::new();
    append_base64(&[0xfb, 0xff], &mut out);
    assert_eq!(out, b"+/8=");
}

/// Guarantee: exactly the characters that JSON requires to be escaped are escaped.
#[test]
fn json_strings_escape_what_they_must() {
    let mut out = Vec::new();
    append_quoted("a\"\\\n\u{1}<ü>".as_bytes(), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\\\\\\n\\u0001<ü>\"");
}
