//! Operations on the objects of handles.

use serde::{Deserialize, Serialize};

use crate::types::{Object, Type};

/// An operation on an object of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectOp {
    /// Whether the object exists: `is_valid()`.
    Exists,
    /// Removes the object: `delete()`.
    Delete,
    /// Of a register: the value, if there is one.
    Get,
    /// Of a register: the value. It fails if there is none: `*handle`.
    Load,
    /// Of a register: writes a value.
    Put,
    /// Of a counter: adds a number, which may be negative.
    Increment,
    /// Of a counter: its value, 0 if it is new.
    Value,
    /// Of a set: adds an element.
    Insert,
    /// Of a set: removes an element.
    Remove,
    /// Of a set: whether an element is in it.
    Contains,
    /// Of a set: all elements.
    Elements,
    /// Of a map: writes the value of a key.
    PutKey,
    /// Of a map: removes a key.
    RemoveKey,
    /// Of a map: the value of a key, if there is one.
    GetKey,
    /// Of a map: whether there is a key.
    ContainsKey,
    /// Of a map: all of it.
    Entries,
    /// Of a list or log: appends a value.
    Append,
    /// Of a list or log: the value at an index, from 0, if there is one.
    At,
    /// Of a list or log: all values, in order.
    Values,
    /// Of a set, map, list or log: the number of elements.
    Size,
    /// Of a struct: the field with this number. It fails if it was never written.
    Field(u16),
    /// Of a struct: writes the field with this number.
    PutField(u16),
    /// Of a struct: writes all fields.
    Create,
}

/// Types of the arguments and the result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operation.
    pub op: ObjectOp,
    /// The types of its arguments.
    pub params: Vec<Type>,
    /// Type of its result.
    pub result: Type,
}

impl ObjectOp {
    /// Returns whether it may change the object.
    pub fn mutates(self) -> bool {
        matches!(
            self,
            ObjectOp::Delete
                | ObjectOp::Put
                | ObjectOp::Increment
                | ObjectOp::Insert
                | ObjectOp::Remove
                | ObjectOp::PutKey
                | ObjectOp::RemoveKey
                | ObjectOp::Append
                | ObjectOp::PutField(_)
                | ObjectOp::Create
        )
    }
}

/// Returns the names of an object's operations, for error messages.
pub fn names(object: &Object) -> &'static [&'static str] {
    match object {
        Object::Register(_) => &["get", "set", "is_valid", "delete"],
        Object::Counter => &["add", "value", "is_valid", "delete"],
        Object::Set(_) => {
            &["add", "insert", "remove", "contains", "size", "elements", "is_valid", "delete"]
        }
        Object::Map(..) => {
            &["put", "get", "remove", "contains", "size", "entries", "is_valid", "delete"]
        }
        Object::List(_) => &["append", "push", "at", "size", "values", "is_valid", "delete"],
        Object::Log(_) => &["append", "at", "size", "values", "is_valid"],
        Object::Struct(_) => &["is_valid", "delete"],
        Object::RemoteList(_) => &["push", "is_valid", "delete"],
    }
}

/// Returns the operation of an object by its name. `push` of a `RemoteList` consists of several
/// operations and is not included.
pub fn lookup(object: &Object, name: &str) -> Option<Signature> {
    let option = |of: &Type| Type::Option(of.clone().into());
    let (op, params, result) = match (object, name) {
        (_, "is_valid") => (ObjectOp::Exists, vec![], Type::Bool),
        (Object::Log(_), "delete") => return None,
        (_, "delete") => (ObjectOp::Delete, vec![], Type::Unit),
        (Object::Register(of), "get") => (ObjectOp::Get, vec![], option(of)),
        (Object::Register(of), "set") => (ObjectOp::Put, vec![of.clone()], Type::Unit),
        (Object::Counter, "add") => (ObjectOp::Increment, vec![Type::Int], Type::Unit),
        (Object::Counter, "value") => (ObjectOp::Value, vec![], Type::Int),
        (Object::Set(of), "add" | "insert") => (ObjectOp::Insert, vec![of.clone()], Type::Unit),
        (Object::Set(of), "remove") => (ObjectOp::Remove, vec![of.clone()], Type::Unit),
        (Object::Set(of), "contains") => (ObjectOp::Contains, vec![of.clone()], Type::Bool),
        (Object::Set(of), "elements") => (ObjectOp::Elements, vec![], Type::Set(of.clone().into())),
        (Object::Map(key, value), "put") => {
            (ObjectOp::PutKey, vec![key.clone(), value.clone()], Type::Unit)
        }
        (Object::Map(key, value), "get") => (ObjectOp::GetKey, vec![key.clone()], option(value)),
        (Object::Map(key, _), "remove") => (ObjectOp::RemoveKey, vec![key.clone()], Type::Unit),
        (Object::Map(key, _), "contains") => (ObjectOp::ContainsKey, vec![key.clone()], Type::Bool),
        (Object::Map(key, value), "entries") => {
            let all = Type::Map(key.clone().into(), value.clone().into());
            (ObjectOp::Entries, vec![], all)
        }
        (Object::List(of), "append" | "push") | (Object::Log(of), "append") => {
            (ObjectOp::Append, vec![of.clone()], Type::Unit)
        }
        (Object::List(of) | Object::Log(of), "at") => (ObjectOp::At, vec![Type::Int], option(of)),
        (Object::List(of) | Object::Log(of), "values") => {
            (ObjectOp::Values, vec![], Type::List(of.clone().into()))
        }
        (Object::Set(_) | Object::Map(..) | Object::List(_) | Object::Log(_), "size") => {
            (ObjectOp::Size, vec![], Type::Int)
        }
        _ => return None,
    };
    Some(Signature { op, params, result })
}
