//! Operations on objects of programs: their commands, and the decoding of the replies.
//!
//! | object | key |
//! |---|---|
//! | register | string: the value |
//! | counter | string: the number, as INCRBY keeps it |
//! | set | set of values |
//! | map | hash: values by their keys |
//! | list, log | list of values |
//! | struct | hash: values by the names of the fields |
//!
//! [`Codec`] writes the values. As always in Redis, a set, map or list that becomes empty ceases to
//! exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redis::{Cmd, FromRedisValue, Value as Reply, cmd, from_redis_value};
use solera_mixt::store::{ObjectCall, StoreError};
use solera_program::codec::Codec;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};
use solera_program::value::Value;

/// Executes a command that would otherwise replace or remove a key of any type, but only if the key
/// has the right type or is missing. KEYS: the key. ARGV: the type, the command, and its arguments
/// after the key.
const GUARDED: &str = "\
local found = redis.call('TYPE', KEYS[1]).ok
if found ~= 'none' and found ~= ARGV[1] then return redis.error_reply('WRONGTYPE another type') end
return redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))";

/// Placeholder field of a struct without fields, so that it exists.
const NO_FIELDS: [&[u8]; 2] = [b"", b""];

/// Returns the command of an operation on a key.
pub(crate) fn request(call: &ObjectCall, key: &str) -> Result<Cmd, StoreError> {
    let (name, rest) = words(call)?;
    // All other commands fail by themselves if the key has another type.
    let blind = matches!(call.op, ObjectOp::Delete | ObjectOp::Put);
    let mut command = cmd(if blind { "EVAL" } else { name });
    if blind {
        command.arg(GUARDED).arg(1).arg(key).arg(type_of(call.object())).arg(name);
    } else {
        command.arg(key);
    }
    command.arg(rest);
    Ok(command)
}

/// Returns the name of the command that executes an operation, and its arguments after the key.
/// `SET` and `DEL` do not check the type of what they replace.
///
/// # Errors
/// The call does not match its object.
pub fn words(call: &ObjectCall) -> Result<(&'static str, Vec<Vec<u8>>), StoreError> {
    let arg = |at: usize, ty: &Type| call.encode(at, ty);
    let (name, rest) = match (call.object(), call.op) {
        (_, ObjectOp::Exists) => ("EXISTS", vec![]),
        (_, ObjectOp::Delete) => ("DEL", vec![]),
        (Object::Register(_), ObjectOp::Get | ObjectOp::Load)
        | (Object::Counter, ObjectOp::Value) => ("GET", vec![]),
        (Object::Register(of), ObjectOp::Put) => ("SET", vec![arg(0, of)?]),
        (Object::Counter, ObjectOp::Increment) => ("INCRBY", vec![arg(0, &Type::Int)?]),
        (Object::Set(of), ObjectOp::Insert) => ("SADD", vec![arg(0, of)?]),
        (Object::Set(of), ObjectOp::Remove) => ("SREM", vec![arg(0, of)?]),
        (Object::Set(of), ObjectOp::Contains) => ("SISMEMBER", vec![arg(0, of)?]),
        (Object::Set(_), ObjectOp::Elements) => ("SMEMBERS", vec![]),
        (Object::Set(_), ObjectOp::Size) => ("SCARD", vec![]),
        (Object::Map(k, v), ObjectOp::PutKey) => ("HSET", vec![arg(0, k)?, arg(1, v)?]),
        (Object::Map(k, _), ObjectOp::RemoveKey) => ("HDEL", vec![arg(0, k)?]),
        (Object::Map(k, _), ObjectOp::GetKey) => ("HGET", vec![arg(0, k)?]),
        (Object::Map(k, _), ObjectOp::ContainsKey) => ("HEXISTS", vec![arg(0, k)?]),
        (Object::Map(..), ObjectOp::Entries) => ("HGETALL", vec![]),
        (Object::Map(..), ObjectOp::Size) => ("HLEN", vec![]),
        (Object::List(of) | Object::Log(of), ObjectOp::Append) => ("RPUSH", vec![arg(0, of)?]),
        // In Redis an index below 0 counts from the end. It is replaced with one that no list has.
        (Object::List(_) | Object::Log(_), ObjectOp::At) => match call.args.first() {
            Some(Value::Int(at)) => {
                let at = if *at < 0 { i64::MAX } else { *at };
                ("LINDEX", vec![at.to_string().into_bytes()])
            }
            _ => return Err(call.impossible()),
        },
        (Object::List(_) | Object::Log(_), ObjectOp::Values) => {
            ("LRANGE", vec![b"0".to_vec(), b"-1".to_vec()])
        }
        (Object::List(_) | Object::Log(_), ObjectOp::Size) => ("LLEN", vec![]),
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Field(index)) => {
            ("HGET", vec![call.field(index)?.0])
        }
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::PutField(index)) => {
            let (name, ty) = call.field(index)?;
            ("HSET", vec![name, arg(0, &ty)?])
        }
        (Object::Struct(_) | Object::RemoteList(_), ObjectOp::Create) => {
            let mut pairs = Vec::new();
            for (index, at) in (0..).zip(0..call.args.len()) {
                let (name, ty) = call.field(index)?;
                pairs.extend([name, arg(at, &ty)?]);
            }
            if pairs.is_empty() {
                pairs = NO_FIELDS.map(<[u8]>::to_vec).to_vec();
            }
            ("HSET", pairs)
        }
        _ => return Err(call.impossible()),
    };
    Ok((name, rest))
}

/// Decodes the reply. Returns `None` if the operation needs an object and there is none.
///
/// # Errors
/// The reply is not one of this object.
pub fn answer(call: &ObjectCall, reply: Reply) -> Result<Option<Value>, StoreError> {
    if call.op.mutates() {
        return Ok(Some(Value::Unit));
    }
    let codec = Codec::new(&call.program);
    let decode = |bytes: Vec<u8>, ty: &Type| {
        codec.decode(&bytes, ty).map_err(|error| call.unreadable(&error, describe(call.object())))
    };
    let option = |bytes: Option<Vec<u8>>, ty: &Type| match bytes {
        Some(bytes) => decode(bytes, ty).map(Value::some),
        None => Ok(Value::NONE),
    };
    let some = match (call.object(), call.op) {
        (_, ObjectOp::Exists | ObjectOp::Contains | ObjectOp::ContainsKey) => {
            Value::Bool(parsed::<i64>(call, reply)? > 0)
        }
        (_, ObjectOp::Load | ObjectOp::Field(_)) => match parsed(call, reply)? {
            Some(bytes) => decode(bytes, &call.result)?,
            None => return Ok(None),
        },
        (Object::Register(of), ObjectOp::Get)
        | (Object::Map(_, of), ObjectOp::GetKey)
        | (Object::List(of) | Object::Log(of), ObjectOp::At) => option(parsed(call, reply)?, of)?,
        (Object::Counter, ObjectOp::Value) => match parsed(call, reply)? {
            Some(bytes) => decode(bytes, &Type::Int)?,
            None => Value::Int(0),
        },
        (_, ObjectOp::Size) => Value::Int(parsed(call, reply)?),
        (Object::Set(of), ObjectOp::Elements) => {
            let items = parsed::<Vec<Vec<u8>>>(call, reply)?.into_iter();
            let items = items.map(|item| decode(item, of));
            Value::Set(Arc::new(items.collect::<Result<BTreeSet<_>, _>>()?))
        }
        (Object::Map(k, v), ObjectOp::Entries) => {
            let pairs = parsed::<Vec<(Vec<u8>, Vec<u8>)>>(call, reply)?.into_iter();
            let pairs = pairs.map(|(key, value)| Ok((decode(key, k)?, decode(value, v)?)));
            Value::Map(Arc::new(pairs.collect::<Result<BTreeMap<_, _>, StoreError>>()?))
        }
        (Object::List(of) | Object::Log(of), ObjectOp::Values) => {
            let items = parsed::<Vec<Vec<u8>>>(call, reply)?.into_iter();
            Value::List(Arc::new(items.map(|item| decode(item, of)).collect::<Result<_, _>>()?))
        }
        _ => return Err(call.impossible()),
    };
    Ok(Some(some))
}

/// Returns the Redis type of an object, as TYPE names it.
pub fn type_of(object: &Object) -> &'static str {
    match object {
        Object::Register(_) | Object::Counter => "string",
        Object::Set(_) => "set",
        Object::List(_) | Object::Log(_) => "list",
        Object::Map(..) | Object::Struct(_) | Object::RemoteList(_) => "hash",
    }
}

/// Returns the name of an object for messages, with its Redis type.
pub fn describe(object: &Object) -> &'static str {
    match object {
        Object::Register(_) => "a register (string)",
        Object::Counter => "a counter (string)",
        Object::Set(_) => "a set",
        Object::Map(..) => "a map (hash)",
        Object::List(_) => "a list",
        Object::Log(_) => "a log (list)",
        Object::Struct(_) => "a struct (hash)",
        Object::RemoteList(_) => "a cell of a RemoteList (hash)",
    }
}

fn parsed<T: FromRedisValue>(call: &ObjectCall, reply: Reply) -> Result<T, StoreError> {
    let text = |error| format!("its reply for `{}` is unexpected: {error}", call.key);
    from_redis_value(reply).map_err(|error| StoreError::Refused(text(error)))
}
