//! Runs converters of maps, lists, times and ids.

use crate::edit::encode::{load_map, put_element, put_member, store_any};
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::converters::time::{date_part, parse_time};
use crate::eval::fields::write::decode_hex;
use crate::program::{Call, Expr};
use crate::value::Value;

impl Machine<'_> {
    pub(in crate::eval) fn call_other(&mut self, call: &Call) -> Result<Value, RuleFailure> {
        match call {
            Call::ParseJson(target) => {
                let text = self.text(target)?;
                self.parse_json(text)
            }
            Call::ExtractPatterns { target, pattern } => self.extract_patterns(target, pattern),
            Call::Time { target, layout } => {
                let text = self.text(target)?;
                let time = parse_time(layout, self.memory.text(text)?);
                time.map(Value::Time).ok_or(RuleFailure::Text("a time of this format"))
            }
            Call::DatePart(part, target) => {
                let time = self.time(target)?;
                Ok(Value::Int(date_part(*part, time)))
            }
            Call::Index { target, value } => self.index(target, value),
            Call::Keys(target) => self.keys_or_values(target, true),
            Call::Values(target) => self.keys_or_values(target, false),
            Call::TraceId(target) => Ok(Value::TraceId(self.id(target)?)),
            Call::SpanId(target) => Ok(Value::SpanId(self.id(target)?)),
            _ => Err(RuleFailure::Argument("unknown converter")),
        }
    }

    fn extract_patterns(
        &mut self,
        target: &Expr,
        pattern: &regex::Regex,
    ) -> Result<Value, RuleFailure> {
        let target = self.text(target)?;
        let first = self.buffers.refs.len();
        let all = self.memory.text(target)?;
        let Some(groups) = pattern.captures(all) else {
            return Ok(Value::Map(self.memory.since(self.memory.mark())));
        };
        for name in pattern.capture_names().flatten() {
            let group = groups.name(name).map_or("", |group| group.as_str());
            let group = if group.is_empty() {
                target.part(0, 0)
            } else {
                target.locate(all.as_bytes(), group.as_bytes())
            };
            self.buffers.refs.push(group);
        }
        drop(groups);
        for (position, name) in pattern.capture_names().flatten().enumerate() {
            let group = self.buffers.refs[first + position];
            let any = store_any(&mut self.memory, Value::Str(group))?;
            self.buffers.refs[first + position] = any;
            let key = self.memory.store(name.as_bytes())?;
            self.buffers.refs.push(key);
        }
        let count = (self.buffers.refs.len() - first) / 2;
        let mark = self.memory.mark();
        for position in first..first + count {
            let (any, key) = (self.buffers.refs[position], self.buffers.refs[position + count]);
            put_member(&mut self.memory, &Slot::new(key, any))?;
        }
        self.buffers.refs.truncate(first);
        Ok(Value::Map(self.memory.since(mark)))
    }

    fn index(&mut self, target: &Expr, value: &Expr) -> Result<Value, RuleFailure> {
        let (target, value) = (self.eval(target)?, self.eval(value)?);
        let position = match (target, value) {
            (Value::Str(all), Value::Str(part)) => {
                memchr::memmem::find(self.memory.get(all), self.memory.get(part))
            }
            (Value::Str(_), other) => {
                return Err(RuleFailure::Type { expected: "string", found: other.type_name() });
            }
            (Value::List(list), value) => self.position(list, value)?,
            (other, _) => {
                return Err(RuleFailure::Type {
                    expected: "string or list",
                    found: other.type_name(),
                });
            }
        };
        Ok(Value::Int(position.map_or(-1, |position| position as i64)))
    }

    fn keys_or_values(&mut self, target: &Expr, is_keys: bool) -> Result<Value, RuleFailure> {
        let map = self.map_value(target)?;
        let mut slots = Vec::new();
        load_map(&self.memory, map, &mut slots)?;
        for slot in slots.iter_mut().filter(|_| is_keys) {
            slot.value = store_any(&mut self.memory, Value::Str(slot.key))?;
        }
        let mark = self.memory.mark();
        for slot in &slots {
            put_element(&mut self.memory, slot.value)?;
        }
        Ok(Value::List(self.memory.since(mark)))
    }

    /// Computes an id from its bytes or from hexadecimal digits.
    fn id<const N: usize>(&mut self, target: &Expr) -> Result<[u8; N], RuleFailure> {
        let bytes = self.bytes_like(target)?;
        let bytes = self.memory.get(bytes);
        bytes.try_into().or_else(|_| decode_hex(bytes))
    }
}
