//! Executes operations on the version of a key that a transaction sees.

use crate::view::View;
use crate::{
    CellChange, Effect, Fingerprint, HashChange, Op, OpError, Outcome, SetChange, Type, Value,
};

/// Outcome, with the effect of an update that changes the key.
type Executed = Result<(Outcome, Option<Effect>), OpError>;

/// Executes `op` on the version `view`.
///
/// # Errors
/// The key holds another type, a number is invalid, or the result exceeds the 64-bit range, as in
/// Redis. In these cases the operation has no effect. The sum of one transaction's increments of a
/// counter must also be a 64-bit number, whatever the counter's value is.
pub fn execute(op: &Op, view: &View<'_>) -> Executed {
    let mut executed = dispatch(op, view);
    if let Ok((_, Some(effect))) = &mut executed
        && !view.unseen().is_empty()
        && effect.observes()
    {
        effect.unseen = view.unseen().to_vec();
    }
    executed
}

fn dispatch(op: &Op, view: &View<'_>) -> Executed {
    match op {
        Op::Get => {
            string_only(view)?;
            Ok((view.text().into_value().map_or(Outcome::Nil, Outcome::Bulk), None))
        }
        Op::Set(value) => {
            let cell = CellChange { assign: Some(value.clone()), add: None };
            Ok((Outcome::Ok, Some(Effect { clear: true, cell, ..Effect::default() })))
        }
        Op::IncrBy(by) => incr_by(view, *by),
        Op::Delete => {
            let existed = view.kind().is_some();
            let effect = existed.then(|| Effect { clear: true, ..Effect::default() });
            Ok((Outcome::Int(i64::from(existed)), effect))
        }
        Op::Exists => read(Outcome::Int(i64::from(view.kind().is_some()))),
        Op::Type => read(Outcome::Type(view.kind())),
        Op::SetAdd(elements) => set_add(view, elements),
        Op::SetRemove(elements) => set_remove(view, elements),
        Op::SetMembers => {
            only(view, Type::Set)?;
            read(Outcome::Members(view.members()))
        }
        Op::SetContains(element) => {
            only(view, Type::Set)?;
            read(Outcome::Int(i64::from(view.contains(element))))
        }
        Op::SetLen => {
            only(view, Type::Set)?;
            read(count(view.set_len()))
        }
        Op::HashSet(pairs) => hash_set(view, pairs),
        Op::HashGet(field) => {
            only(view, Type::Hash)?;
            read(view.field(field).into_value().map_or(Outcome::Nil, Outcome::Bulk))
        }
        Op::HashGetMany(fields) => {
            only(view, Type::Hash)?;
            let values = fields.iter().map(|field| view.field(field).into_value());
            read(Outcome::Values(values.collect()))
        }
        Op::HashGetAll => {
            only(view, Type::Hash)?;
            read(Outcome::Pairs(view.pairs()))
        }
        Op::HashNewest(most) => {
            only(view, Type::Hash)?;
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            read(Outcome::Values(view.newest().take(most).map(Some).collect()))
        }
        Op::HashDelete(fields) => hash_delete(view, fields),
        Op::HashIncrBy(field, by) => hash_incr_by(view, field, *by),
        Op::SetNew(value) => match view.kind() {
            Some(_) => read(Outcome::Int(0)),
            None => {
                let cell = CellChange { assign: Some(value.clone()), add: None };
                Ok((Outcome::Int(1), Some(Effect { clear: true, cell, ..Effect::default() })))
            }
        },
        Op::Digest => read(Outcome::Int(digest(view))),
    }
}

/// Returns a digest of everything that clients can see of the key. Values of other types that the
/// key's type hides do not count.
fn digest(view: &View<'_>) -> i64 {
    let mut all = Fingerprint::default();
    if let Some(kind) = view.kind() {
        all.add(kind.name().as_bytes());
        match kind {
            Type::String => {
                view.text().into_value().iter().for_each(|text| all.add(text.as_bytes()));
            }
            Type::Set => view.members().iter().for_each(|member| all.add(member.as_bytes())),
            Type::Hash => view.pairs().iter().for_each(|(field, value)| {
                all.add(field.as_bytes());
                all.add(value.as_bytes());
            }),
        }
    }
    all.finish() as i64
}

fn read(outcome: Outcome) -> Executed {
    Ok((outcome, None))
}

fn count(n: usize) -> Outcome {
    Outcome::Int(n as i64)
}

fn string_only(view: &View<'_>) -> Result<(), OpError> {
    if view.has_collection() { Err(OpError::WrongType) } else { Ok(()) }
}

/// Fails unless the key is absent or holds the collection type `wanted`.
fn only(view: &View<'_>, wanted: Type) -> Result<(), OpError> {
    match view.kind() {
        Some(kind) if kind != wanted => Err(OpError::WrongType),
        _ => Ok(()),
    }
}

fn incr_by(view: &View<'_>, by: i64) -> Executed {
    string_only(view)?;
    let number = view.text().number().ok_or(OpError::NotAnInteger)?;
    let sum = sum(number, by, view.own_change())?;
    let cell = CellChange { assign: None, add: Some(by) };
    Ok((Outcome::Int(sum), Some(Effect { cell, ..Effect::default() })))
}

/// Returns the number after an increment. The sum of the transaction's own increments must also be
/// a 64-bit number.
fn sum(number: i64, by: i64, own: Option<&CellChange>) -> Result<i64, OpError> {
    let earlier = own.and_then(|change| change.add).unwrap_or(0);
    earlier.checked_add(by).and(number.checked_add(by)).ok_or(OpError::Overflow)
}

/// Adds every element, even one that is present, so that the new add wins over a concurrent
/// removal.
fn set_add(view: &View<'_>, elements: &[Value]) -> Executed {
    only(view, Type::Set)?;
    let added = distinct(elements);
    let new = added.iter().filter(|element| !view.contains(element)).count();
    let set = Some(Box::new(SetChange { removed: Vec::new(), added }));
    Ok((count(new), Some(Effect { set, ..Effect::default() })))
}

fn set_remove(view: &View<'_>, elements: &[Value]) -> Executed {
    only(view, Type::Set)?;
    let mut removed = distinct(elements);
    removed.retain(|element| view.contains(element));
    if removed.is_empty() {
        return read(Outcome::Int(0));
    }
    let outcome = count(removed.len());
    let set = Some(Box::new(SetChange { removed, added: Vec::new() }));
    Ok((outcome, Some(Effect { set, ..Effect::default() })))
}

fn hash_set(view: &View<'_>, pairs: &[(Value, Value)]) -> Executed {
    only(view, Type::Hash)?;
    let change = |value: &Value| CellChange { assign: Some(value.clone()), add: None };
    let mut fields: Vec<(Value, bool, CellChange)> =
        pairs.iter().map(|(field, value)| (field.clone(), true, change(value))).collect();
    if fields.len() > 1 {
        // The sort is stable: of several equal fields, the one that was given last remains the
        // last, and wins.
        fields.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        fields.dedup_by(|(later, _, change), (earlier, _, kept)| {
            let same = later == earlier;
            if same {
                *kept = std::mem::take(change);
            }
            same
        });
    }
    let new = fields.iter().filter(|(field, ..)| !view.field(field).exists()).count();
    Ok((count(new), Some(of_hash(fields))))
}

fn hash_delete(view: &View<'_>, fields: &[Value]) -> Executed {
    only(view, Type::Hash)?;
    let mut fields = distinct(fields);
    fields.retain(|field| view.field(field).exists());
    if fields.is_empty() {
        return read(Outcome::Int(0));
    }
    let outcome = count(fields.len());
    let removed = fields.into_iter().map(|field| (field, true, CellChange::default()));
    Ok((outcome, Some(of_hash(removed.collect()))))
}

fn hash_incr_by(view: &View<'_>, field: &Value, by: i64) -> Executed {
    only(view, Type::Hash)?;
    let number = view.field(field).number().ok_or(OpError::FieldNotAnInteger)?;
    let sum = sum(number, by, view.own_field_change(field))?;
    let change = CellChange { assign: None, add: Some(by) };
    Ok((Outcome::Int(sum), Some(of_hash(vec![(field.clone(), false, change)]))))
}

fn of_hash(fields: Vec<(Value, bool, CellChange)>) -> Effect {
    Effect { hash: Some(Box::new(HashChange { fields })), ..Effect::default() }
}

/// Returns the values sorted and without duplicates, as changes require.
fn distinct(values: &[Value]) -> Vec<Value> {
    let mut distinct = values.to_vec();
    if distinct.len() > 1 {
        distinct.sort_unstable();
        distinct.dedup();
    }
    distinct
}
