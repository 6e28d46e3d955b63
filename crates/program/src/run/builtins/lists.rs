//! Builtins of lists.

use crate::builtin::Builtin;
use crate::run::args::Args;
use crate::run::failure::{FailureKind, malformed};
use crate::run::slot::{Meter, NODE, Slot, Weight};
use crate::value::Value;

pub(super) fn evaluate(
    builtin: Builtin,
    args: &mut Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    match builtin {
        Builtin::Push => push(args, meter),
        Builtin::SetAt => set_at(args, meter),
        Builtin::RemoveAt => remove_at(args, meter),
        Builtin::Reversed => {
            let mut list = args.take(0);
            let values = list.list_mut(meter)?;
            meter.elements(values.len())?;
            values.reverse();
            Ok(list)
        }
        _ => sorted(args, meter),
    }
}

fn push(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let by = args.weigh(1, meter)?;
    let value = args.share(1).value;
    let mut list = args.take(0);
    meter.grow(&mut list, by)?;
    list.list_mut(meter)?.push(value);
    Ok(list)
}

fn set_at(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let index = index(args)?;
    let by = args.weigh(2, meter)?;
    let value = args.share(2).value;
    let mut list = args.take(0);
    meter.weigh(&mut list)?;
    let old = std::mem::replace(&mut list.list_mut(meter)?[index], value);
    list.shrink(meter.weigh_value(&old)?.size);
    meter.grow(&mut list, by)?;
    Ok(list)
}

fn remove_at(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let index = index(args)?;
    let mut list = args.take(0);
    meter.weigh(&mut list)?;
    let values = list.list_mut(meter)?;
    meter.elements(values.len() - index)?;
    let old = values.remove(index);
    list.shrink(meter.weigh_value(&old)?.size);
    Ok(list)
}

/// Returns the second operand as an index into the first.
fn index(args: &Args<'_>) -> Result<usize, FailureKind> {
    match (args.value(0), args.value(1)) {
        (Value::List(values), Value::Int(index)) => usize::try_from(*index)
            .ok()
            .filter(|index| *index < values.len())
            .ok_or(FailureKind::OutOfRange { index: *index, length: values.len() }),
        (Value::List(_), other) | (other, _) => Err(malformed("changing a place", other)),
    }
}

fn sorted(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let weight = args.weigh(0, meter)?;
    let mut list = args.take(0);
    let values = list.list_mut(meter)?;
    // Each merge pass visits every element once.
    let rounds = u64::from(values.len().checked_ilog2().unwrap_or(0)) + 1;
    meter.spend(rounds * (values.len() as u64 / 4 + u64::from(weight.size) / 64))?;
    values.sort();
    Ok(list)
}

/// Returns the range from one index to another, clamped to the length.
pub(super) fn range(from: i64, to: i64, length: usize) -> std::ops::Range<usize> {
    let inside = |at: i64| usize::try_from(at.max(0)).unwrap_or(length).min(length);
    let from = inside(from);
    from..inside(to).max(from)
}

pub(super) fn slice(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (Value::List(values), Value::Int(from), Value::Int(to)) =
        (args.value(0), args.value(1), args.value(2))
    else {
        return Err(malformed("`slice`", args.value(1)));
    };
    let slice = &values[range(*from, *to, values.len())];
    meter.elements(slice.len())?;
    Ok(Slot::made(Value::list(slice.iter().cloned())))
}

pub(super) fn contains(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (all, one) = (args.weigh(0, meter)?, args.weigh(1, meter)?);
    let Value::List(values) = args.value(0) else {
        return Err(malformed("`contains`", args.value(0)));
    };
    meter.elements(values.len())?;
    // A comparison costs at most the size of the smaller value.
    let each = Weight { size: one.size.saturating_mul(values.len() as u32).max(NODE), depth: 0 };
    meter.compare(all, each)?;
    Ok(super::truth(values.contains(args.value(1))))
}
