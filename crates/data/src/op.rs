use serde::{Deserialize, Serialize};
use std::fmt;

use crate::Value;
use crate::effect::{PIECE_BYTES, size_of_values};

/// A client's operation on one key, named after the Redis command with the same meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// GET → [`Outcome::Bulk`] or [`Outcome::Nil`].
    Get,
    /// SET: replaces whatever the key held, of any type → [`Outcome::Ok`].
    Set(Value),
    /// DEL: removes the observed values → [`Outcome::Int`], 1 if the key existed.
    Delete,
    /// EXISTS → [`Outcome::Int`], 0 or 1.
    Exists,
    /// TYPE → [`Outcome::Type`].
    Type,
    /// INCRBY → [`Outcome::Int`], the new number.
    IncrBy(i64),
    /// SADD → [`Outcome::Int`], the number of new elements.
    SetAdd(Vec<Value>),
    /// SREM → [`Outcome::Int`], the number of removed elements.
    SetRemove(Vec<Value>),
    /// SMEMBERS → [`Outcome::Members`], sorted.
    SetMembers,
    /// SISMEMBER → [`Outcome::Int`], 0 or 1.
    SetContains(Value),
    /// SCARD → [`Outcome::Int`].
    SetLen,
    /// HSET field value … → [`Outcome::Int`], the number of new fields.
    HashSet(Vec<(Value, Value)>),
    /// HGET → [`Outcome::Bulk`] or [`Outcome::Nil`].
    HashGet(Value),
    /// HMGET → [`Outcome::Values`], one per requested field.
    HashGetMany(Vec<Value>),
    /// HGETALL → [`Outcome::Pairs`], sorted by field.
    HashGetAll,
    /// HDEL → [`Outcome::Int`], the number of removed fields.
    HashDelete(Vec<Value>),
    /// HINCRBY → [`Outcome::Int`], the new number.
    HashIncrBy(Value, i64),
    /// SETNX: sets a string, unless the key exists → [`Outcome::Int`], 1 if it did not exist.
    SetNew(Value),
    /// Digest of the key's content, which shows whether the key has changed → [`Outcome::Int`].
    Digest,
    /// SOLERA.NEWEST → [`Outcome::Values`], the values of at most this many greatest fields of a
    /// hash, in descending order of the fields. No value is missing.
    HashNewest(u64),
}

impl Op {
    /// Returns the approximate size of its arguments in bytes.
    pub fn size(&self) -> usize {
        PIECE_BYTES
            + match self {
                Op::Set(value)
                | Op::SetNew(value)
                | Op::SetContains(value)
                | Op::HashGet(value) => value.len(),
                Op::HashIncrBy(field, _) => field.len(),
                Op::SetAdd(values)
                | Op::SetRemove(values)
                | Op::HashGetMany(values)
                | Op::HashDelete(values) => size_of_values(values),
                Op::HashSet(fields) => {
                    size_of_values(fields.iter().flat_map(|(name, value)| [name, value]))
                }
                Op::Get
                | Op::Delete
                | Op::Exists
                | Op::Type
                | Op::IncrBy(_)
                | Op::SetMembers
                | Op::SetLen
                | Op::HashGetAll
                | Op::HashNewest(_)
                | Op::Digest => 0,
            }
    }
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Done.
    Ok,
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A value.
    Bulk(Value),
    /// The visible type of a key.
    Type(Option<Type>),
    /// One value or nothing for each requested field.
    Values(Vec<Option<Value>>),
    /// The elements of a set, sorted.
    Members(Vec<Value>),
    /// The fields and values of a hash, sorted by field.
    Pairs(Vec<(Value, Value)>),
}

/// The visible type of a key, as TYPE returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Type {
    /// A register or a counter.
    String,
    /// An add-wins set.
    Set,
    /// A hash of registers and counters.
    Hash,
}

impl Type {
    /// Returns Redis' name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Set => "set",
            Type::Hash => "hash",
        }
    }
}

/// Error of an operation, which then has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpError {
    /// The key holds a value of another type.
    WrongType,
    /// The value is not a 64-bit integer.
    NotAnInteger,
    /// The hash field is not a 64-bit integer.
    FieldNotAnInteger,
    /// The number would leave the 64-bit range.
    Overflow,
    /// An argument or the reply exceeds the maximum size.
    TooLarge,
}

impl fmt::Display for OpError {
    /// Formats the error in Redis' wording, without the error code.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpError::WrongType => "Operation against a key holding the wrong kind of value",
            OpError::NotAnInteger => "value is not an integer or out of range",
            OpError::FieldNotAnInteger => "hash value is not an integer",
            OpError::Overflow => "increment or decrement would overflow",
            OpError::TooLarge => "too large: at most 512 MB can be written or read at once",
        })
    }
}

impl std::error::Error for OpError {}
