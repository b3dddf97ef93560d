//! Compiles values, paths and conditions.

use millrace_wire::protobuf::{put_bytes, put_varint};

use crate::edit::memory::{Memory, Ref};
use crate::eval::compare::compare;
use crate::ottl::compile::Compiler;
use crate::ottl::context::{StatementContext, enums};
use crate::ottl::error::StatementError;
use crate::ottl::parser::syntax;
use crate::ottl::parser::syntax::{KeyKind, ValueKind};
use crate::ottl::paths::{FieldPath, fields};
use crate::program::{AttributeTest, Condition, Expr, Key, Kind, Path};
use crate::value::Value;

/// The cache's map, which belongs to no message.
const CACHE: FieldPath = FieldPath { name: "cache", kind: Kind::Map, numbers: [0; 4] };

impl Compiler<'_> {
    /// Compiles a value.
    pub(crate) fn value(&mut self, value: &syntax::Value) -> Result<Expr, StatementError> {
        Ok(match &value.kind {
            ValueKind::Path(path) => Expr::Path(Box::new(self.path(path)?)),
            ValueKind::Call(call) => self.converter(call)?,
            ValueKind::Math(op, left, right) => {
                Expr::Math(*op, Box::new(self.value(left)?), Box::new(self.value(right)?))
            }
            ValueKind::Negative(inner) => Expr::Negative(Box::new(self.value(inner)?)),
            ValueKind::Enum(name) => {
                let known = enums(self.context);
                let found = known.iter().find(|(known, _)| known == name);
                let number = found.map(|(_, number)| *number).ok_or_else(|| {
                    let message = format!("unknown enum {name:?} on a {}", self.context.name());
                    let names = known.iter().map(|(name, _)| *name);
                    StatementError::unknown(value.at, message, name, names)
                })?;
                self.constant(Value::Int(number))
            }
            ValueKind::Function(name) => {
                let message = format!("{name} is a converter: parentheses are missing");
                return Err(StatementError::new(value.at, message));
            }
            ValueKind::Nil => Expr::Const(Value::Nil, Ref::EMPTY),
            ValueKind::Bool(truth) => self.constant(Value::Bool(*truth)),
            ValueKind::Int(number) => self.constant(Value::Int(*number)),
            ValueKind::Double(number) => self.constant(Value::Double(*number)),
            ValueKind::Text(text) => {
                let text = self.constant_text(text);
                self.constant(Value::Str(text))
            }
            ValueKind::Bytes(bytes) => {
                let start = self.constants.len();
                self.constants.extend_from_slice(bytes);
                self.constant(Value::Bytes(Ref::constant(start, bytes.len())))
            }
            ValueKind::List(values) => {
                let values = values.iter().map(|value| self.value(value));
                let values: Vec<Expr> = values.collect::<Result<_, _>>()?;
                self.constant_list(&values).unwrap_or(Expr::List(values))
            }
            ValueKind::Map(members) => {
                let mut values = Vec::with_capacity(members.len());
                for (key, value) in members {
                    values.push((self.constant_text(key), self.value(value)?));
                }
                self.constant_map(&values).unwrap_or(Expr::Map(values))
            }
        })
    }

    /// Stores a constant's `AnyValue` message.
    fn constant(&mut self, value: Value) -> Expr {
        let start = self.constants.len();
        let mut message = Vec::new();
        let mut put = |tag, range: Ref, constants: &[u8]| {
            let start = range.end() - range.len();
            put_bytes(&mut message, tag, &constants[start..range.end()]);
        };
        match value {
            Value::Str(text) => put(0x0a, text, self.constants),
            Value::List(list) => put(0x2a, list, self.constants),
            Value::Map(map) => put(0x32, map, self.constants),
            Value::Bytes(bytes) => put(0x3a, bytes, self.constants),
            Value::Bool(truth) => message.extend([0x10, u8::from(truth)]),
            Value::Int(number) => {
                message.push(0x18);
                put_varint(&mut message, number.cast_unsigned());
            }
            Value::Double(number) => {
                message.push(0x21);
                message.extend(number.to_le_bytes());
            }
            _ => {}
        }
        self.constants.extend_from_slice(&message);
        Expr::Const(value, Ref::constant(start, message.len()))
    }

    /// Returns a list of constants as one constant.
    fn constant_list(&mut self, values: &[Expr]) -> Option<Expr> {
        let mut content = Vec::new();
        for value in values {
            let Expr::Const(_, any) = value else { return None };
            put_bytes(&mut content, 0x0a, self.constant_bytes(*any));
        }
        let start = self.constants.len();
        self.constants.extend_from_slice(&content);
        Some(self.constant(Value::List(Ref::constant(start, content.len()))))
    }

    /// Returns a map of constants as one constant.
    fn constant_map(&mut self, members: &[(Ref, Expr)]) -> Option<Expr> {
        let mut content = Vec::new();
        for (key, value) in members {
            let Expr::Const(_, any) = value else { return None };
            let mut member = Vec::new();
            put_bytes(&mut member, 0x0a, self.constant_bytes(*key));
            put_bytes(&mut member, 0x12, self.constant_bytes(*any));
            put_bytes(&mut content, 0x0a, &member);
        }
        let start = self.constants.len();
        self.constants.extend_from_slice(&content);
        Some(self.constant(Value::Map(Ref::constant(start, content.len()))))
    }

    fn constant_bytes(&self, range: Ref) -> &[u8] {
        &self.constants[range.end() - range.len()..range.end()]
    }

    /// Compiles keys.
    pub(crate) fn keys(&mut self, keys: &[syntax::Key]) -> Result<Vec<Key>, StatementError> {
        let mut compiled = Vec::with_capacity(keys.len());
        for key in keys {
            compiled.push(match &key.kind {
                KeyKind::Text(text) => Key::Text(self.constant_text(text)),
                KeyKind::Index(index) => Key::Index(*index),
                KeyKind::Value(value) => Key::Computed(self.value(value)?),
            });
        }
        Ok(compiled)
    }

    /// Compiles a path.
    pub(crate) fn path(&mut self, path: &syntax::Path) -> Result<Path, StatementError> {
        let (context, segments) = self.path_context(path)?;
        let names: Vec<&str> = segments.iter().map(|segment| segment.name.as_str()).collect();
        let name = names.join(".");
        let (context, field) = if context == self.context && name == CACHE.name {
            (StatementContext::Cache, &CACHE)
        } else {
            (context, find_field(context, &name, path)?)
        };
        let Some((last, others)) = segments.split_last() else {
            return Err(StatementError::new(path.at, "the path names no field"));
        };
        if let Some(keyed) = others.iter().find(|segment| !segment.keys.is_empty()) {
            let message = format!("keys can't follow {}", keyed.name);
            return Err(StatementError::new(keyed.at, message));
        }
        let keys = self.keys(&last.keys)?;
        let mut kind = field.kind;
        if name == "trace_state" && matches!(keys.as_slice(), [Key::Text(_)]) {
            kind = Kind::TraceStateKey;
        } else if !keys.is_empty() && !kind.takes_keys() {
            let message = format!("keys can't follow {name}: it is neither a map nor a list");
            return Err(StatementError::new(last.at, message));
        }
        if context != StatementContext::Cache {
            self.usage.note(context, kind, field.numbers);
        }
        Ok(Path { context, kind, numbers: field.numbers, keys })
    }

    /// Returns the context that a path names, and the segments behind its name.
    fn path_context<'p>(
        &self,
        path: &'p syntax::Path,
    ) -> Result<(StatementContext, &'p [syntax::Segment]), StatementError> {
        let Some(first) = path.segments.first() else { return Ok((self.context, &[])) };
        let named = StatementContext::named(&first.name).filter(|_| first.keys.is_empty());
        let visible = self.context.visible();
        match named {
            Some(context) if visible.contains(&context) => {
                if path.segments.len() > 1 {
                    return Ok((context, &path.segments[1..]));
                }
                let message = format!("the path names no field of the {}", context.name());
                let names = fields(context).iter().map(|field| field.name);
                Err(StatementError::unknown(path.at, message, "", names))
            }
            Some(context) if path.segments.len() > 1 => {
                let message =
                    format!("a {} can't be used on a {}", context.name(), self.context.name());
                let names = visible.iter().map(|context| context.name());
                Err(StatementError::unknown(path.at, message, &first.name, names))
            }
            _ if self.is_context_required => {
                let message = format!(
                    "the path needs a context, such as {}.{}; or set the step's context",
                    self.context.name(),
                    first.name
                );
                Err(StatementError::new(path.at, message))
            }
            _ => Ok((self.context, &path.segments)),
        }
    }

    /// Compiles a condition.
    pub(crate) fn condition(
        &mut self,
        condition: &syntax::Condition,
    ) -> Result<Condition, StatementError> {
        Ok(match condition {
            syntax::Condition::Const(truth) => Condition::Const(*truth),
            syntax::Condition::Call(call) => Condition::Call(self.converter(call)?),
            syntax::Condition::Compare(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                if let (Expr::Const(left, _), Expr::Const(right, _)) = (&left, &right) {
                    let memory = Memory::new(&[], self.constants, Vec::new(), 0);
                    let truth = compare(&memory, *op, *left, *right).unwrap_or_default();
                    return Ok(Condition::Const(truth));
                }
                match AttributeTest::from_comparison(*op, &left, &right) {
                    Some(test) => Condition::Attribute(test),
                    None => Condition::Compare(*op, left, right),
                }
            }
            syntax::Condition::Not(inner) => match self.condition(inner)? {
                Condition::Const(truth) => Condition::Const(!truth),
                inner => Condition::Not(Box::new(inner)),
            },
            syntax::Condition::And(all) => {
                let all = all.iter().map(|inner| self.condition(inner));
                let mut all: Vec<Condition> = all.collect::<Result<_, _>>()?;
                // As in the Collector, what is known now isn't computed, so it can't fail.
                if all.iter().any(|inner| matches!(inner, Condition::Const(false))) {
                    return Ok(Condition::Const(false));
                }
                all.retain(|inner| !matches!(inner, Condition::Const(true)));
                if all.is_empty() { Condition::Const(true) } else { Condition::And(all) }
            }
            syntax::Condition::Or(any) => {
                let any = any.iter().map(|inner| self.condition(inner));
                let mut any: Vec<Condition> = any.collect::<Result<_, _>>()?;
                if any.iter().any(|inner| matches!(inner, Condition::Const(true))) {
                    return Ok(Condition::Const(true));
                }
                any.retain(|inner| !matches!(inner, Condition::Const(false)));
                if any.is_empty() { Condition::Const(false) } else { Condition::Or(any) }
            }
        })
    }
}

fn find_field(
    context: StatementContext,
    name: &str,
    path: &syntax::Path,
) -> Result<&'static FieldPath, StatementError> {
    let known = fields(context);
    known.iter().find(|field| field.name == name).ok_or_else(|| {
        let message = format!("a {} has no field {name:?}", context.name());
        let names = known.iter().map(|field| field.name);
        StatementError::unknown(path.at, message, name, names)
    })
}
