//! Translation of operations on objects to operations on keys.

use solera_data::{Op, Operation};
use solera_mixt::store::{ObjectCall, StoreError};
use solera_program::keys::{CallError, describe, is_blind, operation_of, operations_of};
use solera_program::operation::ObjectOp;
use solera_program::types::Object;
use solera_program::value::Value;

use crate::failure;
use crate::port::Reply;
use crate::random::random;

/// Returns the commands of an operation on an object, for which a user needs rights.
pub fn commands(object: &Object, op: ObjectOp) -> impl Iterator<Item = &'static str> {
    operations_of(object, op).map(Operation::name)
}

/// Returns the operation on an object's key, and whether it would replace or remove a key of any
/// type, so that the key's type must be read first.
pub(crate) fn request(call: &ObjectCall) -> Result<(Op, bool), StoreError> {
    let name = || solera_stamps::next(random()).to_vec();
    let op = call.on_object().on_key(name).map_err(|error| failed(call, error))?;
    let operation = operation_of(call.object(), call.op).ok_or_else(|| call.impossible())?;
    Ok((op, is_blind(operation)))
}

/// Converts the reply. Returns `None` if there is no object and the operation needs one.
pub(crate) fn answer(call: &ObjectCall, reply: Reply) -> Result<Option<Value>, StoreError> {
    if call.op.mutates() {
        return Ok(Some(Value::Unit));
    }
    let Reply::Key(outcome) = reply else { return Err(failure::unexpected(&reply)) };
    call.on_object().answer(outcome).map_err(|error| failed(call, error))
}

fn failed(call: &ObjectCall, error: CallError) -> StoreError {
    call.failed(error, describe(call.object()))
}
