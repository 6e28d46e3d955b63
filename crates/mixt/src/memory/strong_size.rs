//! The custom operation of a database in memory.

use std::sync::Arc;

use solera_program::ir::Operation;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};
use solera_program::value::Value;

use crate::request::calls::{CustomCall, ObjectCall, StoreError};

const NAME: &str = "strong_size";

/// Checks the declaration of an operation.
pub(super) fn check(operation: &Operation) -> Result<(), StoreError> {
    sized(operation).map(drop)
}

/// Returns the kind of object whose size the operation returns.
fn sized(operation: &Operation) -> Result<&Arc<Object>, StoreError> {
    let refused = |why: String| Err(StoreError::Refused(why));
    if *operation.name != *NAME {
        return refused(format!("it has no operation `{}`", operation.name));
    }
    if let [param] = operation.params.as_slice()
        && let Type::Handle(object, _) = &param.ty
        && matches!(&**object, Object::Set(_) | Object::Map(..) | Object::List(_) | Object::Log(_))
        && (param.dereferenced, &operation.result, operation.mutates) == (true, &Type::Int, false)
    {
        return Ok(object);
    }
    refused(format!(
        "its `{NAME}` is a query of one `*set<T>`, map, list or log, and answers an int"
    ))
}

/// Translates the call into operations on the object: one for the size, and one for each further
/// named object to read along.
pub(super) fn calls(call: &CustomCall) -> Result<(ObjectCall, Vec<ObjectCall>), StoreError> {
    let object = sized(call.operation())?;
    let Some(Value::Handle(handle)) = call.args.first() else {
        return Err(StoreError::Refused(format!("`{NAME}` takes a handle")));
    };
    let mut program = Arc::clone(&call.program);
    let known = program.objects.iter().position(|known| *known == **object);
    let index = known.unwrap_or_else(|| {
        Arc::make_mut(&mut program).objects.push((**object).clone());
        program.objects.len() - 1
    });
    let mut looks = call.look.iter().cloned();
    let size = ObjectCall {
        space: Arc::clone(&call.space),
        key: Arc::clone(&handle.key),
        object: u32::try_from(index).expect("a program has few kinds of objects"),
        op: ObjectOp::Size,
        args: Vec::new(),
        result: Type::Int,
        look: looks.next(),
        program,
    };
    let further = looks.map(|name| ObjectCall { look: Some(name), ..size.clone() }).collect();
    Ok((size, further))
}
