//! Builtins of sets and maps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::builtin::Builtin;
use crate::run::args::Args;
use crate::run::failure::{FailureKind, brief, malformed};
use crate::run::slot::{Meter, Slot, Weight};
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

fn set_mut<'a>(
    slot: &'a mut Slot,
    meter: &mut Meter,
) -> Result<&'a mut BTreeSet<Value>, FailureKind> {
    let values = match &mut slot.value {
        Value::Set(values) => values,
        other => return Err(malformed("a method of sets", other)),
    };
    if !slot.owned {
        meter.elements(values.len())?;
        slot.owned = true;
    }
    Ok(Arc::make_mut(values))
}

fn insert(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let by = args.weigh(1, meter)?;
    let value = args.share(1).value;
    let mut set = args.take(0);
    meter.weigh(&mut set)?;
    let values = set_mut(&mut set, meter)?;
    meter.search(values.len(), by)?;
    if values.insert(value) {
        meter.grow(&mut set, by)?;
    }
    Ok(set)
}

fn remove(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let by = args.weigh(1, meter)?;
    let value = args.share(1).value;
    let mut set = args.take(0);
    meter.weigh(&mut set)?;
    let values = set_mut(&mut set, meter)?;
    meter.search(values.len(), by)?;
    if values.remove(&value) {
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

fn map_mut<'a>(
    slot: &'a mut Slot,
    meter: &mut Meter,
) -> Result<&'a mut BTreeMap<Value, Value>, FailureKind> {
    let entries = match &mut slot.value {
        Value::Map(entries) => entries,
        other => return Err(malformed("a method of maps", other)),
    };
    if !slot.owned {
        meter.elements(2 * entries.len())?;
        slot.owned = true;
    }
    Ok(Arc::make_mut(entries))
}

fn put(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let (key_weight, by) = (args.weigh(1, meter)?, args.weigh(2, meter)?);
    let (key, value) = (args.share(1).value, args.share(2).value);
    let mut map = args.take(0);
    meter.weigh(&mut map)?;
    let entries = map_mut(&mut map, meter)?;
    meter.search(entries.len(), key_weight)?;
    match entries.insert(key, value) {
        Some(old) => map.shrink(meter.weigh_value(&old)?.size),
        None => meter.grow(&mut map, key_weight)?,
    }
    meter.grow(&mut map, by)?;
    Ok(map)
}

fn remove_key(args: &mut Args<'_>, meter: &mut Meter) -> Result<Slot, FailureKind> {
    let key_weight = args.weigh(1, meter)?;
    let key = args.share(1).value;
    let mut map = args.take(0);
    meter.weigh(&mut map)?;
    let entries = map_mut(&mut map, meter)?;
    meter.search(entries.len(), key_weight)?;
    if let Some(old) = entries.remove(&key) {
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

/// Whether a set has an element, or a map a key.
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
