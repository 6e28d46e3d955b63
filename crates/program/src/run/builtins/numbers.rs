//! Builtins of numbers.

use std::cmp::Ordering;

use super::super::arithmetic::float;
use crate::builtin::Builtin;
use crate::run::args::Args;
use crate::run::failure::{FailureKind, malformed};
use crate::run::slot::Slot;
use crate::value::Value;

/// 2^63: the smallest positive float that is too large for an integer.
const BOUND: f64 = 9_223_372_036_854_775_808.0;

pub(super) fn evaluate(builtin: Builtin, args: &Args<'_>) -> Result<Slot, FailureKind> {
    let result = match builtin {
        Builtin::Min => pick(args, Ordering::Less)?,
        Builtin::Max => pick(args, Ordering::Greater)?,
        _ => of_one(builtin, args.value(0))?,
    };
    Ok(Slot::scalar(result))
}

fn of_one(builtin: Builtin, value: &Value) -> Result<Value, FailureKind> {
    Ok(match (builtin, value) {
        (Builtin::ToInt, Value::Float(number)) => Value::Int(whole(*number)?),
        // Rounds to the nearest float, as IEEE 754 does.
        (Builtin::ToFloat, Value::Int(number)) => Value::Float(*number as f64),
        (Builtin::Abs, Value::Int(number)) => {
            let positive = number.checked_abs();
            Value::Int(positive.ok_or_else(|| FailureKind::Overflow(format!("abs({number})")))?)
        }
        (Builtin::Abs, Value::Float(number)) => float(number.abs()),
        (Builtin::Floor, Value::Float(number)) => float(number.floor()),
        (Builtin::Sqrt, Value::Float(number)) => float(number.sqrt()),
        (_, other) => return Err(malformed("a function of numbers", other)),
    })
}

fn whole(number: f64) -> Result<i64, FailureKind> {
    let whole = number.trunc();
    // The comparison is false for NaN.
    if (-BOUND..BOUND).contains(&whole) {
        Ok(whole as i64)
    } else {
        Err(FailureKind::Overflow(format!("{number:?}")))
    }
}

/// Returns the operand that has this order relative to the other. NaN takes precedence.
fn pick(args: &Args<'_>, order: Ordering) -> Result<Value, FailureKind> {
    match (args.value(0), args.value(1)) {
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(if a.cmp(b) == order { *a } else { *b })),
        (Value::Float(a), Value::Float(b)) => {
            if a.is_nan() || b.is_nan() {
                return Ok(Value::Float(f64::NAN));
            }
            // Uses the total order, because by `==` -0.0 equals 0.0, so that the choice between
            // them would be arbitrary.
            Ok(Value::Float(if a.total_cmp(b) == order { *a } else { *b }))
        }
        (a, _) => Err(malformed("`min` and `max`", a)),
    }
}
