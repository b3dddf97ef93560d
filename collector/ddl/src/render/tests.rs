//! Tests of the private functions of `render/mod.rs`.

use super::{literal, quote};
use proptest::prelude::*;

/// Reads a quoted text back as ClickHouse's lexer does, up to the first unescaped quote. Returns
/// the text and the remainder behind the quote.
fn read_back(quoted: &str, mark: char) -> Option<(String, String)> {
    let mut rest = quoted.strip_prefix(mark)?.chars();
    let mut text = String::new();
    while let Some(character) = rest.next() {
        match character {
            '\\' => text.push(match rest.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                '0' => '\0',
                other => other,
            }),
            c if c == mark => return Some((text, rest.collect())),
            other => text.push(other),
        }
    }
    None
}

/// Scenario: texts that try to escape their quotes. Guarantee: they stay inside.
#[test]
fn injections_stay_inside_their_quotes() {
    for text in ["'; DROP TABLE x --", "\\'", "\\", "`; --", "a\\`b", "\0", "${x}", "' OR 1=1"] {
        assert_eq!(read_back(&literal(text), '\''), Some((text.to_owned(), String::new())));
        assert_eq!(read_back(&quote(text), '`'), Some((text.to_owned(), String::new())));
    }
}

proptest! {
    /// Guarantee: any text is one literal, or one name, and reads back unchanged.
    #[test]
    fn any_text_stays_inside_its_quotes(text in any::<String>()) {
        prop_assert_eq!(read_back(&literal(&text), '\''), Some((text.clone(), String::new())));
        prop_assert_eq!(read_back(&quote(&text), '`'), Some((text, String::new())));
    }
}
