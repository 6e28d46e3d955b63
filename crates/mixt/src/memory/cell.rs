//! Content of a key of a database in memory, and the operations that change it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::operation::ObjectOp;
use solera_program::types::Object;
use solera_program::value::Value;

use crate::location::Fields;
use crate::request::calls::{ObjectCall, StoreError};

/// Content of a key.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Register(Value),
    Counter(i64),
    Set(Arc<BTreeSet<Value>>),
    Map(Arc<BTreeMap<Value, Value>>),
    List(Arc<Vec<Value>>),
    Struct(BTreeMap<u16, Value>),
    /// A named object.
    Fields(Fields),
}

/// The kinds of objects that a key can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Register,
    Counter,
    Set,
    Map,
    List,
    Struct,
    Fields,
}

impl Kind {
    fn of(object: &Object) -> Kind {
        match object {
            Object::Register(_) => Kind::Register,
            Object::Counter => Kind::Counter,
            Object::Set(_) => Kind::Set,
            Object::Map(..) => Kind::Map,
            Object::List(_) | Object::Log(_) => Kind::List,
            Object::Struct(_) | Object::RemoteList(_) => Kind::Struct,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Register => "a register",
            Kind::Counter => "a counter",
            Kind::Set => "a set",
            Kind::Map => "a map",
            Kind::List => "a list",
            Kind::Struct => "a struct",
            Kind::Fields => "a named object",
        }
    }
}

impl Cell {
    fn kind(&self) -> Kind {
        match self {
            Cell::Register(_) => Kind::Register,
            Cell::Counter(_) => Kind::Counter,
            Cell::Set(_) => Kind::Set,
            Cell::Map(_) => Kind::Map,
            Cell::List(_) => Kind::List,
            Cell::Struct(_) => Kind::Struct,
            Cell::Fields(_) => Kind::Fields,
        }
    }
}

/// Executes a reading operation; `None` if the operation needs an object and there is none.
pub(super) fn read(cell: Option<&Cell>, call: &ObjectCall) -> Result<Option<Value>, StoreError> {
    check_kind(cell.map(Cell::kind), call)?;
    let int = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
    let option = |found: Option<&Value>| found.cloned().map_or(Value::NONE, Value::some);
    let first = call.args.first();
    let found = match (call.op, cell) {
        (ObjectOp::Exists, cell) => Value::Bool(cell.is_some()),
        (ObjectOp::Get, Some(Cell::Register(value))) => Value::some(value.clone()),
        (ObjectOp::Get | ObjectOp::At | ObjectOp::GetKey, None) => Value::NONE,
        (ObjectOp::Load, Some(Cell::Register(value))) => value.clone(),
        (ObjectOp::Value, Some(Cell::Counter(count))) => Value::Int(*count),
        (ObjectOp::Value | ObjectOp::Size, None) => Value::Int(0),
        (ObjectOp::Contains, Some(Cell::Set(set))) => {
            Value::Bool(first.is_some_and(|value| set.contains(value)))
        }
        (ObjectOp::Contains | ObjectOp::ContainsKey, None) => Value::Bool(false),
        (ObjectOp::Elements, Some(Cell::Set(set))) => Value::Set(Arc::clone(set)),
        (ObjectOp::Elements, None) => Value::Set(Arc::default()),
        (ObjectOp::GetKey, Some(Cell::Map(map))) => option(first.and_then(|key| map.get(key))),
        (ObjectOp::ContainsKey, Some(Cell::Map(map))) => {
            Value::Bool(first.is_some_and(|key| map.contains_key(key)))
        }
        (ObjectOp::Entries, Some(Cell::Map(map))) => Value::Map(Arc::clone(map)),
        (ObjectOp::Entries, None) => Value::Map(Arc::default()),
        (ObjectOp::At, Some(Cell::List(list))) => match first {
            Some(Value::Int(at)) => option(usize::try_from(*at).ok().and_then(|at| list.get(at))),
            _ => return Err(call.impossible()),
        },
        (ObjectOp::Values, Some(Cell::List(list))) => Value::List(Arc::clone(list)),
        (ObjectOp::Values, None) => Value::List(Arc::default()),
        (ObjectOp::Size, Some(Cell::Set(set))) => int(set.len()),
        (ObjectOp::Size, Some(Cell::Map(map))) => int(map.len()),
        (ObjectOp::Size, Some(Cell::List(list))) => int(list.len()),
        (ObjectOp::Field(index), Some(Cell::Struct(fields))) => {
            return Ok(fields.get(&index).cloned());
        }
        (ObjectOp::Load | ObjectOp::Field(_), None) => return Ok(None),
        _ => return Err(call.impossible()),
    };
    Ok(Some(found))
}

/// Executes an operation that changes the cell.
pub(super) fn change(cell: &mut Option<Cell>, call: &ObjectCall) -> Result<(), StoreError> {
    check_kind(cell.as_ref().map(Cell::kind), call)?;
    let mut args = call.args.iter().cloned();
    let mut arg = || args.next().ok_or_else(|| call.impossible());
    match call.op {
        ObjectOp::Delete => *cell = None,
        ObjectOp::Put => *cell = Some(Cell::Register(arg()?)),
        ObjectOp::Create => {
            *cell = Some(Cell::Struct((0..).zip(call.args.iter().cloned()).collect()));
        }
        op => {
            let value = arg()?;
            let cell = cell.get_or_insert_with(|| empty(Kind::of(call.object())));
            match (op, cell, value) {
                (ObjectOp::Increment, Cell::Counter(count), Value::Int(by)) => {
                    let sum = count.checked_add(by);
                    let text = || format!("the counter `{}` would not fit 64 bits", call.key);
                    *count = sum.ok_or_else(|| StoreError::Refused(text()))?;
                }
                (ObjectOp::Insert, Cell::Set(set), value) => {
                    Arc::make_mut(set).insert(value);
                }
                (ObjectOp::Remove, Cell::Set(set), value) => {
                    Arc::make_mut(set).remove(&value);
                }
                (ObjectOp::PutKey, Cell::Map(map), key) => {
                    Arc::make_mut(map).insert(key, arg()?);
                }
                (ObjectOp::RemoveKey, Cell::Map(map), key) => {
                    Arc::make_mut(map).remove(&key);
                }
                (ObjectOp::Append, Cell::List(list), value) => Arc::make_mut(list).push(value),
                (ObjectOp::PutField(index), Cell::Struct(fields), value) => {
                    fields.insert(index, value);
                }
                _ => return Err(call.impossible()),
            }
        }
    }
    Ok(())
}

/// Checks that [`change`] will succeed for all of these operations in order, without executing
/// them.
pub(super) fn check(cell: Option<&Cell>, calls: &[&ObjectCall]) -> Result<(), StoreError> {
    if let Some(Cell::Counter(_)) | None = cell {
        // These cells are small, and only a counter can fail because of its value.
        let mut copy = cell.cloned();
        return calls.iter().try_for_each(|call| change(&mut copy, call));
    }
    let mut kind = cell.map(Cell::kind);
    for (index, call) in calls.iter().enumerate() {
        check_kind(kind, call)?;
        if call.op == ObjectOp::Delete {
            return check(None, &calls[index + 1..]);
        }
        kind = Some(Kind::of(call.object()));
    }
    Ok(())
}

fn empty(kind: Kind) -> Cell {
    match kind {
        Kind::Register => Cell::Register(Value::Unit),
        Kind::Counter => Cell::Counter(0),
        Kind::Set => Cell::Set(Arc::default()),
        Kind::Map => Cell::Map(Arc::default()),
        Kind::List => Cell::List(Arc::default()),
        Kind::Struct => Cell::Struct(BTreeMap::new()),
        Kind::Fields => Cell::Fields(Fields::new()),
    }
}

fn check_kind(found: Option<Kind>, call: &ObjectCall) -> Result<(), StoreError> {
    let wanted = Kind::of(call.object());
    match found {
        Some(found) if found != wanted => Err(StoreError::WrongData {
            key: Arc::clone(&call.key),
            found: found.name().to_owned(),
            wanted: wanted.name().to_owned(),
        }),
        _ => Ok(()),
    }
}
