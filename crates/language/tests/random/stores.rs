//! Stores in memory, as simple as possible: a second, independent implementation of the operations.

use std::collections::{BTreeMap, BTreeSet};

use solera_program::operation::ObjectOp;
use solera_program::run::RemoteCall;
use solera_program::value::Value;

#[derive(Clone, Debug, PartialEq)]
enum Held {
    Number(i64),
    Set(BTreeSet<Value>),
    Register(Value),
}

/// Values of all stores, by store and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stores {
    held: BTreeMap<(String, String), Held>,
}

impl Stores {
    pub(crate) fn put_number(&mut self, store: &str, key: &str, number: i64) {
        self.held.insert((store.into(), key.into()), Held::Number(number));
    }

    pub(crate) fn put_set(
        &mut self,
        store: &str,
        key: &str,
        elements: impl IntoIterator<Item = i64>,
    ) {
        let set = elements.into_iter().map(Value::Int).collect();
        self.held.insert((store.into(), key.into()), Held::Set(set));
    }

    pub(crate) fn put_register(&mut self, store: &str, key: &str, value: i64) {
        self.held.insert((store.into(), key.into()), Held::Register(Value::Int(value)));
    }

    pub(crate) fn answer(&mut self, call: &RemoteCall) -> Value {
        let place = (call.handle.store.to_string(), call.handle.key.to_string());
        let held = self.held.get(&place).cloned();
        match (call.op, held) {
            (ObjectOp::Value, Some(Held::Number(n))) => Value::Int(n),
            (ObjectOp::Value, None) => Value::Int(0),
            (ObjectOp::Increment, held) => {
                let Value::Int(by) = call.args[0] else { panic!("{call:?}") };
                let old = match held {
                    Some(Held::Number(n)) => n,
                    _ => 0,
                };
                self.held.insert(place, Held::Number(old.wrapping_add(by)));
                Value::Unit
            }
            (ObjectOp::Get, Some(Held::Register(value))) => Value::some(value),
            (ObjectOp::Get, None) => Value::NONE,
            (ObjectOp::Put, _) => {
                self.held.insert(place, Held::Register(call.args[0].clone()));
                Value::Unit
            }
            (op, held) => {
                let mut set = match held {
                    Some(Held::Set(set)) => set,
                    _ => BTreeSet::new(),
                };
                match op {
                    ObjectOp::Size => Value::Int(set.len() as i64),
                    ObjectOp::Contains => Value::Bool(set.contains(&call.args[0])),
                    ObjectOp::Elements => Value::Set(set.into()),
                    ObjectOp::Insert | ObjectOp::Remove => {
                        if op == ObjectOp::Insert {
                            set.insert(call.args[0].clone());
                        } else {
                            set.remove(&call.args[0]);
                        }
                        self.held.insert(place, Held::Set(set));
                        Value::Unit
                    }
                    other => panic!("{other:?} is in no program"),
                }
            }
        }
    }
}
