//! A JSON tokenizer over valid UTF-8: it returns one token at a time, copies only strings with
//! escapes, and never recurses.

use std::borrow::Cow;

use super::error::{JsonErrorKind, JsonFault};

/// The unread rest of a text.
pub(super) struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
}

/// A number, bool or string, as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The characters of a valid number.
    Number(&'a [u8]),
    /// A string without escapes.
    Text(Cow<'a, [u8]>),
    /// `true` or `false`.
    Bool(bool),
}

type Read<T> = Result<T, Box<JsonFault>>;

impl<'a> JsonReader<'a> {
    /// Returns a reader of `text`, which must be valid UTF-8.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the position of the next value.
    pub(super) fn position(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    #[cold]
    pub(super) fn fault_here(&self, kind: JsonErrorKind) -> Box<JsonFault> {
        JsonFault::new(self.at, kind)
    }

    /// Returns the next character that isn't white space, without reading it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
    }

    /// Reads `character` if it is next.
    #[inline]
    pub(super) fn eat(&mut self, character: u8) -> bool {
        let found = self.peek() == Some(character);
        self.at += usize::from(found);
        found
    }

    /// Reads `character`, or reports that `what` was expected.
    #[inline]
    pub(super) fn expect(&mut self, character: u8, what: &'static str) -> Read<()> {
        if self.eat(character) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    #[cold]
    fn unexpected(&self, what: &'static str) -> Box<JsonFault> {
        self.fault_here(match self.text.get(self.at) {
            Some(_) => JsonErrorKind::Expected(what),
            None => JsonErrorKind::Truncated(what),
        })
    }

    /// Reads the separator after an item of a list or object: true if another item follows, false
    /// at `close`.
    #[inline]
    pub(super) fn has_next_item(&mut self, close: u8) -> Read<bool> {
        if self.eat(b',') {
            return Ok(true);
        }
        let what = if close == b'}' { "a comma or }" } else { "a comma or ]" };
        self.expect(close, what).map(|()| false)
    }

    /// Reads `null` if it is next.
    pub(super) fn eat_null(&mut self) -> Read<bool> {
        if self.peek() == Some(b'n') {
            self.read_literal(b"null").map(|()| true)
        } else {
            Ok(false)
        }
    }

    /// Verifies that only white space is left.
    pub(super) fn expect_end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.fault_here(JsonErrorKind::Trailing)),
        }
    }

    fn read_literal(&mut self, word: &'static [u8]) -> Read<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.unexpected("true, false or null"))
        }
    }

    /// Reads a string; borrowed if it has no escapes.
    pub(super) fn read_string(&mut self) -> Read<Cow<'a, [u8]>> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        if self.skip_plain()? == b'"' {
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        self.at = start;
        let mut owned = Vec::new();
        self.stream_pieces(|piece| {
            owned.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Cow::Owned(owned))
    }

    /// Reads a string and passes it on in pieces.
    pub(super) fn stream_string(&mut self, take: impl FnMut(&[u8]) -> Read<()>) -> Read<()> {
        self.expect(b'"', "a string")?;
        self.stream_pieces(take)
    }

    /// Reads the rest of a string whose first quote is read.
    fn stream_pieces(&mut self, mut take: impl FnMut(&[u8]) -> Read<()>) -> Read<()> {
        loop {
            let start = self.at;
            let stopped_by = self.skip_plain()?;
            take(&self.text[start..self.at - 1])?;
            if stopped_by == b'"' {
                return Ok(());
            }
            let mut utf8 = [0; 4];
            take(self.read_escape()?.encode_utf8(&mut utf8).as_bytes())?;
        }
    }

    /// Skips characters that need no decoding, and the quote or backslash that ends them, which is
    /// returned.
    #[inline]
    fn skip_plain(&mut self) -> Read<u8> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        match length {
            Some(length) => {
                self.at += length;
                let byte = rest[length];
                if byte < 0x20 {
                    return Err(self.fault_here(JsonErrorKind::Character));
                }
                self.at += 1;
                Ok(byte)
            }
            None => {
                self.at = self.text.len();
                Err(self.unexpected("the end of a string"))
            }
        }
    }

    /// Reads the character of an escape, whose backslash is read.
    fn read_escape(&mut self) -> Read<char> {
        let Some(&kind) = self.text.get(self.at) else {
            return Err(self.unexpected("the end of a string"));
        };
        let character = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.read_unicode();
            }
            _ => return Err(self.fault_here(JsonErrorKind::Character)),
        };
        self.at += 1;
        Ok(character)
    }

    /// Reads `\uXXXX`, or two that form a pair; half a pair is U+FFFD.
    fn read_unicode(&mut self) -> Read<char> {
        let first = self.code_unit()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after_first = self.at;
        if self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.code_unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        self.at = after_first;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn code_unit(&mut self) -> Read<u32> {
        let digits = self.text.get(self.at..self.at + 4);
        let unit = digits.and_then(|digits| {
            digits
                .iter()
                .try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
        });
        match unit {
            Some(unit) => {
                self.at += 4;
                Ok(unit)
            }
            None => Err(self.fault_here(JsonErrorKind::Character)),
        }
    }

    /// Reads a number, bool or string.
    pub(super) fn read_scalar(&mut self) -> Read<Token<'a>> {
        match self.peek() {
            Some(b'"') => self.read_string().map(Token::Text),
            Some(b't') => self.read_literal(b"true").map(|()| Token::Bool(true)),
            Some(b'f') => self.read_literal(b"false").map(|()| Token::Bool(false)),
            Some(b'-' | b'0'..=b'9') => self.read_number().map(Token::Number),
            _ => Err(self.unexpected("a number, a string or a bool")),
        }
    }

    fn read_number(&mut self) -> Read<&'a [u8]> {
        let rest = &self.text[self.at..];
        match number_len(rest) {
            Some(length) => {
                self.at += length;
                Ok(&rest[..length])
            }
            None => Err(self.fault_here(JsonErrorKind::Number("a number"))),
        }
    }

    /// Skips any value. Counts nested lists and objects instead of recursing.
    pub(super) fn skip_value(&mut self, max_depth: u32) -> Read<()> {
        // One bit per level: 1 for an object.
        let (mut objects, mut depth) = (0_u128, 0);
        loop {
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    if depth == max_depth.min(u128::BITS) {
                        return Err(self.fault_here(JsonErrorKind::TooDeep));
                    }
                    depth += 1;
                    objects = objects << 1 | u128::from(open == b'{');
                    let close = if open == b'{' { b'}' } else { b']' };
                    if !self.eat(close) {
                        self.skip_key(objects)?;
                        continue;
                    }
                    depth -= 1;
                    objects >>= 1;
                }
                Some(b'"') => self.stream_string(|_| Ok(()))?,
                Some(b'n') => self.read_literal(b"null")?,
                _ => drop(self.read_scalar()?),
            }
            // A value is complete, and with it each list and object that ends here.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let close = if objects & 1 == 1 { b'}' } else { b']' };
                if self.has_next_item(close)? {
                    self.skip_key(objects)?;
                    break;
                }
                depth -= 1;
                objects >>= 1;
            }
        }
    }

    /// Skips a key if inside an object.
    fn skip_key(&mut self, objects: u128) -> Read<()> {
        if objects & 1 == 1 {
            self.stream_string(|_| Ok(()))?;
            self.expect(b':', "a colon")?;
        }
        Ok(())
    }
}

/// Returns the length of the number at the start of `text`, by JSON's grammar.
pub(super) fn number_len(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    let integer_len = digits(at);
    if integer_len == 0 || (integer_len > 1 && text[at] == b'0') {
        return None;
    }
    at += integer_len;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent == 0 {
            return None;
        }
        at += 1 + sign + exponent;
    }
    Some(at)
}

#[cfg(test)]
mod tests;
