//! Runs converters of text.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use crate::edit::encode::{Members, parse_any, store_any};
use crate::edit::memory::Ref;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::converters::types::parse_int;
use crate::eval::json::write::Style;
use crate::program::text_fn::put_hex;
use crate::program::{Affix, Call, Expr};
use crate::value::Value;

/// How `Concat` writes nil: as the Collector does.
const NIL: &[u8] = b"<nil>";

impl Machine<'_> {
    pub(in crate::eval) fn call_text(&mut self, call: &Call) -> Result<Value, RuleFailure> {
        let text = match call {
            Call::Text(function, target) => {
                let text = self.text(target)?;
                let mut out = std::mem::take(&mut self.buffers.text);
                out.clear();
                let done = self.memory.text(text).map(|text| function.apply(text, &mut out));
                let stored = done.and_then(|()| self.memory.store(&out));
                self.buffers.text = out;
                stored?
            }
            Call::Concat { values, delimiter } => self.concat(values, delimiter)?,
            Call::ConcatList { list, delimiter } => self.concat_list(list, delimiter)?,
            Call::Split { target, delimiter } => return self.split(target, delimiter),
            Call::Substring { target, start, length } => {
                let start = self.int(start)?;
                let length = self.int(length)?;
                let target = self.text(target)?;
                self.substring(target, start, length)?
            }
            Call::TrimAffix { affix, target, text } => {
                let (target, text) = (self.text(target)?, self.text(text)?);
                self.trim_affix(target, text, *affix)
            }
            Call::HasAffix { affix, target, text } => {
                let (target, text) = (self.text(target)?, self.text(text)?);
                let (target, text) = (self.memory.get(target), self.memory.get(text));
                return Ok(Value::Bool(match affix {
                    Affix::Prefix => target.starts_with(text),
                    Affix::Suffix => target.ends_with(text),
                }));
            }
            Call::Trim { target, characters } => {
                let target = self.text(target)?;
                let all = self.memory.text(target)?;
                let trimmed = all.trim_matches(characters.as_slice());
                target.locate(all.as_bytes(), trimmed.as_bytes())
            }
            Call::Fnv(target) => {
                let target = self.text(target)?;
                return Ok(Value::Int(fnv1a(self.memory.get(target)).cast_signed()));
            }
            Call::ParseInt { target, base } => {
                let target = self.text(target)?;
                let base = self.int(base)?;
                let number = parse_int(self.memory.text(target)?, base);
                return number.map(Value::Int).ok_or(RuleFailure::Text("a whole number"));
            }
            _ => return self.call_encoding(call),
        };
        Ok(Value::Str(text))
    }

    fn call_encoding(&mut self, call: &Call) -> Result<Value, RuleFailure> {
        let text = match call {
            Call::Hex(target) => {
                let bytes = self.bytes_like(target)?;
                let mut out = std::mem::take(&mut self.buffers.text);
                out.clear();
                put_hex(self.memory.get(bytes), &mut out);
                let stored = self.memory.store(&out);
                self.buffers.text = out;
                stored?
            }
            Call::Base64Encode { target, is_url, is_padded } => {
                let target = self.text(target)?;
                let bytes = self.memory.get(target);
                let encoded = match (is_url, is_padded) {
                    (false, true) => STANDARD.encode(bytes),
                    (false, false) => STANDARD_NO_PAD.encode(bytes),
                    (true, true) => URL_SAFE.encode(bytes),
                    (true, false) => URL_SAFE_NO_PAD.encode(bytes),
                };
                self.memory.store(encoded.as_bytes())?
            }
            Call::Base64Decode(target) => {
                let target = self.text(target)?;
                let decoded = STANDARD
                    .decode(self.memory.get(target))
                    .map_err(|_| RuleFailure::Text("base64"))?;
                if std::str::from_utf8(&decoded).is_err() {
                    return Err(RuleFailure::Utf8);
                }
                self.memory.store(&decoded)?
            }
            _ => return self.call_other(call),
        };
        Ok(Value::Str(text))
    }

    fn concat(&mut self, values: &[Expr], delimiter: &Expr) -> Result<Ref, RuleFailure> {
        let delimiter = self.text(delimiter)?;
        let first = self.buffers.refs.len();
        for value in values {
            let value = self.eval(value)?;
            let text = self.concat_text(value)?;
            self.buffers.refs.push(text);
        }
        self.join_texts(first, delimiter)
    }

    fn concat_list(&mut self, list: &Expr, delimiter: &Expr) -> Result<Ref, RuleFailure> {
        let delimiter = self.text(delimiter)?;
        let list = self.list_value(list)?;
        let first = self.buffers.refs.len();
        let mut members = Members::new(&self.memory, list);
        while let Some(any) = members.next_member()? {
            self.buffers.refs.push(any);
        }
        for index in first..self.buffers.refs.len() {
            let value = parse_any(&self.memory, self.buffers.refs[index])?;
            self.buffers.refs[index] = self.concat_text(value)?;
        }
        self.join_texts(first, delimiter)
    }

    fn concat_text(&mut self, value: Value) -> Result<Ref, RuleFailure> {
        match value {
            Value::Str(text) => Ok(text),
            Value::Nil => self.memory.store(NIL),
            other => self.text_of(other, Style::FUNCTIONS),
        }
    }

    /// Joins the texts from `first` on, and removes them.
    fn join_texts(&mut self, first: usize, delimiter: Ref) -> Result<Ref, RuleFailure> {
        let texts = &self.buffers.refs[first..];
        let length: usize = texts.iter().map(|text| text.len() + delimiter.len()).sum();
        self.memory.reserve(length)?;
        let mark = self.memory.mark();
        for (position, text) in self.buffers.refs.drain(first..).enumerate() {
            if position > 0 {
                self.memory.put_ref(delimiter);
            }
            self.memory.put_ref(text);
        }
        Ok(self.memory.since(mark))
    }

    fn split(&mut self, target: &Expr, delimiter: &Expr) -> Result<Value, RuleFailure> {
        let (target, delimiter) = (self.text(target)?, self.text(delimiter)?);
        let first = self.buffers.refs.len();
        let (all, by) = (self.memory.text(target)?, self.memory.text(delimiter)?);
        let mut put = |part: &str| {
            self.buffers.refs.push(target.locate(all.as_bytes(), part.as_bytes()));
        };
        if by.is_empty() {
            // Into characters, without the empty parts before the first and behind the last one.
            for (position, character) in all.char_indices() {
                put(&all[position..position + character.len_utf8()]);
            }
        } else {
            all.split(by).for_each(&mut put);
        }
        for index in first..self.buffers.refs.len() {
            let part = self.buffers.refs[index];
            self.buffers.refs[index] = store_any(&mut self.memory, Value::Str(part))?;
        }
        self.store_list(first).map(Value::List)
    }

    /// Returns a part of a text, without the parts of characters that are at its ends.
    fn substring(&self, target: Ref, start: i64, length: i64) -> Result<Ref, RuleFailure> {
        const OUTSIDE: RuleFailure =
            RuleFailure::Argument("the start and length are outside of the text");
        let text = self.memory.text(target)?;
        if length <= 0 {
            return Err(OUTSIDE);
        }
        let start = usize::try_from(start).map_err(|_| OUTSIDE)?;
        let length = usize::try_from(length).map_err(|_| OUTSIDE)?;
        let end = start.checked_add(length).filter(|end| *end <= text.len()).ok_or(OUTSIDE)?;
        let start = (start..end).find(|at| text.is_char_boundary(*at)).unwrap_or(end);
        let end = (start..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(start);
        Ok(target.part(start, end - start))
    }

    fn trim_affix(&self, target: Ref, text: Ref, affix: Affix) -> Ref {
        let (all, text) = (self.memory.get(target), self.memory.get(text));
        let trimmed = match affix {
            Affix::Prefix => all.strip_prefix(text),
            Affix::Suffix => all.strip_suffix(text),
        };
        trimmed.map_or(target, |trimmed| target.locate(all, trimmed))
    }
}

/// Returns the 64-bit FNV-1a hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}
