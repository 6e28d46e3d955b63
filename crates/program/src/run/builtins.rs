//! Evaluates built-in functions and methods.

mod keyed;
mod lists;
mod numbers;
mod texts;

use std::sync::Arc;

use super::args::Args;
use super::failure::{FailureKind, malformed};
use super::slot::{Meter, Slot, Weight};
use crate::builtin::Builtin;
use crate::value::Value;

/// Evaluates `dst = builtin(args)`. The number of operands is that of [`arity`].
pub(super) fn evaluate(
    builtin: Builtin,
    mut args: Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    use Builtin as B;
    match builtin {
        B::Some => some(&mut args, meter),
        B::IsSome => Ok(truth(option(&args)?.is_some())),
        B::IsNone => Ok(truth(option(&args)?.is_none())),
        B::OrElse => match option(&args)? {
            Some(value) => Ok(Slot::shared(value.clone())),
            None => Ok(args.share(1)),
        },
        B::OrFail => match option(&args)? {
            Some(value) => Ok(Slot::shared(value.clone())),
            None => Err(FailureKind::NothingThere),
        },
        B::Len => length(&args, meter),
        B::Index | B::Get => element(builtin, &mut args, meter),
        B::Contains => contains(&mut args, meter),
        B::Elements => match args.value(0) {
            Value::List(_) => Ok(args.take(0)),
            _ => keyed::elements(&mut args, meter),
        },
        B::Push | B::SetAt | B::RemoveAt | B::Reversed | B::Sorted => {
            lists::evaluate(builtin, &mut args, meter)
        }
        B::Slice => match args.value(0) {
            Value::List(_) => lists::slice(&mut args, meter),
            _ => texts::slice(&args, meter),
        },
        B::Insert | B::Remove | B::Union | B::Intersection | B::Difference => {
            keyed::sets(builtin, &mut args, meter)
        }
        B::Put | B::RemoveKey | B::Values => keyed::maps(builtin, &mut args, meter),
        B::Join
        | B::StartsWith
        | B::EndsWith
        | B::Split
        | B::Upper
        | B::Lower
        | B::Trim
        | B::ToString
        | B::ParseInt
        | B::ParseFloat
        | B::ToBytes
        | B::ToText => texts::evaluate(builtin, &args, meter),
        B::ToInt | B::ToFloat | B::Min | B::Max | B::Abs | B::Floor | B::Sqrt => {
            numbers::evaluate(builtin, &args)
        }
    }
}

/// Returns the number of operands of a builtin, including its receiver.
pub(crate) fn arity(builtin: Builtin) -> usize {
    use Builtin as B;
    match builtin {
        B::Some
        | B::IsSome
        | B::IsNone
        | B::OrFail
        | B::Len
        | B::Elements
        | B::Reversed
        | B::Sorted
        | B::Values
        | B::Upper
        | B::Lower
        | B::Trim
        | B::ToString
        | B::ParseInt
        | B::ParseFloat
        | B::ToBytes
        | B::ToText
        | B::ToInt
        | B::ToFloat
        | B::Abs
        | B::Floor
        | B::Sqrt => 1,
        B::OrElse
        | B::Index
        | B::Get
        | B::Contains
        | B::Push
        | B::RemoveAt
        | B::Join
        | B::Insert
        | B::Remove
        | B::Union
        | B::Intersection
        | B::Difference
        | B::RemoveKey
        | B::StartsWith
        | B::EndsWith
        | B::Split
        | B::Min
        | B::Max => 2,
        B::SetAt | B::Slice | B::Put => 3,
    }
}

fn truth(truth: bool) -> Slot {
    Slot::scalar(Value::Bool(truth))
}

fn integer(length: usize) -> Slot {
    // No collection has more than 2^63 - 1 elements.
    Slot::scalar(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn some(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let by = args.weigh(0, meter)?;
    let weight = meter.holding(Weight::EMPTY, by)?;
    Ok(Slot::weighing(Value::some(args.share(0).value), weight))
}

fn option<'a>(args: &'a Args<'_>) -> Result<Option<&'a Value>, FailureKind> {
    match args.value(0) {
        Value::Option(value) => Ok(value.as_deref()),
        other => Err(malformed("a method of options", other)),
    }
}

fn length(args: &Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    match args.value(0) {
        Value::List(values) => Ok(integer(values.len())),
        Value::Set(values) => Ok(integer(values.len())),
        Value::Map(values) => Ok(integer(values.len())),
        Value::Bytes(bytes) => Ok(integer(bytes.len())),
        Value::String(text) => {
            meter.scan(text.len())?;
            Ok(integer(text.chars().count()))
        }
        other => Err(malformed("`len`", other)),
    }
}

/// Evaluates `xs[i]`, `m[k]` and `get`.
fn element(builtin: Builtin, args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    if matches!(args.value(0), Value::Map(_)) {
        return keyed::entry(builtin, args, meter);
    }
    match (args.value(0), args.value(1)) {
        (Value::List(values), Value::Int(index)) => {
            let found = usize::try_from(*index).ok().and_then(|index| values.get(index));
            match (builtin, found) {
                (Builtin::Index, Some(value)) => Ok(Slot::shared(value.clone())),
                (Builtin::Index, None) => {
                    Err(FailureKind::OutOfRange { index: *index, length: values.len() })
                }
                (_, found) => Ok(maybe(found)),
            }
        }
        (Value::List(_), other) => Err(malformed("indexing", other)),
        (other, _) => Err(malformed("indexing", other)),
    }
}

/// Returns an element of a collection as an option. It is nested less deeply than the collection.
fn maybe(found: Option<&Value>) -> Slot {
    Slot::made(found.map_or(Value::NONE, |value| Value::Option(Some(Arc::new(value.clone())))))
}

fn contains(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    match args.value(0) {
        Value::List(_) => lists::contains(args, meter),
        Value::String(_) => texts::evaluate(Builtin::Contains, args, meter),
        _ => keyed::contains(args, meter),
    }
}
