//! Compares values by OTTL's rules: numbers with numbers, other types only with their own; nil is
//! equal to nil alone; values that can't be compared are unequal.

use std::cmp::Ordering;

use crate::edit::encode::{Members, load_map, parse_any};
use crate::edit::memory::{Memory, Ref};
use crate::error::RuleFailure;
use crate::eval::editors::maps::KeyIndex;
use crate::program::CompareOp;
use crate::value::Value;

/// The deepest values that are compared: far above what requests have.
const DEPTH: u32 = 64;

/// Compares two values.
pub(crate) fn compare(
    memory: &Memory<'_>,
    op: CompareOp,
    left: Value,
    right: Value,
) -> Result<bool, RuleFailure> {
    // In the Collector no bytes are nil.
    let without_empty = |value: Value| match value {
        Value::Bytes(bytes) if bytes.is_empty() => Value::Nil,
        other => other,
    };
    let (left, right) = (without_empty(left), without_empty(right));
    let ordering = match (left, right) {
        (Value::Nil, Value::Nil) => Some(Ordering::Equal),
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(&right)),
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(&right)),
        (Value::Int(left), Value::Double(right)) => return Ok(by_value(op, left as f64, right)),
        (Value::Double(left), Value::Int(right)) => return Ok(by_value(op, left, right as f64)),
        (Value::Double(left), Value::Double(right)) => return Ok(by_value(op, left, right)),
        (Value::Str(left), Value::Str(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            return Ok(by_bytes(op, memory.get(left), memory.get(right)));
        }
        (Value::Time(left), Value::Time(right)) => Some(left.cmp(&right)),
        (Value::Duration(left), Value::Duration(right)) => Some(left.cmp(&right)),
        (Value::TraceId(left), Value::TraceId(right)) => return Ok(same(op, left == right)),
        (Value::SpanId(left), Value::SpanId(right)) => return Ok(same(op, left == right)),
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => {
            return Ok(same(op, equal(memory, left, right, DEPTH)?));
        }
        _ => None,
    };
    Ok(match ordering {
        Some(ordering) => by_ordering(op, ordering),
        None => op == CompareOp::NotEqual,
    })
}

/// Returns the result for values that have no order.
fn same(op: CompareOp, is_equal: bool) -> bool {
    match op {
        CompareOp::Equal => is_equal,
        CompareOp::NotEqual => !is_equal,
        _ => false,
    }
}

fn by_ordering(op: CompareOp, ordering: Ordering) -> bool {
    match op {
        CompareOp::Equal => ordering.is_eq(),
        CompareOp::NotEqual => ordering.is_ne(),
        CompareOp::Less => ordering.is_lt(),
        CompareOp::LessOrEqual => ordering.is_le(),
        CompareOp::Greater => ordering.is_gt(),
        CompareOp::GreaterOrEqual => ordering.is_ge(),
    }
}

#[inline]
fn by_bytes(op: CompareOp, left: &[u8], right: &[u8]) -> bool {
    match op {
        CompareOp::Equal => left == right,
        CompareOp::NotEqual => left != right,
        _ => by_ordering(op, left.cmp(right)),
    }
}

/// Compares doubles: with a value that is no number, all but `!=` is false.
fn by_value(op: CompareOp, left: f64, right: f64) -> bool {
    match left.partial_cmp(&right) {
        Some(ordering) => by_ordering(op, ordering),
        None => op == CompareOp::NotEqual,
    }
}

/// Whether two values are equal, of the same type, member by member.
fn equal(memory: &Memory<'_>, left: Value, right: Value, depth: u32) -> Result<bool, RuleFailure> {
    if depth == 0 {
        return Ok(false);
    }
    Ok(match (left, right) {
        (Value::List(left), Value::List(right)) => {
            let (mut left, mut right) = (Members::new(memory, left), Members::new(memory, right));
            loop {
                match (left.next_member()?, right.next_member()?) {
                    (None, None) => return Ok(true),
                    (Some(one), Some(other)) => {
                        if !equal_any(memory, one, other, depth - 1)? {
                            return Ok(false);
                        }
                    }
                    _ => return Ok(false),
                }
            }
        }
        (Value::Map(left), Value::Map(right)) => {
            let (mut ours, mut others) = (Vec::new(), Vec::new());
            load_map(memory, left, &mut ours)?;
            load_map(memory, right, &mut others)?;
            if ours.len() != others.len() {
                return Ok(false);
            }
            let mut index = KeyIndex::default();
            for slot in &ours {
                let Some(position) = index.find(memory, &others, slot.key) else {
                    return Ok(false);
                };
                if !equal_any(memory, slot.value, others[position].value, depth - 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Int(left), Value::Int(right)) => left == right,
        (Value::Double(left), Value::Double(right)) => left == right,
        (Value::Int(_), Value::Double(_)) | (Value::Double(_), Value::Int(_)) => false,
        _ => compare(memory, CompareOp::Equal, left, right)?,
    })
}

fn equal_any(memory: &Memory<'_>, left: Ref, right: Ref, depth: u32) -> Result<bool, RuleFailure> {
    equal(memory, parse_any(memory, left)?, parse_any(memory, right)?, depth)
}
