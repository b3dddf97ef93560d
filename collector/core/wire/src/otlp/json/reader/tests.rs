//! Tests of the private code of `otlp/json/reader.rs`.

use super::{JsonReader, Token, number_len};
use proptest::prelude::*;
use std::borrow::Cow;

/// Numbers follow JSON's grammar, not a float parser's.
#[test]
fn numbers_follow_jsons_grammar() {
    for good in ["0", "-0", "12", "1.5", "-1.5e10", "1E+2", "0e0"] {
        assert_eq!(number_len(good.as_bytes()), Some(good.len()), "{good}");
    }
    for bad in ["", "-", "01", ".5", "1.", "1e", "1e+", "+1", "inf", "NaN"] {
        assert_ne!(number_len(bad.as_bytes()), Some(bad.len()), "{bad}");
    }
}

/// Escapes are decoded, pairs are joined, half a pair is replaced.
#[test]
fn escapes_are_undone() {
    let read = |text: &'static str| JsonReader::new(text.as_bytes()).read_string().unwrap();
    assert!(matches!(read(r#""plain""#), Cow::Borrowed(b"plain")));
    assert_eq!(
        &*read(r#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00""#),
        "\"\\/\u{8}\u{c}\n\r\tä😀".as_bytes()
    );
    assert_eq!(&*read(r#""a\ud83d""#), "a\u{fffd}".as_bytes());
    assert_eq!(&*read(r#""\ud83d\u0041\udc00""#), "\u{fffd}A\u{fffd}".as_bytes());
    for bad in [r#""\x""#, r#""\u12g4""#, r#""\u12"#, "\"\n\"", r#""open"#, r#""\"#] {
        assert!(JsonReader::new(bad.as_bytes()).read_string().is_err(), "{bad}");
    }
}

/// Values are skipped whatever they hold; invalid JSON or too deep nesting is refused.
#[test]
fn unknown_values_are_passed_over() {
    for good in ["1", "null", r#"{"a":[1,{"b":"]}"}, []],"c":{}}"#, "[[[]],{}]", "true"] {
        let text = format!("{good} ,");
        let mut reader = JsonReader::new(text.as_bytes());
        assert!(reader.skip_value(128).is_ok(), "{good}");
        assert!(reader.eat(b','), "{good}");
    }
    for bad in ["[1 2]", "{1:2}", "[}", r#"{"a"}"#, "[1,]", "nul", "[", ""] {
        assert!(JsonReader::new(bad.as_bytes()).skip_value(128).is_err(), "{bad}");
    }
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(JsonReader::new(deep(128).as_bytes()).skip_value(128).is_ok());
    assert!(JsonReader::new(deep(129).as_bytes()).skip_value(128).is_err());
    assert!(JsonReader::new(deep(1_000_000).as_bytes()).skip_value(128).is_err());
}

proptest! {
    /// Any string that another writer wrote is read unchanged, and any value is skipped to its last
    /// byte.
    #[test]
    fn what_others_write_is_read(text in any::<String>()) {
        let json = serde_json::to_string(&text).unwrap();
        let mut reader = JsonReader::new(json.as_bytes());
        prop_assert_eq!(reader.read_scalar().unwrap(), Token::Text(Cow::Borrowed(text.as_bytes())));
        prop_assert!(reader.expect_end().is_ok());
        let mut reader = JsonReader::new(json.as_bytes());
        prop_assert!(reader.skip_value(1).is_ok());
        prop_assert!(reader.expect_end().is_ok());
    }

    /// Any text is read to an end, without a panic.
    #[test]
    fn any_text_ends(text in "[\\[\\]{}:,\"0-9a-z\\\\ .eE+-]{0,60}") {
        let _ = JsonReader::new(text.as_bytes()).skip_value(128);
        let _ = JsonReader::new(text.as_bytes()).read_scalar();
    }
}
