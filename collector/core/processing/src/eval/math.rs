//! Calculates: whole numbers wrap around and divide without a remainder, as in Go.

use crate::error::RuleFailure;
use crate::program::MathOp;
use crate::value::Value;

/// Calculates with two values.
pub(super) fn calculate(op: MathOp, left: Value, right: Value) -> Result<Value, RuleFailure> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => ints(op, left, right).map(Value::Int),
        (Value::Int(left), Value::Double(right)) => {
            doubles(op, left as f64, right).map(Value::Double)
        }
        (Value::Double(left), Value::Int(right)) => {
            doubles(op, left, right as f64).map(Value::Double)
        }
        (Value::Double(left), Value::Double(right)) => doubles(op, left, right).map(Value::Double),
        (Value::Time(time), Value::Duration(nanos)) => match op {
            MathOp::Add => Ok(Value::Time(time.add(nanos))),
            MathOp::Subtract => Ok(Value::Time(time.add(nanos.wrapping_neg()))),
            _ => Err(unsupported(left, right)),
        },
        (Value::Duration(nanos), Value::Time(time)) if op == MathOp::Add => {
            Ok(Value::Time(time.add(nanos)))
        }
        (Value::Time(later), Value::Time(earlier)) if op == MathOp::Subtract => {
            Ok(Value::Duration(later.since(earlier)))
        }
        (Value::Duration(one), Value::Duration(other)) => match op {
            MathOp::Add => Ok(Value::Duration(one.wrapping_add(other))),
            MathOp::Subtract => Ok(Value::Duration(one.wrapping_sub(other))),
            _ => Err(unsupported(left, right)),
        },
        _ => Err(unsupported(left, right)),
    }
}

fn unsupported(left: Value, right: Value) -> RuleFailure {
    let wrong = if matches!(left, Value::Int(_) | Value::Double(_)) { right } else { left };
    RuleFailure::Type { expected: "int or double", found: wrong.type_name() }
}

fn ints(op: MathOp, left: i64, right: i64) -> Result<i64, RuleFailure> {
    Ok(match op {
        MathOp::Add => left.wrapping_add(right),
        MathOp::Subtract => left.wrapping_sub(right),
        MathOp::Multiply => left.wrapping_mul(right),
        MathOp::Divide if right == 0 => return Err(RuleFailure::DivisionByZero),
        MathOp::Divide => left.wrapping_div(right),
    })
}

fn doubles(op: MathOp, left: f64, right: f64) -> Result<f64, RuleFailure> {
    Ok(match op {
        MathOp::Add => left + right,
        MathOp::Subtract => left - right,
        MathOp::Multiply => left * right,
        MathOp::Divide if right == 0.0 => return Err(RuleFailure::DivisionByZero),
        MathOp::Divide => left / right,
    })
}
