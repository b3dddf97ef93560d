//! Runs compiled rules on the objects of a request.

pub(crate) mod compare;
pub(crate) mod converters;
mod editors;
mod enrich;
mod fields;
mod json;
mod math;
pub(crate) mod redact;
mod verify;

use crate::edit::encode::{parse_any, put_element, put_member, store_any};
use crate::edit::memory::{Memory, Ref};
use crate::edit::object::{Object, find_slot, same_bytes};
use crate::edit::slot::Slot;
use crate::enrich::RequestOrigin;
use crate::error::RuleFailure;
use crate::ottl::context::CONTEXTS;
use crate::program::{AttributeTest, CompareOp, Condition, Expr, Kind, MathOp, Statement};
use crate::redact::RedactScratch;
use crate::sample::ResourceRules;
use crate::value::Value;

/// The state of rules during a walk: the buffers and the open objects.
pub(crate) struct Machine<'r> {
    pub(crate) memory: Memory<'r>,
    /// The open object of each context.
    pub(crate) objects: &'r mut [Object; CONTEXTS],
    pub(crate) buffers: &'r mut Buffers,
    /// The position of the open event in its span.
    pub(crate) event_index: usize,
    /// The type of the open metric, as `METRIC_DATA_TYPE_*`.
    pub(crate) metric_type: i64,
    /// Whether a rule stored a list or map in the open record, so that its depth has to be checked.
    pub(crate) has_new_structure: bool,
    /// The content of the open record as it was received.
    pub(crate) record: Ref,
    /// Whether the open object exceeded a limit and is only redacted.
    pub(crate) is_over_limit: bool,
    /// Where the request came from.
    pub(crate) origin: RequestOrigin<'r>,
}

/// Allocations that rules reuse.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    text: Vec<u8>,
    refs: Vec<Ref>,
    slots: Vec<Slot>,
    redact: RedactScratch,
    /// The rules of sampling steps that the open resource matches, by the step's first rule.
    pub(crate) resource_rules: Vec<(usize, ResourceRules)>,
}

/// Texts and lists beyond this length aren't retained: 64 KiB.
const RETAINED_LEN: usize = 64 << 10;

impl Buffers {
    /// Frees what an unusual record took.
    pub(crate) fn shrink(&mut self) {
        if self.text.capacity() > RETAINED_LEN || self.refs.capacity() > RETAINED_LEN {
            *self = Self::default();
        }
        self.redact.shrink(RETAINED_LEN);
    }
}

impl Machine<'_> {
    /// Runs a statement. Returns whether its condition was true, and whether it changed something.
    #[inline]
    pub(crate) fn execute(&mut self, statement: &Statement) -> Result<(bool, bool), RuleFailure> {
        let is_met = match &statement.condition {
            None => true,
            Some(Condition::Attribute(test)) => self.test_attribute(test)?,
            Some(condition) => self.test(condition)?,
        };
        if is_met { Ok((true, self.edit(&statement.editor)?)) } else { Ok((false, false)) }
    }

    /// Tests an attribute.
    #[inline]
    pub(crate) fn test_attribute(&self, test: &AttributeTest) -> Result<bool, RuleFailure> {
        let slots = &self.objects[test.context.index()].slots;
        let Some(position) = find_slot(&self.memory, slots, test.key) else {
            return Ok(matches!(test.value, Value::Nil) == test.is_equal);
        };
        let any = slots[position].value;
        let (found, expected) = (self.memory.get(any), self.memory.get(test.any));
        if let ([0x0a, found_len @ ..0x80, found @ ..], [0x0a, expected_len, expected @ ..]) =
            (found, expected)
            && usize::from(*found_len) == found.len()
        {
            // Two texts as encoders write them.
            let is_equal = found_len == expected_len && same_bytes(found, expected);
            return Ok(is_equal == test.is_equal);
        }
        self.test_any(any, test)
    }

    #[inline(never)]
    fn test_any(&self, any: Ref, test: &AttributeTest) -> Result<bool, RuleFailure> {
        let value = parse_any(&self.memory, any)?;
        let is_equal = compare::compare(&self.memory, CompareOp::Equal, value, test.value)?;
        Ok(is_equal == test.is_equal)
    }

    /// Tests a condition.
    pub(crate) fn test(&mut self, condition: &Condition) -> Result<bool, RuleFailure> {
        match condition {
            Condition::Attribute(test) => self.test_attribute(test),
            Condition::Const(truth) => Ok(*truth),
            Condition::Compare(op, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                compare::compare(&self.memory, *op, left, right)
            }
            Condition::Call(call) => match self.eval(call)? {
                Value::Bool(truth) => Ok(truth),
                other => Err(RuleFailure::Type { expected: "bool", found: other.type_name() }),
            },
            Condition::Not(inner) => self.test(inner).map(|truth| !truth),
            Condition::And(all) => {
                for inner in all {
                    if !self.test(inner)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Or(any) => {
                for inner in any {
                    if self.test(inner)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Computes a value.
    pub(crate) fn eval(&mut self, expr: &Expr) -> Result<Value, RuleFailure> {
        match expr {
            Expr::Const(value, _) => Ok(*value),
            Expr::Path(path) => self.read(path),
            Expr::Call(call) => self.call(call),
            Expr::Member(inner, keys) => {
                let value = self.eval(inner)?;
                self.member(value, keys)
            }
            Expr::Math(op, left, right) => {
                let left = self.eval(left)?;
                let right = self.eval(right)?;
                math::calculate(*op, left, right)
            }
            Expr::Negative(inner) => match self.eval(inner)? {
                Value::Int(number) => Ok(Value::Int(number.wrapping_neg())),
                Value::Double(number) => Ok(Value::Double(-number)),
                other => math::calculate(MathOp::Subtract, Value::Int(0), other),
            },
            Expr::List(values) => self.list(values).map(Value::List),
            Expr::Map(members) => self.map(members).map(Value::Map),
        }
    }

    /// Computes a value as an `AnyValue` message; `None` if it is nil.
    pub(crate) fn eval_any(&mut self, expr: &Expr) -> Result<Option<Ref>, RuleFailure> {
        match expr {
            Expr::Const(Value::Nil, _) => Ok(None),
            Expr::Const(_, any) => Ok(Some(*any)),
            // An attribute's message is used as it is.
            Expr::Path(path) if path.kind == Kind::Map && !path.keys.is_empty() => {
                let Some(any) = self.read_any(path)? else { return Ok(None) };
                if let [0x0a, len @ ..0x80, text @ ..] = self.memory.get(any)
                    && usize::from(*len) == text.len()
                {
                    // A text as encoders write it.
                    return Ok(Some(any));
                }
                let is_nil = matches!(parse_any(&self.memory, any)?, Value::Nil);
                Ok((!is_nil).then_some(any))
            }
            _ => match self.eval(expr)? {
                Value::Nil => Ok(None),
                value => store_any(&mut self.memory, value).map(Some),
            },
        }
    }

    /// Computes a value that has to be text.
    pub(crate) fn text(&mut self, expr: &Expr) -> Result<Ref, RuleFailure> {
        match self.eval(expr)? {
            Value::Str(text) => Ok(text),
            other => Err(RuleFailure::Type { expected: "string", found: other.type_name() }),
        }
    }

    /// Computes a value that has to be a whole number.
    fn int(&mut self, expr: &Expr) -> Result<i64, RuleFailure> {
        match self.eval(expr)? {
            Value::Int(number) => Ok(number),
            other => Err(RuleFailure::Type { expected: "int", found: other.type_name() }),
        }
    }

    /// Computes a list's elements.
    fn list(&mut self, values: &[Expr]) -> Result<Ref, RuleFailure> {
        let first = self.buffers.refs.len();
        for value in values {
            let any = self.eval_any(value)?.unwrap_or_default();
            self.buffers.refs.push(any);
        }
        self.store_list(first)
    }

    /// Writes the references from `first` on as a list, and removes them.
    fn store_list(&mut self, first: usize) -> Result<Ref, RuleFailure> {
        let mark = self.memory.mark();
        for any in self.buffers.refs.drain(first..) {
            put_element(&mut self.memory, any)?;
        }
        Ok(self.memory.since(mark))
    }

    fn map(&mut self, members: &[(Ref, Expr)]) -> Result<Ref, RuleFailure> {
        let first = self.buffers.refs.len();
        for (_, value) in members {
            let any = self.eval_any(value)?.unwrap_or_default();
            self.buffers.refs.push(any);
        }
        let mark = self.memory.mark();
        for ((key, _), any) in members.iter().zip(self.buffers.refs.drain(first..)) {
            put_member(&mut self.memory, &Slot::new(*key, any))?;
        }
        Ok(self.memory.since(mark))
    }

    /// Forgets what an abandoned rule left in the buffers.
    pub(crate) fn reset_buffers(&mut self) {
        self.buffers.refs.clear();
    }
}
