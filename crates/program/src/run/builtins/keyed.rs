//! Builtins of sets and maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::builtin::Builtin;
use crate::run::args::Args;
use crate::run::failure::{FailureKind, brief, malformed};
use crate::run::slot::{Meter, Slot, Weight, own};
use crate::value::Value;

pub(super) fn sets(
    builtin: Builtin,
    args: &mut Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    match builtin {
        Builtin::Insert => insert(args, meter),
        Builtin::Remove => remove(args, meter),
        _ => combine(builtin, args, meter),
    }
}

/// Changes the set that is the first argument, with the value that is the second. Returns the set,
/// the weight of the value, and what `change` returns.
fn change_set(
    args: &mut Args<'_>,
    meter: &mut Meter,
    change: impl FnOnce(&mut BTreeSet<Value>, Value) -> bool,
) -> Result<(Slot, Weight, bool), FailureKind> {
    let by = args.weigh(1, meter)?;
    let value = args.share(1).value;
    let mut set = args.take(0);
    meter.weigh(&mut set)?;
    let Value::Set(values) = &mut set.value else {
        return Err(malformed("a method of sets", &set.value));
    };
    let values = own(values, &mut set.owned, values.len(), meter)?;
    meter.search(values.len(), by)?;
    let changed = change(values, value);
    Ok((set, by, changed))
}

fn insert(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (mut set, by, is_new) = change_set(args, meter, |values, value| values.insert(value))?;
    if is_new {
        meter.grow(&mut set, by)?;
    }
    Ok(set)
}

fn remove(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (mut set, by, was_there) = change_set(args, meter, |values, value| values.remove(&value))?;
    if was_there {
        set.shrink(by.size);
    }
    Ok(set)
}

fn combine(builtin: Builtin, args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (one, other) = (args.weigh(0, meter)?, args.weigh(1, meter)?);
    let (Value::Set(a), Value::Set(b)) = (args.value(0), args.value(1)) else {
        return Err(malformed("a method of sets", args.value(0)));
    };
    meter.elements(a.len() + b.len())?;
    meter.spend(u64::from(one.size.saturating_add(other.size)) / 64)?;
    let values: BTreeSet<Value> = match builtin {
        Builtin::Union => a.union(b).cloned().collect(),
        Builtin::Intersection => a.intersection(b).cloned().collect(),
        _ => a.difference(b).cloned().collect(),
    };
    let mut made = Slot::made(Value::Set(Arc::new(values)));
    meter.weigh(&mut made)?;
    Ok(made)
}

pub(super) fn maps(
    builtin: Builtin,
    args: &mut Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    match builtin {
        Builtin::Put => put(args, meter),
        Builtin::RemoveKey => remove_key(args, meter),
        _ => {
            let Value::Map(entries) = args.value(0) else {
                return Err(malformed("`values`", args.value(0)));
            };
            meter.elements(entries.len())?;
            Ok(Slot::made(Value::list(entries.values().cloned())))
        }
    }
}

/// Changes the map that is the first argument, at the key that is the second. Returns the map, the
/// weight of the key, and the value that was there.
fn change_map(
    args: &mut Args<'_>,
    meter: &mut Meter,
    change: impl FnOnce(&mut BTreeMap<Value, Value>, Value) -> Option<Value>,
) -> Result<(Slot, Weight, Option<Value>), FailureKind> {
    let key_weight = args.weigh(1, meter)?;
    let key = args.share(1).value;
    let mut map = args.take(0);
    meter.weigh(&mut map)?;
    let Value::Map(entries) = &mut map.value else {
        return Err(malformed("a method of maps", &map.value));
    };
    let entries = own(entries, &mut map.owned, 2 * entries.len(), meter)?;
    meter.search(entries.len(), key_weight)?;
    let old = change(entries, key);
    Ok((map, key_weight, old))
}

fn put(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let by = args.weigh(2, meter)?;
    let value = args.share(2).value;
    let insert = |entries: &mut BTreeMap<_, _>, key| entries.insert(key, value);
    let (mut map, key_weight, old) = change_map(args, meter, insert)?;
    match old {
        Some(old) => map.shrink(meter.weigh_value(&old)?.size),
        None => meter.grow(&mut map, key_weight)?,
    }
    meter.grow(&mut map, by)?;
    Ok(map)
}

fn remove_key(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (mut map, key_weight, old) = change_map(args, meter, |entries, key| entries.remove(&key))?;
    if let Some(old) = old {
        map.shrink(key_weight.size.saturating_add(meter.weigh_value(&old)?.size));
    }
    Ok(map)
}

/// Evaluates `m[k]` and `m.get(k)`.
pub(super) fn entry(
    builtin: Builtin,
    args: &mut Args<'_>,
    meter: &mut Meter,
) -> Result<Slot, FailureKind> {
    let key_weight = args.weigh(1, meter)?;
    let (Value::Map(entries), key) = (args.value(0), args.value(1)) else {
        return Err(malformed("a method of maps", args.value(0)));
    };
    meter.search(entries.len(), key_weight)?;
    match (builtin, entries.get(key)) {
        (Builtin::Index, Some(value)) => Ok(Slot::shared(value.clone())),
        (Builtin::Index, None) => Err(FailureKind::MissingKey(brief(key))),
        (_, found) => Ok(super::maybe(found)),
    }
}

/// Returns whether a set has an element, or a map a key.
pub(super) fn contains(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let key_weight = args.weigh(1, meter)?;
    let key = args.value(1);
    let found = match args.value(0) {
        Value::Set(values) => {
            meter.search(values.len(), key_weight)?;
            values.contains(key)
        }
        Value::Map(entries) => {
            meter.search(entries.len(), key_weight)?;
            entries.contains_key(key)
        }
        other => return Err(malformed("`contains`", other)),
    };
    Ok(super::truth(found))
}

/// Returns the elements of a set, or the keys of a map, as a list.
pub(super) fn elements(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    match args.value(0) {
        Value::Set(values) => {
            meter.elements(values.len())?;
            let list = Value::list(values.iter().cloned());
            let weight: Weight = args.weigh(0, meter)?;
            Ok(Slot::weighing(list, weight))
        }
        Value::Map(entries) => {
            meter.elements(entries.len())?;
            Ok(Slot::made(Value::list(entries.keys().cloned())))
        }
        other => Err(malformed("walking through the elements", other)),
    }
}
