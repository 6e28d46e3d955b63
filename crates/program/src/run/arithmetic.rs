//! Evaluates operators.

use std::cmp::Ordering;
use std::sync::Arc;

use super::args::Args;
use super::failure::{FailureKind, malformed};
use super::slot::{Meter, NODE, Slot, Weight};
use crate::operator::{BinaryOp, UnaryOp};
use crate::value::Value;

/// Evaluates `op a`.
pub(super) fn unary(op: UnaryOp, value: &Value) -> Result<Slot, FailureKind> {
    let result = match (op, value) {
        (UnaryOp::Negate, Value::Int(number)) => {
            let negated = number.checked_neg();
            Value::Int(negated.ok_or_else(|| FailureKind::Overflow(format!("-({number})")))?)
        }
        (UnaryOp::Negate, Value::Float(number)) => float(-number),
        (UnaryOp::Not, Value::Bool(truth)) => Value::Bool(!truth),
        (UnaryOp::Negate, other) => return Err(malformed("negation", other)),
        (UnaryOp::Not, other) => return Err(malformed("`!`", other)),
    };
    Ok(Slot::scalar(result))
}

/// Returns a float with canonical NaN: processors differ in its sign, which the order of values
/// would expose.
pub(crate) fn float(number: f64) -> Value {
    // Replaces the bits: the optimizer treats all NaNs as equal and may remove a choice between
    // floats.
    let bits = number.to_bits();
    let is_nan = bits & !(1 << 63) > f64::INFINITY.to_bits();
    Value::Float(f64::from_bits(if is_nan { f64::NAN.to_bits() } else { bits }))
}

/// Evaluates `a op b` for integers.
#[inline]
pub(super) fn integers(op: BinaryOp, a: i64, b: i64) -> Result<Value, FailureKind> {
    let number = match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Subtract => a.checked_sub(b),
        BinaryOp::Multiply => a.checked_mul(b),
        BinaryOp::Divide | BinaryOp::Remainder if b == 0 => {
            return Err(FailureKind::DivisionByZero);
        }
        BinaryOp::Divide => a.checked_div(b),
        // Includes the smallest integer divided by -1, where the division itself overflows.
        BinaryOp::Remainder => a.checked_rem(b),
        _ => return compared(op, a.cmp(&b)).map(Value::Bool),
    };
    number.map(Value::Int).ok_or_else(|| FailureKind::Overflow(format!("{a} {} {b}", op.symbol())))
}

/// Evaluates `dst = a op b` for any type.
pub(super) fn binary(
    op: BinaryOp,
    mut args: Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    if let (Value::Float(a), Value::Float(b)) = (args.value(0), args.value(1)) {
        return floats(op, *a, *b).map(Slot::scalar);
    }
    if op == BinaryOp::Add {
        return add(args, meter);
    }
    let (one, other) = (args.weigh(0, meter)?, args.weigh(1, meter)?);
    meter.compare(one, other)?;
    let (a, b) = (args.value(0), args.value(1));
    let result = match (op, a, b) {
        (BinaryOp::Equal, ..) => a == b,
        (BinaryOp::Unequal, ..) => a != b,
        (_, Value::Bool(_), Value::Bool(_))
        | (_, Value::String(_), Value::String(_))
        | (_, Value::Bytes(_), Value::Bytes(_)) => compared(op, a.cmp(b))?,
        _ => return Err(malformed(&format!("`{}`", op.symbol()), a)),
    };
    Ok(Slot::scalar(Value::Bool(result)))
}

fn compared(op: BinaryOp, order: Ordering) -> Result<bool, FailureKind> {
    Ok(match op {
        BinaryOp::Equal => order.is_eq(),
        BinaryOp::Unequal => order.is_ne(),
        BinaryOp::Less => order.is_lt(),
        BinaryOp::LessEqual => order.is_le(),
        BinaryOp::Greater => order.is_gt(),
        BinaryOp::GreaterEqual => order.is_ge(),
        _ => {
            let what = format!("`{}` does not compare", op.symbol());
            return Err(FailureKind::Malformed(what));
        }
    })
}

/// Evaluates `a op b` for floats according to IEEE 754, including comparisons. Floats within other
/// values are compared by the order of [`Value`].
#[allow(clippy::float_cmp)]
fn floats(op: BinaryOp, a: f64, b: f64) -> Result<Value, FailureKind> {
    Ok(match op {
        BinaryOp::Add => float(a + b),
        BinaryOp::Subtract => float(a - b),
        BinaryOp::Multiply => float(a * b),
        BinaryOp::Divide => float(a / b),
        BinaryOp::Remainder => float(a % b),
        BinaryOp::Equal => Value::Bool(a == b),
        BinaryOp::Unequal => Value::Bool(a != b),
        BinaryOp::Less => Value::Bool(a < b),
        BinaryOp::LessEqual => Value::Bool(a <= b),
        BinaryOp::Greater => Value::Bool(a > b),
        BinaryOp::GreaterEqual => Value::Bool(a >= b),
        BinaryOp::And | BinaryOp::Or => {
            return Err(malformed(&format!("`{}`", op.symbol()), &Value::Float(a)));
        }
    })
}

fn add(mut args: Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    match (args.value(0), args.value(1)) {
        (Value::String(a), Value::String(b)) => {
            meter.room(a.len() + b.len())?;
            meter.bytes(a.len() + b.len())?;
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Slot::made(Value::String(text.into())))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.room(a.len() + b.len())?;
            meter.bytes(a.len() + b.len())?;
            Ok(Slot::made(Value::Bytes([&**a, &**b].concat().into())))
        }
        (Value::List(_), Value::List(more)) => {
            let more = Arc::clone(more);
            meter.elements(more.len())?;
            let by = args.weigh(1, meter)?;
            let mut list = args.take(0);
            list.list_mut(meter)?.extend(more.iter().cloned());
            // The sum contains the elements of the operand at the same depth, but not the operand
            // itself.
            let elements = Weight { size: by.size - NODE, depth: by.depth.saturating_sub(1) };
            meter.grow(&mut list, elements)?;
            Ok(list)
        }
        (a, _) => Err(malformed("`+`", a)),
    }
}
