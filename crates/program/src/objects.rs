//! Signatures of operations on objects, by operation instead of by name.

use std::sync::Arc;

use crate::ir::Program;
use crate::operation::{ObjectOp, Signature};
use crate::types::{Object, StoreId, Type};

/// Field with the value of a `RemoteList` cell.
pub const REMOTE_LIST_VALUE: u16 = 0;
/// Field with the handle of the next cell; at the end, that cell does not exist.
pub const REMOTE_LIST_NEXT: u16 = 1;

/// Returns the types of an operation's arguments and result; `None` if the object has no such
/// operation.
pub fn signature(
    program: &Program,
    object: &Object,
    store: StoreId,
    op: ObjectOp,
) -> Option<Signature> {
    let option = |of: &Type| Type::Option(of.clone().into());
    let (params, result) = match (object, op) {
        (_, ObjectOp::Exists) => (vec![], Type::Bool),
        (Object::Log(_), ObjectOp::Delete) => return None,
        (_, ObjectOp::Delete) => (vec![], Type::Unit),
        (Object::Register(of), ObjectOp::Get) => (vec![], option(of)),
        (Object::Register(of), ObjectOp::Load) => (vec![], of.clone()),
        (Object::Register(of), ObjectOp::Put) => (vec![of.clone()], Type::Unit),
        (Object::Counter, ObjectOp::Increment) => (vec![Type::Int], Type::Unit),
        (Object::Counter, ObjectOp::Value) => (vec![], Type::Int),
        (Object::Set(of), ObjectOp::Insert | ObjectOp::Remove) => (vec![of.clone()], Type::Unit),
        (Object::Set(of), ObjectOp::Contains) => (vec![of.clone()], Type::Bool),
        (Object::Set(of), ObjectOp::Elements) => (vec![], Type::Set(of.clone().into())),
        (Object::Map(key, value), ObjectOp::PutKey) => {
            (vec![key.clone(), value.clone()], Type::Unit)
        }
        (Object::Map(key, _), ObjectOp::RemoveKey) => (vec![key.clone()], Type::Unit),
        (Object::Map(key, value), ObjectOp::GetKey) => (vec![key.clone()], option(value)),
        (Object::Map(key, _), ObjectOp::ContainsKey) => (vec![key.clone()], Type::Bool),
        (Object::Map(key, value), ObjectOp::Entries) => {
            (vec![], Type::Map(key.clone().into(), value.clone().into()))
        }
        (Object::List(of) | Object::Log(of), ObjectOp::Append) => (vec![of.clone()], Type::Unit),
        (Object::List(of) | Object::Log(of), ObjectOp::At) => (vec![Type::Int], option(of)),
        (Object::List(of) | Object::Log(of), ObjectOp::Values) => {
            (vec![], Type::List(of.clone().into()))
        }
        (Object::Set(_) | Object::Map(..) | Object::List(_) | Object::Log(_), ObjectOp::Size) => {
            (vec![], Type::Int)
        }
        (Object::Struct(_) | Object::RemoteList(_), op) => fields_op(program, object, store, op)?,
        _ => return None,
    };
    Some(Signature { op, params, result })
}

/// Returns the signature for an object with individually accessible fields.
fn fields_op(
    program: &Program,
    object: &Object,
    store: StoreId,
    op: ObjectOp,
) -> Option<(Vec<Type>, Type)> {
    match op {
        ObjectOp::Field(index) => Some((vec![], field(program, object, store, index)?)),
        ObjectOp::PutField(index) => {
            Some((vec![field(program, object, store, index)?], Type::Unit))
        }
        ObjectOp::Create => {
            let fields = (0..).map_while(|index| field(program, object, store, index));
            Some((fields.collect(), Type::Unit))
        }
        _ => None,
    }
}

fn field(program: &Program, object: &Object, store: StoreId, index: u16) -> Option<Type> {
    match (object, index) {
        (Object::Struct(id), _) => {
            let fields = &program.structs.get(usize::from(id.0))?.fields;
            fields.get(usize::from(index)).map(|(_, ty)| ty.clone())
        }
        (Object::RemoteList(of), REMOTE_LIST_VALUE) => Some(of.clone()),
        (Object::RemoteList(_), REMOTE_LIST_NEXT) => {
            Some(Type::Handle(Arc::new(object.clone()), store))
        }
        _ => None,
    }
}

/// Formats an operation for messages: its name in programs, or the field that it accesses.
pub fn name(program: &Program, object: &Object, op: ObjectOp) -> String {
    let fixed = match op {
        ObjectOp::Exists => "is_valid",
        ObjectOp::Delete => "delete",
        ObjectOp::Get | ObjectOp::GetKey => "get",
        ObjectOp::Load => "*",
        ObjectOp::Put => "set",
        ObjectOp::PutKey => "put",
        ObjectOp::Increment | ObjectOp::Insert => "add",
        ObjectOp::Value => "value",
        ObjectOp::Remove | ObjectOp::RemoveKey => "remove",
        ObjectOp::Contains | ObjectOp::ContainsKey => "contains",
        ObjectOp::Elements => "elements",
        ObjectOp::Entries => "entries",
        ObjectOp::Append => "append",
        ObjectOp::At => "at",
        ObjectOp::Values => "values",
        ObjectOp::Size => "size",
        ObjectOp::Create => "new",
        ObjectOp::Field(index) | ObjectOp::PutField(index) => {
            return field_name(program, object, index).unwrap_or_else(|| index.to_string());
        }
    };
    fixed.to_owned()
}

fn field_name(program: &Program, object: &Object, index: u16) -> Option<String> {
    match (object, index) {
        (Object::Struct(id), _) => {
            let fields = &program.structs.get(usize::from(id.0))?.fields;
            fields.get(usize::from(index)).map(|(name, _)| name.to_string())
        }
        (Object::RemoteList(_), REMOTE_LIST_VALUE) => Some("v".to_owned()),
        (Object::RemoteList(_), REMOTE_LIST_NEXT) => Some("next".to_owned()),
        _ => None,
    }
}
