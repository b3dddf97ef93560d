//! A JSON tokenizer over a slice of valid UTF-8: hands out what comes next, copies only strings
//! with escapes in them, and never recurses.

use std::borrow::Cow;

use super::error::{JsonErrorKind, Stop};

/// What is left of a text.
pub(super) struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// A number, bool or string, as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The characters of a number, of the right grammar.
    Number(&'a [u8]),
    /// A string, its escapes undone.
    Text(Cow<'a, [u8]>),
    /// `true` or `false`.
    Bool(bool),
}

type Read<T> = Result<T, Box<Stop>>;

impl<'a> Reader<'a> {
    /// Reads `text`, which must be valid UTF-8.
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Where the next value begins.
    pub(super) fn position(&mut self) -> usize {
        self.skip_space();
        self.at
    }

    #[cold]
    pub(super) fn stop(&self, kind: JsonErrorKind) -> Box<Stop> {
        Stop::at(self.at, kind)
    }

    /// The next character that isn't space, left where it is.
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

    /// Takes `character` if it comes next.
    #[inline]
    pub(super) fn eat(&mut self, character: u8) -> bool {
        let found = self.peek() == Some(character);
        self.at += usize::from(found);
        found
    }

    /// Takes `character`, or says that `what` should be here.
    #[inline]
    pub(super) fn expect(&mut self, character: u8, what: &'static str) -> Read<()> {
        if self.eat(character) { Ok(()) } else { Err(self.unexpected(what)) }
    }

    #[cold]
    fn unexpected(&self, what: &'static str) -> Box<Stop> {
        self.stop(match self.text.get(self.at) {
            Some(_) => JsonErrorKind::Expected(what),
            None => JsonErrorKind::Truncated(what),
        })
    }

    /// After an item of a list or object: whether another follows, or `close`.
    #[inline]
    pub(super) fn goes_on(&mut self, close: u8) -> Read<bool> {
        if self.eat(b',') {
            return Ok(true);
        }
        let what = if close == b'}' { "a comma or }" } else { "a comma or ]" };
        self.expect(close, what).map(|()| false)
    }

    /// Takes `null` if it comes next.
    pub(super) fn eat_null(&mut self) -> Read<bool> {
        if self.peek() == Some(b'n') { self.word(b"null").map(|()| true) } else { Ok(false) }
    }

    /// Nothing but space is left.
    pub(super) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.stop(JsonErrorKind::Trailing)),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Read<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.unexpected("true, false or null"))
        }
    }

    /// A string, borrowed when it has no escapes.
    pub(super) fn string(&mut self) -> Read<Cow<'a, [u8]>> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        if self.plain()? == b'"' {
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        self.at = start;
        let mut owned = Vec::new();
        self.pieces(|piece| {
            owned.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(Cow::Owned(owned))
    }

    /// A string, handed out in pieces.
    pub(super) fn text(&mut self, take: impl FnMut(&[u8]) -> Read<()>) -> Read<()> {
        self.expect(b'"', "a string")?;
        self.pieces(take)
    }

    /// The rest of a string whose first quote is read.
    fn pieces(&mut self, mut take: impl FnMut(&[u8]) -> Read<()>) -> Read<()> {
        loop {
            let start = self.at;
            let stopped_by = self.plain()?;
            take(&self.text[start..self.at - 1])?;
            if stopped_by == b'"' {
                return Ok(());
            }
            let mut utf8 = [0; 4];
            take(self.escape()?.encode_utf8(&mut utf8).as_bytes())?;
        }
    }

    /// Passes over characters that stand for themselves, and over the quote or backslash that ends
    /// them, which is told.
    #[inline]
    fn plain(&mut self) -> Read<u8> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
        match length {
            Some(length) => {
                self.at += length;
                let byte = rest[length];
                if byte < 0x20 {
                    return Err(self.stop(JsonErrorKind::Character));
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

    /// The character of an escape, whose backslash is read.
    fn escape(&mut self) -> Read<char> {
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
                return self.unicode();
            }
            _ => return Err(self.stop(JsonErrorKind::Character)),
        };
        self.at += 1;
        Ok(character)
    }

    /// `\uXXXX`, or two of them that make a pair; half a pair is U+FFFD.
    fn unicode(&mut self) -> Read<char> {
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
            None => Err(self.stop(JsonErrorKind::Character)),
        }
    }

    /// A number, bool or string.
    pub(super) fn scalar(&mut self) -> Read<Token<'a>> {
        match self.peek() {
            Some(b'"') => self.string().map(Token::Text),
            Some(b't') => self.word(b"true").map(|()| Token::Bool(true)),
            Some(b'f') => self.word(b"false").map(|()| Token::Bool(false)),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            _ => Err(self.unexpected("a number, a string or a bool")),
        }
    }

    fn number(&mut self) -> Read<&'a [u8]> {
        let rest = &self.text[self.at..];
        match number_len(rest) {
            Some(length) => {
                self.at += length;
                Ok(&rest[..length])
            }
            None => Err(self.stop(JsonErrorKind::Number("a number"))),
        }
    }

    /// Passes over any value. Lists and objects inside each other are counted, not followed.
    pub(super) fn skip_value(&mut self, max_depth: u32) -> Read<()> {
        // One bit a level: 1 for an object.
        let (mut objects, mut depth) = (0_u128, 0);
        loop {
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    self.at += 1;
                    if depth == max_depth.min(u128::BITS) {
                        return Err(self.stop(JsonErrorKind::TooDeep));
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
                Some(b'"') => self.text(|_| Ok(()))?,
                Some(b'n') => self.word(b"null")?,
                _ => drop(self.scalar()?),
            }
            // A value is complete, and with it as many lists and objects as end here.
            loop {
                if depth == 0 {
                    return Ok(());
                }
                let close = if objects & 1 == 1 { b'}' } else { b']' };
                if self.goes_on(close)? {
                    self.skip_key(objects)?;
                    break;
                }
                depth -= 1;
                objects >>= 1;
            }
        }
    }

    /// In an object, passes over a key.
    fn skip_key(&mut self, objects: u128) -> Read<()> {
        if objects & 1 == 1 {
            self.text(|_| Ok(()))?;
            self.expect(b':', "a colon")?;
        }
        Ok(())
    }
}

/// The length of the number that `text` begins with, by JSON's grammar.
pub(super) fn number_len(text: &[u8]) -> Option<usize> {
    let digits = |from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && text[at] == b'0') {
        return None;
    }
    at += whole;
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
#[path = "../../../tests/unit/otlp/json/reader.rs"]
mod tests;
