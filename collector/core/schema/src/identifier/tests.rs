//! Tests of the private functions of `identifier.rs`.

use super::*;
use proptest::prelude::*;

/// Guarantee: names that match the rule are stored unchanged.
#[test]
fn plain_names_are_kept() {
    for name in ["otel", "_x", "A9_", &"a".repeat(MAX_IDENTIFIER_BYTES)] {
        assert_eq!(Identifier::new(name).unwrap().as_str(), name);
    }
}

/// Guarantee: each violation of the rule has its own error.
#[test]
fn odd_names_are_refused_with_the_reason() {
    assert_eq!(Identifier::new(""), Err(IdentifierError::Empty));
    assert_eq!(Identifier::new("a".repeat(64)), Err(IdentifierError::TooLong { length: 64 }));
    for (name, character, position) in
        [("9a", '9', 0), ("a-b", '-', 1), ("a`; DROP", '`', 1), ("ü", 'ü', 0), ("a\0", '\0', 1)]
    {
        assert_eq!(Identifier::new(name), Err(IdentifierError::Character { character, position }));
    }
}

proptest! {
    /// Guarantee: an accepted name has only characters that can't end a quoted name.
    #[test]
    fn accepted_names_hold_only_word_characters(name in ".{0,80}") {
        if let Ok(identifier) = Identifier::new(name) {
            let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            prop_assert!(identifier.as_str().bytes().all(word));
        }
    }
}
