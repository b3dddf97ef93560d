//! Reads JSON as values: numbers are doubles, as in the Collector.

use millrace_wire::limits::NESTING_DEPTH;

use crate::edit::encode::{put_element, put_member, store_any};
use crate::edit::memory::Ref;
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::value::Value;

const INVALID: RuleFailure = RuleFailure::Text("a json object or list");

impl Machine<'_> {
    /// Reads an object or list.
    pub(in crate::eval) fn parse_json(&mut self, text: Ref) -> Result<Value, RuleFailure> {
        self.memory.text(text)?;
        let mut reader = JsonScanner { text, at: 0 };
        let value = self.json_value(&mut reader, 0)?;
        self.skip_space(&mut reader);
        let is_complete = reader.at == text.len();
        match value {
            Value::Map(_) | Value::List(_) if is_complete => Ok(value),
            _ => Err(INVALID),
        }
    }

    fn json_value(&mut self, reader: &mut JsonScanner, depth: u32) -> Result<Value, RuleFailure> {
        if depth > NESTING_DEPTH {
            return Err(RuleFailure::TooDeep);
        }
        self.skip_space(reader);
        match self.json_byte(reader) {
            Some(b'{') => self.json_object(reader, depth),
            Some(b'[') => self.json_list(reader, depth),
            Some(b'"') => self.json_string(reader).map(Value::Str),
            Some(b't') => self.json_word(reader, b"true", Value::Bool(true)),
            Some(b'f') => self.json_word(reader, b"false", Value::Bool(false)),
            Some(b'n') => self.json_word(reader, b"null", Value::Nil),
            _ => self.json_number(reader),
        }
    }

    fn json_object(&mut self, reader: &mut JsonScanner, depth: u32) -> Result<Value, RuleFailure> {
        reader.at += 1;
        let mut members: Vec<Slot> = Vec::new();
        self.skip_space(reader);
        let mut is_done = self.take_byte(reader, b'}');
        while !is_done {
            self.skip_space(reader);
            if self.json_byte(reader) != Some(b'"') {
                return Err(INVALID);
            }
            let key = self.json_string(reader)?;
            self.skip_space(reader);
            if !self.take_byte(reader, b':') {
                return Err(INVALID);
            }
            let value = self.json_value(reader, depth + 1)?;
            let any = store_any(&mut self.memory, value)?;
            members.push(Slot::new(key, any));
            is_done = self.json_separator(reader, b'}')?;
        }
        self.drop_repeated_keys(&mut members);
        let mark = self.memory.mark();
        for member in &members {
            put_member(&mut self.memory, member)?;
        }
        Ok(Value::Map(self.memory.since(mark)))
    }

    /// Removes all members of which a later one has the same key.
    fn drop_repeated_keys(&self, members: &mut Vec<Slot>) {
        let mut known = std::collections::HashSet::with_capacity(members.len());
        members.reverse();
        members.retain(|member| known.insert(self.memory.get(member.key)));
        members.reverse();
    }

    fn json_list(&mut self, reader: &mut JsonScanner, depth: u32) -> Result<Value, RuleFailure> {
        reader.at += 1;
        let first = self.buffers.refs.len();
        self.skip_space(reader);
        let mut is_done = self.take_byte(reader, b']');
        while !is_done {
            let value = self.json_value(reader, depth + 1)?;
            let any = store_any(&mut self.memory, value)?;
            self.buffers.refs.push(any);
            is_done = self.json_separator(reader, b']')?;
        }
        let mark = self.memory.mark();
        for any in self.buffers.refs.drain(first..) {
            put_element(&mut self.memory, any)?;
        }
        Ok(Value::List(self.memory.since(mark)))
    }

    /// Reads a comma or the end of a list or object. Returns whether it was the end.
    fn json_separator(&self, reader: &mut JsonScanner, end: u8) -> Result<bool, RuleFailure> {
        self.skip_space(reader);
        if self.take_byte(reader, b',') {
            return Ok(false);
        }
        if self.take_byte(reader, end) { Ok(true) } else { Err(INVALID) }
    }

    fn json_word(
        &self,
        reader: &mut JsonScanner,
        word: &[u8],
        value: Value,
    ) -> Result<Value, RuleFailure> {
        if !self.unread(reader).starts_with(word) {
            return Err(INVALID);
        }
        reader.at += word.len();
        Ok(value)
    }

    fn json_number(&self, reader: &mut JsonScanner) -> Result<Value, RuleFailure> {
        let rest = self.unread(reader);
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let length = rest.iter().take_while(|byte| is_part(byte)).count();
        let text = std::str::from_utf8(&rest[..length]).map_err(|_| INVALID)?;
        let digits = text.strip_prefix('-').unwrap_or(text);
        let starts_well = digits.starts_with(|first: char| first.is_ascii_digit())
            && !(digits.len() > 1
                && digits.starts_with('0')
                && digits.as_bytes()[1].is_ascii_digit());
        let number: f64 = text.parse().map_err(|_| INVALID)?;
        if !starts_well || !number.is_finite() {
            return Err(INVALID);
        }
        reader.at += length;
        Ok(Value::Double(number))
    }

    fn json_string(&mut self, reader: &mut JsonScanner) -> Result<Ref, RuleFailure> {
        reader.at += 1;
        let start = reader.at;
        let rest = self.unread(reader);
        let end = memchr::memchr2(b'"', b'\\', rest).ok_or(INVALID)?;
        if rest[end] == b'"' {
            reader.at += end + 1;
            return Ok(reader.text.part(start, end));
        }
        let mut out = std::mem::take(&mut self.buffers.text);
        out.clear();
        let read = read_escaped(self.unread(reader), &mut out);
        let stored = read.and_then(|length| {
            reader.at += length;
            self.memory.store(&out)
        });
        self.buffers.text = out;
        stored
    }

    fn unread(&self, reader: &JsonScanner) -> &[u8] {
        &self.memory.get(reader.text)[reader.at..]
    }

    fn json_byte(&self, reader: &JsonScanner) -> Option<u8> {
        self.unread(reader).first().copied()
    }

    fn take_byte(&self, reader: &mut JsonScanner, byte: u8) -> bool {
        let is_next = self.json_byte(reader) == Some(byte);
        reader.at += usize::from(is_next);
        is_next
    }

    fn skip_space(&self, reader: &mut JsonScanner) {
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        reader.at += self.unread(reader).iter().take_while(is_space).count();
    }
}

/// A position in a JSON text.
struct JsonScanner {
    text: Ref,
    at: usize,
}

/// Reads a string behind its first quote. Returns its length with the last quote.
fn read_escaped(text: &[u8], out: &mut Vec<u8>) -> Result<usize, RuleFailure> {
    let mut at = 0;
    loop {
        match text.get(at) {
            None => return Err(INVALID),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => {
                let (character, length) = escape(&text[at + 1..])?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                at += 1 + length;
            }
            Some(byte) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
}

/// Reads an escape behind its backslash: returns its character and length. A lone half of a pair of
/// surrogates becomes U+FFFD.
fn escape(text: &[u8]) -> Result<(char, usize), RuleFailure> {
    let character = match text.first() {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let high = unit(text.get(1..5))?;
            if let Some(character) = char::from_u32(high) {
                return Ok((character, 5));
            }
            if high < 0xdc00 && text.get(5..7) == Some(b"\\u") {
                let low = unit(text.get(7..11))?;
                if (0xdc00..0xe000).contains(&low) {
                    let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                    return Ok((char::from_u32(code).unwrap_or('\u{fffd}'), 11));
                }
            }
            return Ok(('\u{fffd}', 5));
        }
        _ => return Err(INVALID),
    };
    Ok((character, 1))
}

fn unit(digits: Option<&[u8]>) -> Result<u32, RuleFailure> {
    let digits = digits.ok_or(INVALID)?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16).ok_or(INVALID)?;
        Ok(unit << 4 | digit)
    })
}
