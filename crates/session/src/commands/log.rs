//! SOLERA.LOG: final operations of the speculative space, in their order.

use std::borrow::Cow;

use solera_config::ClusterSpec;
use solera_data::Op;
use solera_procedures::{Procedure, next_element};
use solera_resp::{Arguments, Writer, parse_integer};

use super::request::Request;
use super::state;
use crate::context::{Context, FromSpeculative, LogEntry, ToSpeculative};
use crate::session::ClientSession;
use crate::ticket::Ticket;

/// Most operations in a reply.
const MOST: usize = 10_000;

/// SOLERA.LOG space from count: replies with an array of position, ticket, `weak` or `strong`, and
/// an array of commands, each with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    from: u64,
    count: usize,
}

impl Request for Log {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.LOG is not allowed inside a transaction".to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Log, String> {
        state::space(arguments.get(1), spec)?;
        let number = |at| parse_integer(arguments.get(at)).and_then(|it| u64::try_from(it).ok());
        let Some(from @ 1..) = number(2) else {
            return Err(
                "ERR SOLERA.LOG takes the position of the first operation, from 1".to_owned()
            );
        };
        match number(3).and_then(|count| usize::try_from(count).ok()) {
            Some(count @ ..=MOST) => Ok(Log { from, count }),
            _ => Err(format!("ERR SOLERA.LOG returns 0 to {MOST} operations")),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let Log { from, count } = self;
        let asked = ToSpeculative::Log { from, count };
        let (entries, oldest) = match session.request_speculative(asked).await {
            Ok(FromSpeculative::Log(entries, oldest)) => (entries, oldest),
            Ok(_) => return session.fail_unanswered(),
            Err(error) => return session.fail(error),
        };
        if from < oldest {
            return session.fail(format!(
                "ERR the operation at position {from} is no longer kept; the log begins at {oldest}"
            ));
        }
        let out = &mut session.out;
        out.array(entries.len());
        entries.iter().for_each(|entry| write(out, entry));
    }
}

fn write(out: &mut Writer, entry: &LogEntry) {
    let LogEntry { position, id, strong, operation } = entry;
    out.array(4);
    out.integer((*position).try_into().unwrap_or(i64::MAX));
    out.bulk(Ticket(*id).to_string().as_bytes());
    out.bulk(if *strong { b"strong" } else { b"weak" });
    match operation {
        Some(Procedure::Keys { steps, .. }) => {
            out.array(steps.len());
            for (key, op) in steps {
                let words = words(key.as_bytes(), op);
                out.array(words.len());
                words.iter().for_each(|word| out.bulk(word));
            }
        }
        Some(Procedure::Install { digest, .. }) => {
            out.array(1);
            out.array(2);
            out.bulk(b"SOLERA.MODULE");
            out.bulk(digest.as_bytes());
        }
        Some(Procedure::Call(call)) => {
            out.array(1);
            out.array(2 + call.arguments.len());
            out.bulk(b"SOLERA.CALL");
            out.bulk(format!("{}.{}", call.module, call.transaction).as_bytes());
            call.arguments.iter().for_each(|argument| out.bulk(argument));
        }
        None => out.array(0),
    }
}

/// Returns a command with its arguments that does an operation on a key.
fn words<'a>(key: &'a [u8], op: &'a Op) -> Vec<Cow<'a, [u8]>> {
    let number = |number: i64| Cow::Owned(number.to_string().into_bytes());
    let name = |name: &'static str| Cow::Borrowed(name.as_bytes());
    let of = |value: &'a solera_data::Value| Cow::Borrowed(&**value);
    let (command, rest): (&'static str, Vec<Cow<'a, [u8]>>) = match op {
        Op::Get => ("GET", vec![]),
        Op::Set(value) => ("SET", vec![of(value)]),
        Op::Delete => ("DEL", vec![]),
        Op::Exists => ("EXISTS", vec![]),
        Op::Type => ("TYPE", vec![]),
        // Clients subtract with DECRBY. The least number has no opposite.
        Op::IncrBy(by @ ..0) if *by != i64::MIN => ("DECRBY", vec![number(-by)]),
        Op::IncrBy(by) => ("INCRBY", vec![number(*by)]),
        Op::SetAdd(values) => ("SADD", values.iter().map(of).collect()),
        Op::SetRemove(values) => ("SREM", values.iter().map(of).collect()),
        Op::SetMembers => ("SMEMBERS", vec![]),
        Op::SetContains(value) => ("SISMEMBER", vec![of(value)]),
        Op::SetLen => ("SCARD", vec![]),
        Op::HashSet(fields) if is_push(fields) => {
            ("SOLERA.PUSH", fields.iter().map(|(_, element)| of(element)).collect())
        }
        Op::HashSet(fields) => {
            ("HSET", fields.iter().flat_map(|(field, value)| [of(field), of(value)]).collect())
        }
        Op::HashGet(field) => ("HGET", vec![of(field)]),
        Op::HashGetMany(fields) => ("HMGET", fields.iter().map(of).collect()),
        Op::HashGetAll => ("HGETALL", vec![]),
        Op::HashDelete(fields) => ("HDEL", fields.iter().map(of).collect()),
        Op::HashIncrBy(field, by) => ("HINCRBY", vec![of(field), number(*by)]),
        Op::SetNew(value) => ("SETNX", vec![of(value)]),
        Op::Digest => ("WATCH", vec![]),
        Op::HashNewest(count) => {
            ("SOLERA.NEWEST", vec![Cow::Owned(count.to_string().into_bytes())])
        }
    };
    [name(command), Cow::Borrowed(key)].into_iter().chain(rest).collect()
}

/// Returns whether fields are new elements of a list.
fn is_push(fields: &[(solera_data::Value, solera_data::Value)]) -> bool {
    (0..).zip(fields).all(|(at, (field, _))| *field == next_element(at))
}

#[cfg(test)]
mod tests {
    use solera_data::Value;

    use super::super::request::testing::rejects;
    use super::*;

    #[test]
    fn operations_are_shown_as_commands() {
        let value = |text: &str| Value::from(text.as_bytes());
        let shown = |op: &Op| {
            let words = words(b"k", op);
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&Op::IncrBy(3)), ["INCRBY", "k", "3"]);
        assert_eq!(shown(&Op::IncrBy(-3)), ["DECRBY", "k", "3"]);
        assert_eq!(shown(&Op::IncrBy(i64::MIN)), ["INCRBY", "k", "-9223372036854775808"]);
        assert_eq!(shown(&Op::SetAdd(vec![value("a"), value("b")])), ["SADD", "k", "a", "b"]);
        assert_eq!(shown(&Op::HashSet(vec![(value("f"), value("1"))])), ["HSET", "k", "f", "1"]);
        assert_eq!(shown(&Op::HashIncrBy(value("f"), 2)), ["HINCRBY", "k", "f", "2"]);
    }

    #[test]
    fn spaces_of_other_levels_have_no_log() {
        let unknown = "ERR there is no space 'x'; SOLERA.SPACES lists the spaces";
        rejects::<Log>(&[("SOLERA.LOG x 1 1", unknown)]);
    }
}
