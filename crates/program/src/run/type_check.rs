//! Checks whether a value has a type.

use std::fmt;
use std::sync::Arc;

use crate::ir::Program;
use crate::nesting::MAX_NESTING;
use crate::types::{Object, StoreId, Type};
use crate::value::{Handle, Value};

/// Error of a value that does not have a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeMismatch {
    /// The value, or a part of it, is of another kind.
    Kind {
        /// Type of the mismatched part.
        expected: String,
        /// Kind of the value that was found.
        found: &'static str,
    },
    /// The value is or contains a handle of another store.
    Store {
        /// The handle.
        handle: Handle,
        /// The store that the type names.
        expected: Arc<str>,
    },
    /// The value is nested deeper than [`MAX_NESTING`].
    TooDeep,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypeMismatch::Kind { expected, found } => {
                write!(f, "{found} where {expected} should be")
            }
            TypeMismatch::Store { handle, expected } => {
                write!(f, "{handle} where a handle of `{expected}` should be")
            }
            TypeMismatch::TooDeep => write!(f, "nested more than {MAX_NESTING} deep"),
        }
    }
}

/// Checks that a value has a type of a verified program.
pub fn check_type(program: &Program, value: &Value, ty: &Type) -> Result<(), TypeMismatch> {
    below(program, value, ty, 0)
}

fn below(program: &Program, value: &Value, ty: &Type, level: u8) -> Result<(), TypeMismatch> {
    if level > MAX_NESTING {
        return Err(TypeMismatch::TooDeep);
    }
    let one = |of: &Type, value: &Value| below(program, value, of, level + 1);
    match (value, ty) {
        (Value::Unit, Type::Unit)
        | (Value::Bool(_), Type::Bool)
        | (Value::Int(_), Type::Int)
        | (Value::Float(_), Type::Float)
        | (Value::String(_), Type::String)
        | (Value::Bytes(_), Type::Bytes) => Ok(()),
        (Value::Option(value), Type::Option(of)) => {
            value.iter().try_for_each(|value| one(of, value))
        }
        (Value::List(values), Type::List(of)) => values.iter().try_for_each(|value| one(of, value)),
        (Value::Set(values), Type::Set(of)) => values.iter().try_for_each(|value| one(of, value)),
        (Value::Map(entries), Type::Map(key, of)) => {
            let entry = |(k, v): (&Value, &Value)| one(key, k).and_then(|()| one(of, v));
            entries.iter().try_for_each(entry)
        }
        (Value::Struct(values), Type::Struct(id)) => {
            let fields = &program.structs[usize::from(id.0)].fields;
            if values.len() != fields.len() {
                return Err(TypeMismatch::Kind {
                    expected: spell(program, ty),
                    found: "another struct",
                });
            }
            let mut fields = values.iter().zip(fields);
            fields.try_for_each(|(value, (_, ty))| one(ty, value))
        }
        (Value::Handle(handle), Type::Handle(_, store)) => leads_to(program, handle, *store),
        _ => Err(TypeMismatch::Kind { expected: spell(program, ty), found: value.kind() }),
    }
}

/// Describes what was found when the whole value should have had a type.
pub(super) fn found_instead(whole: &str, expected: &str, found: &str) -> String {
    if whole == expected {
        found.to_owned()
    } else {
        format!("one with {found} where {expected} should be")
    }
}

/// Returns whether a handle refers to a store (MixT §3.1, note 1).
pub(super) fn leads_to(
    program: &Program,
    handle: &Handle,
    store: StoreId,
) -> Result<(), TypeMismatch> {
    let expected = &program.stores[usize::from(store.0)].name;
    if handle.store == *expected {
        return Ok(());
    }
    Err(TypeMismatch::Store { handle: handle.clone(), expected: Arc::clone(expected) })
}

/// Formats a type of a program in source syntax.
pub fn spell(program: &Program, ty: &Type) -> String {
    let one = |ty: &Type| spell(program, ty);
    match ty {
        Type::Unit => "nothing".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Int => "int".to_owned(),
        Type::Float => "float".to_owned(),
        Type::String => "string".to_owned(),
        Type::Bytes => "bytes".to_owned(),
        Type::Option(of) => format!("option<{}>", one(of)),
        Type::List(of) => format!("list<{}>", one(of)),
        Type::Set(of) => format!("set<{}>", one(of)),
        Type::Map(key, value) => format!("map<{}, {}>", one(key), one(value)),
        Type::Struct(id) => struct_name(program, usize::from(id.0)),
        Type::Handle(object, store) => {
            let store = program.stores.get(usize::from(store.0));
            let store = store.map_or("?", |store| &store.name);
            format!("handle<{}> in {store}", spell_object(program, object))
        }
        Type::Unknown => "?".to_owned(),
    }
}

/// Formats the object type of a handle in source syntax.
pub(super) fn spell_object(program: &Program, object: &Object) -> String {
    let one = |ty: &Type| spell(program, ty);
    match object {
        Object::Register(of) => format!("register<{}>", one(of)),
        Object::Counter => "counter".to_owned(),
        Object::Set(of) => format!("set<{}>", one(of)),
        Object::Map(key, value) => format!("map<{}, {}>", one(key), one(value)),
        Object::List(of) => format!("list<{}>", one(of)),
        Object::Log(of) => format!("log<{}>", one(of)),
        Object::Struct(id) => struct_name(program, usize::from(id.0)),
        Object::RemoteList(of) => format!("RemoteList<{}>", one(of)),
    }
}

fn struct_name(program: &Program, id: usize) -> String {
    program.structs.get(id).map_or_else(|| "?".to_owned(), |found| found.name.to_string())
}
