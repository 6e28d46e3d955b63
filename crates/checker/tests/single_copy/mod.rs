//! A store with a single copy that executes one operation after the other.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::{Answer, Op};

/// A value of the single copy, without dots, snapshots and merging.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Set(BTreeSet<String>),
    Hash(BTreeMap<String, String>),
}

/// Values by key.
pub(crate) type Store = BTreeMap<String, Value>;

fn int(count: usize) -> Answer {
    Answer::Int(count as i64)
}

fn number(text: Option<&String>) -> Option<i64> {
    text.map_or(Some(0), |text| text.parse().ok())
}

/// Executes an operation and returns its answer.
pub(crate) fn execute(store: &mut Store, key: &str, op: &Op) -> Answer {
    let answer = match op {
        Op::Set(value) => {
            store.insert(key.into(), Value::Text(value.clone()));
            Answer::Ok
        }
        Op::SetNew(value) => {
            let is_new = !store.contains_key(key);
            if is_new {
                store.insert(key.into(), Value::Text(value.clone()));
            }
            int(usize::from(is_new))
        }
        Op::Delete => int(store.remove(key).iter().len()),
        Op::Exists => int(store.get(key).iter().len()),
        Op::Get | Op::Add(_) => on_text(store, key, op),
        Op::SetAdd(_) | Op::SetRemove(_) | Op::Members | Op::Contains(_) | Op::Len => {
            let empty = Value::Set(BTreeSet::new());
            match store.entry(key.into()).or_insert(empty) {
                Value::Set(set) => on_set(set, op),
                _ => Answer::Error,
            }
        }
        _ => match store.entry(key.into()).or_insert(Value::Hash(BTreeMap::new())) {
            Value::Hash(hash) => on_hash(hash, op),
            _ => Answer::Error,
        },
    };
    store.retain(|_, value| match value {
        Value::Text(_) => true,
        Value::Set(set) => !set.is_empty(),
        Value::Hash(hash) => !hash.is_empty(),
    });
    answer
}

fn on_text(store: &mut Store, key: &str, op: &Op) -> Answer {
    let text = match store.get(key) {
        None => None,
        Some(Value::Text(text)) => Some(text),
        Some(_) => return Answer::Error,
    };
    match op {
        Op::Add(by) => match number(text) {
            Some(number) => {
                store.insert(key.into(), Value::Text((number + by).to_string()));
                Answer::Int(number + by)
            }
            None => Answer::Error,
        },
        _ => Answer::Values(vec![text.cloned()]),
    }
}

fn on_set(set: &mut BTreeSet<String>, op: &Op) -> Answer {
    match op {
        Op::SetAdd(added) => int(added.iter().filter(|e| set.insert((*e).clone())).count()),
        Op::SetRemove(removed) => int(removed.iter().filter(|e| set.remove(*e)).count()),
        Op::Contains(element) => int(usize::from(set.contains(element))),
        Op::Len => int(set.len()),
        _ => Answer::Members(set.iter().cloned().collect()),
    }
}

fn on_hash(hash: &mut BTreeMap<String, String>, op: &Op) -> Answer {
    match op {
        Op::FieldSet(field, value) => {
            int(usize::from(hash.insert(field.clone(), value.clone()).is_none()))
        }
        Op::FieldAdd(field, by) => match number(hash.get(field)) {
            Some(number) => {
                hash.insert(field.clone(), (number + by).to_string());
                Answer::Int(number + by)
            }
            None => Answer::Error,
        },
        Op::FieldRemove(fields) => int(fields.iter().filter_map(|f| hash.remove(f)).count()),
        Op::Fields(fields) => Answer::Values(fields.iter().map(|f| hash.get(f).cloned()).collect()),
        Op::Newest(most) => {
            let most = usize::try_from(*most).unwrap();
            Answer::Values(hash.values().rev().take(most).cloned().map(Some).collect())
        }
        _ => Answer::Pairs(hash.clone().into_iter().collect()),
    }
}
