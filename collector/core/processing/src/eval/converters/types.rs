//! Converts values between types, as `Int`, `Double`, `Bool` and `String` do.

use crate::edit::memory::Ref;
use crate::error::RuleFailure;
use crate::eval::Machine;
use crate::eval::json::write::Style;
use crate::program::Expr;
use crate::value::Value;

impl Machine<'_> {
    /// Computes a value and converts it to text; nil stays nil.
    pub(in crate::eval) fn text_like(&mut self, expr: &Expr) -> Result<Option<Ref>, RuleFailure> {
        match self.eval(expr)? {
            Value::Nil => Ok(None),
            Value::Str(text) => Ok(Some(text)),
            other => self.text_of(other, Style::FUNCTIONS).map(Some),
        }
    }

    /// Computes a value and converts it to bytes; nil is no bytes.
    pub(in crate::eval) fn bytes_like(&mut self, expr: &Expr) -> Result<Ref, RuleFailure> {
        match self.eval(expr)? {
            Value::Nil => Ok(Ref::EMPTY),
            Value::Str(bytes) | Value::Bytes(bytes) => Ok(bytes),
            Value::Int(number) => self.memory.store(&number.to_be_bytes()),
            Value::Double(number) => self.memory.store(&number.to_be_bytes()),
            Value::Bool(truth) => self.memory.store(&[u8::from(truth)]),
            other => Err(RuleFailure::Type {
                expected: "string, bytes, int, double or bool",
                found: other.type_name(),
            }),
        }
    }

    /// Converts a value to a whole number.
    pub(in crate::eval) fn to_int(&self, value: Value) -> Result<Value, RuleFailure> {
        Ok(match value {
            Value::Nil | Value::Int(_) => value,
            Value::Double(number) => Value::Int(truncate(number)),
            Value::Bool(truth) => Value::Int(i64::from(truth)),
            Value::Str(text) => Value::Int(
                self.memory.text(text)?.parse().map_err(|_| RuleFailure::Text("a whole number"))?,
            ),
            other => return Err(wrong_type(other)),
        })
    }

    /// Converts a value to a double.
    pub(in crate::eval) fn to_double(&self, value: Value) -> Result<Value, RuleFailure> {
        Ok(match value {
            Value::Nil | Value::Double(_) => value,
            Value::Int(number) => Value::Double(number as f64),
            Value::Bool(truth) => Value::Double(f64::from(u8::from(truth))),
            Value::Str(text) => Value::Double(
                parse_double(self.memory.text(text)?).ok_or(RuleFailure::Text("a number"))?,
            ),
            other => return Err(wrong_type(other)),
        })
    }

    /// Converts a value to a truth value.
    pub(in crate::eval) fn to_bool(&self, value: Value) -> Result<Value, RuleFailure> {
        Ok(match value {
            Value::Nil | Value::Bool(_) => value,
            Value::Int(number) => Value::Bool(number != 0),
            Value::Double(number) => Value::Bool(number != 0.0),
            Value::Str(text) => match self.memory.text(text)? {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Value::Bool(true),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Value::Bool(false),
                _ => return Err(RuleFailure::Text("true or false")),
            },
            other => return Err(wrong_type(other)),
        })
    }
}

fn wrong_type(value: Value) -> RuleFailure {
    RuleFailure::Type { expected: "string, int, double or bool", found: value.type_name() }
}

/// Removes a double's fraction; numbers beyond 64 bits become the least, as Go has it on x86-64.
fn truncate(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// Reads a double as Go does: numbers beyond its range are refused, infinity is accepted.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let is_beyond = number.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit());
    (!is_beyond).then_some(number)
}

/// Reads a whole number to a base; with base 0 a prefix names it, as in Go.
pub(in crate::eval) fn parse_int(text: &str, base: i64) -> Option<i64> {
    if base != 0 {
        let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
        return i64::from_str_radix(text, radix).ok();
    }
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => ("-", &text[1..]),
        [b'+', ..] => ("", &text[1..]),
        _ => ("", text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}
