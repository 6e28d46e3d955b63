//! Objects of programs as Redis types: which commands an operation is, and what their replies mean.
//!
//! | object | key |
//! |---|---|
//! | register | string: the value |
//! | counter | string: the number, as INCRBY keeps it |
//! | set | set of values |
//! | map | hash: values by their keys |
//! | struct | hash: values by the names of the fields |
//! | list, log | hash: values by unique names that are ordered by time |
//!
//! Values are written as [`Codec`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_mixt::store::{ObjectCall, StoreError};
use solera_program::codec::Codec;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};
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

/// What a struct without fields is, so that it exists.
const NO_FIELDS: &[u8] = b"";

/// The commands of an operation: those that a user needs a right for.
pub(super) fn commands(object: &Object, op: ObjectOp) -> &'static [&'static str] {
    match (object, op) {
        (_, ObjectOp::Exists) => &["EXISTS"],
        (_, ObjectOp::Delete) => &["DEL", "TYPE"],
        (Object::Register(_), ObjectOp::Get | ObjectOp::Load)
        | (Object::Counter, ObjectOp::Value) => &["GET"],
        (Object::Register(_), ObjectOp::Put) => &["SET", "TYPE"],
        (Object::Counter, ObjectOp::Increment) => &["INCRBY"],
        (Object::Set(_), ObjectOp::Insert) => &["SADD"],
        (Object::Set(_), ObjectOp::Remove) => &["SREM"],
        (Object::Set(_), ObjectOp::Contains) => &["SISMEMBER"],
        (Object::Set(_), ObjectOp::Elements) => &["SMEMBERS"],
        (Object::Set(_), ObjectOp::Size) => &["SCARD"],
        (Object::Map(..), ObjectOp::PutKey)
        | (Object::List(_) | Object::Log(_), ObjectOp::Append)
        | (Object::Struct(_) | Object::RemoteList(_), ObjectOp::PutField(_) | ObjectOp::Create) => {
            &["HSET"]
        }
        (Object::Map(..), ObjectOp::RemoveKey) => &["HDEL"],
        (Object::Map(..), ObjectOp::GetKey | ObjectOp::ContainsKey)
        | (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Field(_)) => &["HGET"],
        (Object::Map(..), ObjectOp::Entries | ObjectOp::Size)
        | (Object::List(_) | Object::Log(_), ObjectOp::At | ObjectOp::Values | ObjectOp::Size) => {
            &["HGETALL"]
        }
        _ => &[],
    }
}

/// The command of an operation on the key.
pub(super) fn request(call: &ObjectCall, key: &[u8]) -> Result<Request, StoreError> {
    let arg = |at: usize, ty: &Type| call.encode(at, ty);
    let [name, others @ ..] = commands(call.object(), call.op) else {
        return Err(call.impossible());
    };
    let rest = match (call.object(), call.op) {
        (Object::Register(of), ObjectOp::Put) => vec![arg(0, of)?],
        (Object::Counter, ObjectOp::Increment) => vec![arg(0, &Type::Int)?],
        (Object::Set(of), ObjectOp::Insert | ObjectOp::Remove | ObjectOp::Contains) => {
            vec![arg(0, of)?]
        }
        (Object::Map(k, v), ObjectOp::PutKey) => vec![arg(0, k)?, arg(1, v)?],
        (Object::Map(k, _), ObjectOp::RemoveKey | ObjectOp::GetKey | ObjectOp::ContainsKey) => {
            vec![arg(0, k)?]
        }
        (Object::List(of) | Object::Log(of), ObjectOp::Append) => vec![stamp::next(), arg(0, of)?],
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Field(index)) => {
            vec![call.field(index)?.0]
        }
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::PutField(index)) => {
            let (name, ty) = call.field(index)?;
            vec![name, arg(0, &ty)?]
        }
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Create) => {
            let mut pairs = Vec::new();
            for (index, at) in (0..).zip(0..call.args.len()) {
                let (name, ty) = call.field(index)?;
                pairs.extend([name, arg(at, &ty)?]);
            }
            if pairs.is_empty() {
                pairs = vec![NO_FIELDS.to_vec(), Vec::new()];
            }
            pairs
        }
        _ => Vec::new(),
    };
    let command = [name.as_bytes().to_vec(), key.to_vec()].into_iter().chain(rest).collect();
    Ok(Request { command, blind: others.contains(&"TYPE") })
}

/// What the reply to the command means. None: there is nothing, and the operation needs something.
pub(super) fn answer(call: &ObjectCall, reply: Reply) -> Result<Option<Value>, StoreError> {
    let codec = Codec::new(&call.program);
    let decode = |bytes: &[u8], ty: &Type| {
        codec.decode(bytes, ty).map_err(|error| call.unreadable(&error, told(call.object())))
    };
    if call.op.mutates() {
        return Ok(Some(Value::Unit));
    }
    let some = match (call.object(), call.op, reply) {
        (_, ObjectOp::Exists | ObjectOp::Contains, Reply::Integer(found)) => Value::Bool(found > 0),
        (_, ObjectOp::Load | ObjectOp::Field(_), Reply::Null) => return Ok(None),
        (_, ObjectOp::Load | ObjectOp::Field(_), Reply::Bulk(bytes)) => {
            decode(&bytes, &call.result)?
        }
        (_, ObjectOp::Get | ObjectOp::GetKey, Reply::Null) => Value::NONE,
        (Object::Register(of), ObjectOp::Get, Reply::Bulk(bytes))
        | (Object::Map(_, of), ObjectOp::GetKey, Reply::Bulk(bytes)) => {
            Value::some(decode(&bytes, of)?)
        }
        (_, ObjectOp::Value, Reply::Null) => Value::Int(0),
        (_, ObjectOp::Value, Reply::Bulk(bytes)) => decode(&bytes, &Type::Int)?,
        (_, ObjectOp::ContainsKey, reply) => Value::Bool(reply != Reply::Null),
        (Object::Set(_), ObjectOp::Size, Reply::Integer(size)) => Value::Int(size),
        (Object::Set(of), ObjectOp::Elements, Reply::Set(items) | Reply::Array(items)) => {
            let items = items.into_iter().map(|item| decode(&bytes(call, item)?, of));
            Value::Set(Arc::new(items.collect::<Result<BTreeSet<_>, _>>()?))
        }
        (Object::Map(k, v), ObjectOp::Entries, Reply::Map(pairs)) => {
            let pairs = pairs.into_iter().map(|(key, value)| {
                Ok((decode(&bytes(call, key)?, k)?, decode(&bytes(call, value)?, v)?))
            });
            Value::Map(Arc::new(pairs.collect::<Result<BTreeMap<_, _>, StoreError>>()?))
        }
        (_, ObjectOp::Size, Reply::Map(pairs)) => {
            Value::Int(i64::try_from(pairs.len()).unwrap_or(i64::MAX))
        }
        (Object::List(of) | Object::Log(of), ObjectOp::Values, Reply::Map(pairs)) => {
            let values = in_order(call, pairs)?.into_values();
            let values = values.map(|value| decode(&value, of));
            Value::List(Arc::new(values.collect::<Result<_, _>>()?))
        }
        (Object::List(of) | Object::Log(of), ObjectOp::At, Reply::Map(pairs)) => {
            let place = match call.args.first() {
                Some(Value::Int(place)) => usize::try_from(*place).ok(),
                _ => return Err(call.impossible()),
            };
            let value = place
                .map(|place| Ok::<_, StoreError>(in_order(call, pairs)?.into_values().nth(place)));
            match value.transpose()?.flatten() {
                Some(value) => Value::some(decode(&value, of)?),
                None => Value::NONE,
            }
        }
        (_, _, other) => return Err(StoreError::Refused(format!("it answers {other:?}"))),
    };
    Ok(Some(some))
}

/// The visible type of key that the object is kept in, as TYPE tells it.
pub(super) fn type_of(object: &Object) -> &'static str {
    match object {
        Object::Register(_) | Object::Counter => "string",
        Object::Set(_) => "set",
        Object::Map(..)
        | Object::List(_)
        | Object::Log(_)
        | Object::Struct(_)
        | Object::RemoteList(_) => "hash",
    }
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

/// The elements of a list by their names, which are their order.
fn in_order(
    call: &ObjectCall,
    pairs: Vec<(Reply, Reply)>,
) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
    let pairs =
        pairs.into_iter().map(|(name, value)| Ok((bytes(call, name)?, bytes(call, value)?)));
    pairs.collect()
}

fn bytes(call: &ObjectCall, reply: Reply) -> Result<Vec<u8>, StoreError> {
    match reply {
        Reply::Bulk(bytes) => Ok(bytes),
        other => Err(StoreError::Refused(format!("`{}` holds {other:?}", call.key))),
    }
}
