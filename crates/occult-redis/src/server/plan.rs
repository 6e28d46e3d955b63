//! Splits a client's command into calls for one key each, and combines their replies. No I/O.

use solera_resp::{Protocol, Value};

use crate::commands::{Call, Shape, find};
use crate::error::Error;
use crate::slot::RESERVED;

/// Combination of the replies of several calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combine {
    Only,
    Array,
    Sum,
    Ok,
}

/// A command on data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) calls: Vec<Call>,
    combine: Combine,
    shape: Shape,
}

impl Plan {
    /// Plans a command, if it is one on data.
    pub(super) fn new(words: &[&[u8]]) -> Result<Option<Plan>, Error> {
        let name = words.first().map(|name| String::from_utf8_lossy(name).to_uppercase());
        let name = name.unwrap_or_default();
        let each = |call: &'static str, combine, width| -> Result<Option<Plan>, Error> {
            if words.len() < 1 + width || !(words.len() - 1).is_multiple_of(width) {
                return Err(wrong_number(&name));
            }
            let calls = words[1..]
                .chunks(width)
                .filter_map(|part| Call::new(&[&[call.as_bytes()], part].concat()));
            Plan { calls: calls.collect(), combine, shape: Shape::Same }.checked()
        };
        match name.as_str() {
            "MGET" => each("GET", Combine::Array, 1),
            "MSET" => each("SET", Combine::Ok, 2),
            "DEL" => each("DEL", Combine::Sum, 1),
            "UNLINK" => each("UNLINK", Combine::Sum, 1),
            "EXISTS" | "TOUCH" => each("EXISTS", Combine::Sum, 1),
            _ => {
                let Some(known) = find(&name) else { return Ok(None) };
                let wanted = usize::from(known.arity.unsigned_abs());
                if words.len() < wanted || known.arity > 0 && words.len() != wanted {
                    return Err(wrong_number(&name));
                }
                let calls = Call::new(words).into_iter().collect();
                Plan { calls, combine: Combine::Only, shape: known.shape }.checked()
            }
        }
    }

    fn checked(self) -> Result<Option<Plan>, Error> {
        if let Some(call) = self.calls.iter().find(|call| call.key.starts_with(RESERVED)) {
            let key = String::from_utf8_lossy(&call.key).into_owned();
            return Err(Error::Refused(format!(
                "key '{key}' is reserved: keys that begin with 'solera:{{' hold the records of \
                 solera occult"
            )));
        }
        Ok(Some(self))
    }

    /// Combines the replies of the calls to one reply.
    pub(super) fn reply(&self, replies: Vec<Value>, protocol: Protocol) -> Value {
        let failed = replies.iter().find(|reply| matches!(reply, Value::Error(_)));
        match (self.combine, failed) {
            // MGET replies nil for a value that is not a string, as in Redis.
            (Combine::Array, _) => {
                let text = |reply| if let Value::Error(_) = reply { Value::Null } else { reply };
                Value::Array(replies.into_iter().map(text).collect())
            }
            (_, Some(error)) => error.clone(),
            (Combine::Only, None) => {
                let reply = replies.into_iter().next().unwrap_or(Value::Null);
                shaped(reply, self.shape, protocol)
            }
            (Combine::Sum, None) => Value::Integer(replies.iter().map(integer).sum()),
            (Combine::Ok, None) => Value::Simple("OK".to_owned()),
        }
    }
}

fn integer(value: &Value) -> i64 {
    if let Value::Integer(number) = value { *number } else { 0 }
}

/// Gives a reply the type that it has in the protocol of the connection.
fn shaped(reply: Value, shape: Shape, protocol: Protocol) -> Value {
    match (reply, shape, protocol) {
        (Value::Array(values), Shape::Map, Protocol::Resp3) => {
            let mut values = values.into_iter();
            let mut pairs = Vec::new();
            while let (Some(key), Some(value)) = (values.next(), values.next()) {
                pairs.push((key, value));
            }
            Value::Map(pairs)
        }
        (Value::Array(values), Shape::Set, Protocol::Resp3) => Value::Set(values),
        (reply, _, _) => reply,
    }
}

pub(super) fn wrong_number(name: &str) -> Error {
    let name = name.to_lowercase();
    Error::Refused(format!("wrong number of arguments for '{name}' command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Result<Option<Plan>, Error> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        Plan::new(&words)
    }

    #[test]
    fn commands_on_several_keys_are_split() {
        let found = plan("mset a 1 b 2").unwrap().unwrap();
        assert_eq!(found.calls.len(), 2);
        assert_eq!(found.calls[1].words, [b"SET".to_vec(), b"2".to_vec()]);
        let sum = plan("DEL a b c").unwrap().unwrap();
        let replies = vec![Value::Integer(1), Value::Integer(0), Value::Integer(1)];
        assert_eq!(sum.reply(replies, Protocol::Resp2), Value::Integer(2));
        let values = plan("MGET a b").unwrap().unwrap();
        let replies = vec![Value::Error("WRONGTYPE".to_owned()), Value::Bulk(b"x".to_vec())];
        let wanted = Value::Array(vec![Value::Null, Value::Bulk(b"x".to_vec())]);
        assert_eq!(values.reply(replies, Protocol::Resp2), wanted);
    }

    #[test]
    fn malformed_commands_are_refused() {
        for words in ["MSET a", "MSET", "GET", "GET a b", "DEL", "SET a", "HSET a b"] {
            assert!(matches!(plan(words), Err(Error::Refused(_))), "{words}");
        }
        let error = plan("SET solera:{1}:s x").unwrap_err().to_string();
        assert!(error.contains("'solera:{1}:s' is reserved"), "{error}");
        assert_eq!(plan("PING"), Ok(None));
    }

    #[test]
    fn replies_have_the_types_of_the_protocol() {
        let all = plan("HGETALL h").unwrap().unwrap();
        let reply = || vec![Value::Array(vec![Value::Integer(1), Value::Integer(2)])];
        let map = Value::Map(vec![(Value::Integer(1), Value::Integer(2))]);
        assert_eq!(all.reply(reply(), Protocol::Resp3), map);
        assert_eq!(all.reply(reply(), Protocol::Resp2), reply()[0]);
    }
}
