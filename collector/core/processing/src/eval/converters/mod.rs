//! Runs converters.

mod structured;
mod text;
pub(in crate::eval) mod time;
pub(crate) mod types;

use crate::edit::encode::{Members, parse_any};
use crate::edit::memory::Ref;
use crate::error::RuleFailure;
use crate::eval::{Machine, compare};
use crate::program::{Call, CompareOp, Expr, TypeName};
use crate::value::{Instant, Value};

impl Machine<'_> {
    /// Runs a converter.
    pub(in crate::eval) fn call(&mut self, call: &Call) -> Result<Value, RuleFailure> {
        Ok(match call {
            Call::IsMatch { target, pattern } => match self.text_like(target)? {
                Some(text) => Value::Bool(pattern.is_match(self.memory.text(text)?)),
                None => Value::Bool(false),
            },
            Call::IsType(tested, target) => {
                let value = self.eval(target)?;
                Value::Bool(is_type(*tested, value))
            }
            Call::IsRootSpan => {
                let span = &self.objects[crate::ottl::context::StatementContext::Span.index()];
                let parent = span.field(4).unwrap_or_default();
                Value::Bool(self.memory.get(parent).iter().all(|byte| *byte == 0))
            }
            Call::Int(target) => {
                let value = self.eval(target)?;
                self.to_int(value)?
            }
            Call::Double(target) => {
                let value = self.eval(target)?;
                self.to_double(value)?
            }
            Call::Bool(target) => {
                let value = self.eval(target)?;
                self.to_bool(value)?
            }
            Call::String(target) => self.text_like(target)?.map_or(Value::Nil, Value::Str),
            Call::Len(target) => {
                let value = self.eval(target)?;
                Value::Int(self.len(value)? as i64)
            }
            Call::Coalesce(values) => {
                for value in values {
                    let value = self.eval(value)?;
                    if !matches!(value, Value::Nil) {
                        return Ok(value);
                    }
                }
                Value::Nil
            }
            Call::UnixNanos { target, unit } => {
                let time = self.time(target)?;
                Value::Int(unix(time, *unit))
            }
            Call::Unix { seconds, nanos } => {
                let seconds = self.int(seconds)?;
                let nanos = match nanos {
                    Some(nanos) => self.int(nanos)?,
                    None => 0,
                };
                Value::Time(Instant::new(seconds, nanos))
            }
            Call::ContainsValue { target, item } => {
                let list = self.list_value(target)?;
                let item = self.eval(item)?;
                Value::Bool(self.position(list, item)?.is_some())
            }
            _ => return self.call_text(call),
        })
    }

    /// Returns a value's length: bytes of text, members of lists and maps.
    fn len(&self, value: Value) -> Result<usize, RuleFailure> {
        match value {
            Value::Str(bytes) | Value::Bytes(bytes) => Ok(bytes.len()),
            Value::List(container) | Value::Map(container) => {
                Ok(Members::new(&self.memory, container).count()?)
            }
            Value::Messages(count) => Ok(count),
            other => Err(RuleFailure::Type {
                expected: "string, bytes, list or map",
                found: other.type_name(),
            }),
        }
    }

    /// Computes a value that has to be a time.
    pub(in crate::eval) fn time(&mut self, expr: &Expr) -> Result<Instant, RuleFailure> {
        match self.eval(expr)? {
            Value::Time(time) => Ok(time),
            other => Err(RuleFailure::Type { expected: "time", found: other.type_name() }),
        }
    }

    /// Computes a value that has to be a list.
    pub(in crate::eval) fn list_value(&mut self, expr: &Expr) -> Result<Ref, RuleFailure> {
        match self.eval(expr)? {
            Value::List(list) => Ok(list),
            other => Err(RuleFailure::Type { expected: "list", found: other.type_name() }),
        }
    }

    /// Computes a value that has to be a map.
    pub(in crate::eval) fn map_value(&mut self, expr: &Expr) -> Result<Ref, RuleFailure> {
        match self.eval(expr)? {
            Value::Map(map) => Ok(map),
            other => Err(RuleFailure::Type { expected: "map", found: other.type_name() }),
        }
    }

    /// Returns the position of the first element of a list that equals a value.
    pub(in crate::eval) fn position(
        &self,
        list: Ref,
        value: Value,
    ) -> Result<Option<usize>, RuleFailure> {
        let mut members = Members::new(&self.memory, list);
        let mut position = 0;
        while let Some(any) = members.next_member()? {
            let element = parse_any(&self.memory, any)?;
            if compare::compare(&self.memory, CompareOp::Equal, element, value)? {
                return Ok(Some(position));
            }
            position += 1;
        }
        Ok(None)
    }
}

fn is_type(tested: TypeName, value: Value) -> bool {
    match tested {
        TypeName::String => matches!(value, Value::Str(_)),
        TypeName::Int => matches!(value, Value::Int(_)),
        TypeName::Double => matches!(value, Value::Double(_)),
        TypeName::Bool => matches!(value, Value::Bool(_)),
        TypeName::Map => matches!(value, Value::Map(_)),
        TypeName::List => matches!(value, Value::List(_) | Value::Messages(_)),
    }
}

/// Returns a time since 1970 in units of so many nanoseconds.
fn unix(time: Instant, unit: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    match unit {
        1 => time.unix_nanos(),
        _ => time.seconds.wrapping_mul(SECOND / unit).wrapping_add(i64::from(time.nanos) / unit),
    }
}
