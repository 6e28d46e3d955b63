//! Values of Redis within a transaction that has written them and reads them again. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use solera_resp::{Value, parse_integer};

/// A value of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Absent,
    Text(Vec<u8>),
    Set(BTreeSet<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    List(Vec<Vec<u8>>),
}

/// Error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The value is of another type.
    Type,
    /// The value is a string that is not an integer.
    NotAnInteger,
    /// The sum does not fit 64 bits.
    Overflow,
    /// The command implements no operation of an object.
    Command,
}

/// Returns the command that reads a whole value of a type, with its arguments after the key.
pub(super) fn read_all(kind: &str) -> &'static [&'static [u8]] {
    match kind {
        "set" => &[b"SMEMBERS"],
        "hash" => &[b"HGETALL"],
        "list" => &[b"LRANGE", b"0", b"-1"],
        _ => &[b"GET"],
    }
}

impl Held {
    /// Reads the reply to [`read_all`].
    pub(super) fn read(kind: &str, reply: Value) -> Option<Held> {
        let items = |values: Vec<Value>| -> Option<Vec<Vec<u8>>> {
            values.into_iter().map(bytes).collect()
        };
        Some(match (kind, reply) {
            (_, Value::Null) => Held::Absent,
            ("string", Value::Bulk(text)) => Held::Text(text),
            ("set" | "hash" | "list", Value::Array(values)) if values.is_empty() => Held::Absent,
            ("set", Value::Array(values)) => Held::Set(items(values)?.into_iter().collect()),
            ("list", Value::Array(values)) => Held::List(items(values)?),
            ("hash", Value::Array(values)) => {
                let mut values = items(values)?.into_iter();
                let mut fields = BTreeMap::new();
                while let (Some(field), Some(value)) = (values.next(), values.next()) {
                    fields.insert(field, value);
                }
                Held::Hash(fields)
            }
            _ => return None,
        })
    }

    /// Executes a command, given as its words without the key, and returns its reply.
    pub(super) fn run(&mut self, words: &[Vec<u8>]) -> Result<Value, Wrong> {
        let (name, rest) = words.split_first().ok_or(Wrong::Command)?;
        let first = || rest.first().cloned().ok_or(Wrong::Command);
        let reply = match &name[..] {
            b"EXISTS" => Value::Integer((*self != Held::Absent).into()),
            b"DEL" => {
                *self = Held::Absent;
                Value::Null
            }
            b"SET" => {
                *self = Held::Text(first()?);
                Value::Null
            }
            b"GET" => match self {
                Held::Absent => Value::Null,
                Held::Text(text) => Value::Bulk(text.clone()),
                _ => return Err(Wrong::Type),
            },
            b"INCRBY" => self.add(&first()?)?,
            b"SADD" | b"SREM" | b"SISMEMBER" | b"SMEMBERS" | b"SCARD" => self.on_set(name, rest)?,
            b"RPUSH" | b"LINDEX" | b"LRANGE" | b"LLEN" => self.on_list(name, rest)?,
            _ => self.on_hash(name, rest)?,
        };
        // Redis keeps no empty collections.
        let empty = match self {
            Held::Set(members) => members.is_empty(),
            Held::Hash(fields) => fields.is_empty(),
            Held::List(items) => items.is_empty(),
            Held::Absent | Held::Text(_) => false,
        };
        if empty {
            *self = Held::Absent;
        }
        Ok(reply)
    }

    fn add(&mut self, by: &[u8]) -> Result<Value, Wrong> {
        let present = match self {
            Held::Absent => 0,
            Held::Text(text) => parse_integer(text).ok_or(Wrong::NotAnInteger)?,
            _ => return Err(Wrong::Type),
        };
        let sum =
            parse_integer(by).and_then(|by| present.checked_add(by)).ok_or(Wrong::Overflow)?;
        *self = Held::Text(sum.to_string().into_bytes());
        Ok(Value::Integer(sum))
    }

    fn on_set(&mut self, name: &[u8], rest: &[Vec<u8>]) -> Result<Value, Wrong> {
        if *self == Held::Absent {
            *self = Held::Set(BTreeSet::new());
        }
        let Held::Set(members) = self else { return Err(Wrong::Type) };
        let first = || rest.first().ok_or(Wrong::Command);
        Ok(match name {
            b"SADD" => Value::Integer(members.insert(first()?.clone()).into()),
            b"SREM" => Value::Integer(members.remove(first()?).into()),
            b"SISMEMBER" => Value::Integer(members.contains(first()?).into()),
            b"SMEMBERS" => Value::Array(members.iter().cloned().map(Value::Bulk).collect()),
            _ => number(members.len()),
        })
    }

    fn on_list(&mut self, name: &[u8], rest: &[Vec<u8>]) -> Result<Value, Wrong> {
        if *self == Held::Absent {
            *self = Held::List(Vec::new());
        }
        let Held::List(items) = self else { return Err(Wrong::Type) };
        Ok(match name {
            b"RPUSH" => {
                items.extend(rest.iter().cloned());
                number(items.len())
            }
            b"LINDEX" => {
                let index = rest.first().and_then(|text| parse_integer(text));
                let index = index.and_then(|index| usize::try_from(index).ok());
                let item = index.and_then(|index| items.get(index));
                item.map_or(Value::Null, |item| Value::Bulk(item.clone()))
            }
            b"LRANGE" => Value::Array(items.iter().cloned().map(Value::Bulk).collect()),
            _ => number(items.len()),
        })
    }

    fn on_hash(&mut self, name: &[u8], rest: &[Vec<u8>]) -> Result<Value, Wrong> {
        if *self == Held::Absent {
            *self = Held::Hash(BTreeMap::new());
        }
        let Held::Hash(fields) = self else { return Err(Wrong::Type) };
        let first = || rest.first().ok_or(Wrong::Command);
        Ok(match name {
            b"HSET" => {
                for pair in rest.chunks_exact(2) {
                    fields.insert(pair[0].clone(), pair[1].clone());
                }
                Value::Null
            }
            b"HDEL" => Value::Integer(fields.remove(first()?).is_some().into()),
            b"HEXISTS" => Value::Integer(fields.contains_key(first()?).into()),
            b"HGET" => fields.get(first()?).map_or(Value::Null, |value| Value::Bulk(value.clone())),
            b"HLEN" => number(fields.len()),
            b"HGETALL" => {
                let pairs = fields.iter().flat_map(|(field, value)| [field, value]);
                Value::Array(pairs.cloned().map(Value::Bulk).collect())
            }
            _ => return Err(Wrong::Command),
        })
    }
}

fn number(length: usize) -> Value {
    Value::Integer(i64::try_from(length).unwrap_or(i64::MAX))
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::Bulk(bytes) = value { Some(bytes) } else { None }
}
