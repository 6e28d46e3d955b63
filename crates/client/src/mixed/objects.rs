//! Operations on the keys of objects as commands of Redis, and their replies as outcomes.

use solera_data::{Op, Operation, Outcome, Value as Bytes};
use solera_mixt::store::{ObjectCall, StoreError};
use solera_program::keys::{CallError, operation_of};
use solera_program::operation::ObjectOp;
use solera_program::types::Object;
use solera_program::value::Value;
use solera_resp::Value as Reply;

use super::stamp;

/// A command's words.
pub(super) type Words = Vec<Vec<u8>>;

/// What is sent for an operation.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) command: Words,
    /// Whether the command would replace or remove a key of any type, so that its type is to be asked for first.
    pub(super) blind: bool,
}

/// The commands of an operation: those that a user needs a right for.
pub(super) fn commands(object: &Object, op: ObjectOp) -> impl Iterator<Item = &'static str> {
    let operation = operation_of(object, op);
    let asked = operation.filter(|operation| is_blind(*operation)).map(|_| "TYPE");
    operation.map(Operation::name).into_iter().chain(asked)
}

/// Whether an operation changes a key of any type.
fn is_blind(operation: Operation) -> bool {
    operation.is_update() && operation.needs().is_none()
}

/// The command of an operation on the key.
pub(super) fn request(call: &ObjectCall, key: &[u8]) -> Result<Request, StoreError> {
    let op = call.on_object().on_key(stamp::next).map_err(|error| failed(call, error))?;
    let operation = operation_of(call.object(), call.op).ok_or_else(|| call.impossible())?;
    let mut command = vec![operation.name().as_bytes().to_vec(), key.to_vec()];
    command.extend(arguments(&op));
    Ok(Request { command, blind: is_blind(operation) })
}

/// The words after the key.
fn arguments(op: &Op) -> Words {
    let word = |value: &Bytes| value.as_bytes().to_vec();
    match op {
        Op::Set(value) | Op::SetNew(value) | Op::SetContains(value) | Op::HashGet(value) => {
            vec![word(value)]
        }
        Op::IncrBy(by) => vec![by.to_string().into_bytes()],
        Op::SetAdd(values)
        | Op::SetRemove(values)
        | Op::HashGetMany(values)
        | Op::HashDelete(values) => values.iter().map(word).collect(),
        Op::HashSet(pairs) => {
            pairs.iter().flat_map(|(name, value)| [word(name), word(value)]).collect()
        }
        Op::HashIncrBy(field, by) => vec![word(field), by.to_string().into_bytes()],
        Op::Get
        | Op::Delete
        | Op::Exists
        | Op::Type
        | Op::SetMembers
        | Op::SetLen
        | Op::HashGetAll
        | Op::Digest => Vec::new(),
    }
}

/// What the reply to the command means. None: there is nothing, and the operation needs something.
pub(super) fn answer(call: &ObjectCall, reply: Reply) -> Result<Option<Value>, StoreError> {
    if call.op.mutates() {
        return Ok(Some(Value::Unit));
    }
    let answer = call.on_object().answer(outcome(reply)?);
    answer.map_err(|error| failed(call, error))
}

/// The outcome that a reply to a command that reads stands for.
fn outcome(reply: Reply) -> Result<Outcome, StoreError> {
    let bulk = |reply: Reply| match reply {
        Reply::Bulk(bytes) => Ok(Bytes::from(bytes)),
        other => Err(StoreError::Refused(format!("it answers {other:?}"))),
    };
    Ok(match reply {
        Reply::Null => Outcome::Nil,
        Reply::Integer(number) => Outcome::Int(number),
        Reply::Set(items) | Reply::Array(items) => {
            Outcome::Members(items.into_iter().map(bulk).collect::<Result<_, _>>()?)
        }
        Reply::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(name, value)| Ok((bulk(name)?, bulk(value)?)));
            Outcome::Pairs(pairs.collect::<Result<_, StoreError>>()?)
        }
        other => Outcome::Bulk(bulk(other)?),
    })
}

fn failed(call: &ObjectCall, error: CallError) -> StoreError {
    call.failed(error, told(call.object()))
}

/// An object, and the type that it is kept in.
pub(super) fn told(object: &Object) -> &'static str {
    match object {
        Object::Register(_) => "a register (string)",
        Object::Counter => "a counter (string)",
        Object::Set(_) => "a set",
        Object::Map(..) => "a map (hash)",
        Object::List(_) => "a list (hash)",
        Object::Log(_) => "a log (hash)",
        Object::Struct(_) => "a struct (hash)",
        Object::RemoteList(_) => "a cell of a RemoteList (hash)",
    }
}
