//! Splits Rust source into tokens without its comments, precisely enough to find names in it. It
//! judges nothing.

/// Marks of several characters that [`super::locals`] must not take for shorter ones.
const MARKS: &[&str] =
    &["..=", "::", "=>", "==", "->", "<=", ">=", "!=", "&&", "||", "..", "+=", "-=", "*=", "|="];
/// What a literal may begin with before its quote.
const PREFIXES: &[&str] = &["b", "br", "c", "cr", "r"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// An identifier or a keyword.
    Word,
    /// A number, a text or a character.
    Literal,
    Lifetime,
    Mark,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: &'t str,
    /// Counted from 1.
    pub(super) line: usize,
}

/// All tokens of a source text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut rest, mut line) = (text, 1);
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let blank_len = blank_len(rest, first);
        let (kind, len) = match blank_len {
            0 => token_len(rest, first),
            _ => (TokenKind::Mark, blank_len),
        };
        let (text, behind) = rest.split_at(len);
        if blank_len == 0 {
            found.push(Token { kind, text, line });
        }
        line += text.matches('\n').count();
        rest = behind;
    }
    found
}

/// The length of the space or comment at the beginning.
fn blank_len(text: &str, first: char) -> usize {
    if first.is_whitespace() {
        return first.len_utf8();
    }
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if !text.starts_with("/*") {
        return 0;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let Some(mark) = text[at..].find(['*', '/']).map(|offset| at + offset) else { break };
        let (change, len) = match text.get(mark..mark + 2) {
            Some("/*") => (1, 2),
            Some("*/") => (-1, 2),
            _ => (0, 1),
        };
        depth += change;
        at = mark + len;
    }
    if depth > 0 { text.len() } else { at }
}

fn token_len(text: &str, first: char) -> (TokenKind, usize) {
    match first {
        '"' => (TokenKind::Literal, quoted_len(text, '"')),
        '\'' => quote_len(text),
        '0'..='9' => (TokenKind::Literal, number_len(text)),
        _ if is_of_word(first) => word_len(text),
        _ => {
            let mark = MARKS.iter().find(|mark| text.starts_with(**mark));
            (TokenKind::Mark, mark.map_or(first.len_utf8(), |mark| mark.len()))
        }
    }
}

fn is_of_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// A word, or the literal that it begins: `b"..."`, `r#"..."#`, `b'a'`.
fn word_len(text: &str) -> (TokenKind, usize) {
    let len = text.find(|character| !is_of_word(character)).unwrap_or(text.len());
    let (word, behind) = text.split_at(len);
    if !PREFIXES.contains(&word) {
        return (TokenKind::Word, len);
    }
    let hashes = behind.len() - behind.trim_start_matches('#').len();
    let quote = behind[hashes..].chars().next();
    match quote {
        Some('"') if word.ends_with('r') => {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = len + hashes + 1;
            let close = text[begin..].find(&end).map(|offset| begin + offset + end.len());
            (TokenKind::Literal, close.unwrap_or(text.len()))
        }
        Some(quote @ ('"' | '\'')) if hashes == 0 => {
            (TokenKind::Literal, len + quoted_len(behind, quote))
        }
        _ => (TokenKind::Word, len),
    }
}

/// A character, or a lifetime.
fn quote_len(text: &str) -> (TokenKind, usize) {
    let mut inner = text.chars().skip(1);
    let (first, second) = (inner.next(), inner.next());
    if first == Some('\\') || second == Some('\'') {
        return (TokenKind::Literal, quoted_len(text, '\''));
    }
    let name = text[1..].find(|character| !is_of_word(character));
    (TokenKind::Lifetime, name.map_or(text.len(), |len| len + 1))
}

/// The length of what a quote begins, to its end.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if !is_escaped && character == quote {
            return at + 1;
        }
        is_escaped = !is_escaped && character == '\\';
    }
    text.len()
}

/// A number's length. A point belongs to it only before a digit: `0..4` has two numbers.
fn number_len(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let is_point = character == '.' && next.is_some_and(|next| next.is_ascii_digit());
        if !is_of_word(character) && !is_point {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{TokenKind, tokens};

    /// Scenario: each kind of literal, comment and mark. Guarantee: words are the code's own, and
    /// lines are counted through literals and comments.
    #[test]
    fn literals_and_comments_have_no_words() {
        let text = "\
let one = 'a'; // let no
let two = r#\"let \"no\"\"#; /* let /* no */ no */
let three = b'\\''; let four = b\"let \\\" no\";
let five: &'static str = \"
let no\";
let six = 0x1f..1.5e3;";
        let found = tokens(text);
        let names: Vec<_> = found
            .iter()
            .filter(|token| token.kind == TokenKind::Word && token.text != "let")
            .map(|token| (token.line, token.text))
            .collect();
        let expected = [
            (1, "one"),
            (2, "two"),
            (3, "three"),
            (3, "four"),
            (4, "five"),
            (4, "str"),
            (6, "six"),
        ];
        assert_eq!(names, expected);
        let numbers = found.iter().rev().take(4).map(|token| token.text);
        assert!(numbers.eq([";", "1.5e3", "..", "0x1f"]));
    }
}
