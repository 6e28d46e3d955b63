//! Values of the objects to which the handles of dereferenced parameters lead (MixT §3.1, note 1).

use std::borrow::Cow;
use std::sync::Arc;

use solera_mixt::store::StoreError;
use solera_program::codec::Codec;
use solera_program::ir::{OperationParam, Program};
use solera_program::types::{Object, Type};
use solera_program::value::Value;

use crate::objects::{ItemError, Items, describe, kind};
use crate::statement::{Rows, get};

/// Returns the type of a parameter's value. For a dereferenced parameter it is the type of the
/// whole object, or `None` if the object cannot be read as a whole.
pub(super) fn value_type(param: &OperationParam) -> Option<Cow<'_, Type>> {
    let of = |of: &Type| of.clone().into();
    if !param.dereferenced {
        return Some(Cow::Borrowed(&param.ty));
    }
    Some(Cow::Owned(match &param.ty {
        Type::Handle(object, _) => match &**object {
            Object::Register(of) => of.clone(),
            Object::Counter => Type::Int,
            Object::Set(item) => Type::Set(of(item)),
            Object::Map(key, item) => Type::Map(of(key), of(item)),
            Object::List(item) | Object::Log(item) => Type::List(of(item)),
            Object::Struct(id) => Type::Struct(*id),
            Object::RemoteList(_) => return None,
        },
        other => other.clone(),
    }))
}

/// Decodes the object of a dereferenced parameter from its row and those of its items. A missing
/// set, map or list is empty, and a missing counter is zero.
pub(crate) fn held(
    program: &Program,
    param: &OperationParam,
    key: &Arc<str>,
    found: &[Rows],
) -> Result<Value, StoreError> {
    let Type::Handle(object, _) = &param.ty else {
        return Err(StoreError::Refused(format!("`{}` is not a handle", param.name)));
    };
    let row = found.first().and_then(|object| object.rows.first());
    if let Some(row) = row {
        let found: &str = get(row, 0)?;
        if found != kind(object) {
            let (found, wanted) = (describe(found), describe(kind(object)));
            return Err(StoreError::WrongData { key: Arc::clone(key), found, wanted });
        }
    }
    match (&**object, row) {
        (Object::Register(of), Some(row)) => {
            let read = Codec::new(program).decode(get(row, 2)?, of);
            read.map_err(|error| ItemError::Codec(error).of(key))
        }
        (Object::Counter, row) => row.map_or(Ok(Value::Int(0)), |row| get(row, 1).map(Value::Int)),
        (Object::Register(_) | Object::Struct(_), None) => Err(StoreError::Missing),
        (object, _) => {
            let rows = found.get(1).map_or(&[][..], |items| &items.rows);
            Items { program, rows }.read(object).map_err(|error| error.of(key))
        }
    }
}
