//! Operations on the objects of handles.

use serde::{Deserialize, Serialize};

use crate::types::{Object, Type};

/// An operation on an object of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ObjectOp {
    /// Returns whether the object exists: `is_valid()`.
    Exists,
    /// Removes the object: `delete()`.
    Delete,
    /// Returns the value of a register, if there is one.
    Get,
    /// Returns the value of a register; fails if there is none: `*handle`.
    Load,
    /// Writes the value of a register.
    Put,
    /// Adds a number, which may be negative, to a counter.
    Increment,
    /// Returns the value of a counter; 0 if it is new.
    Value,
    /// Adds an element to a set.
    Insert,
    /// Removes an element from a set.
    Remove,
    /// Returns whether an element is in a set.
    Contains,
    /// Returns all elements of a set.
    Elements,
    /// Writes the value of a key of a map.
    PutKey,
    /// Removes a key from a map.
    RemoveKey,
    /// Returns the value of a key of a map, if there is one.
    GetKey,
    /// Returns whether a map has a key.
    ContainsKey,
    /// Returns all entries of a map.
    Entries,
    /// Appends a value to a list or log.
    Append,
    /// Returns the value of a list or log at an index, from 0, if there is one.
    At,
    /// Returns all values of a list or log, in order.
    Values,
    /// Returns the number of elements of a set, map, list or log.
    Size,
    /// Returns the field of a struct with this number; fails if it was never written.
    Field(u16),
    /// Writes the field of a struct with this number.
    PutField(u16),
    /// Writes all fields of a struct.
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
