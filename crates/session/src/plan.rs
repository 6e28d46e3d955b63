//! Commands on keys: from arguments to operations, and from outcomes to replies.

use smallvec::{SmallVec, smallvec};
use solera_commands::{Command as Described, CommandId};
use solera_data::{Op, OpError, Outcome, Value};
use solera_resp::{Arguments, Writer, parse_integer};

/// An operation on one key.
#[derive(Debug)]
pub(crate) struct KeyOp<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) op: Op,
}

/// What a command does, and how its outcomes become one reply.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) ops: SmallVec<[KeyOp<'a>; 1]>,
    /// What the client asked for.
    pub(crate) command: CommandId,
    shape: Shape,
}

impl<'a> Plan<'a> {
    /// A command that answers with the outcome of its only operation.
    pub(crate) fn single(command: CommandId, ops: SmallVec<[KeyOp<'a>; 1]>) -> Plan<'a> {
        Plan { ops, command, shape: Shape::Single }
    }
}

/// How outcomes become a reply.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// The only outcome.
    Single,
    /// An array of strings, with nothing for what is no string (MGET).
    Strings,
    /// The sum of numbers (DEL, EXISTS).
    Sum,
    /// Always OK (MSET).
    Ok,
    /// OK, or nothing if the number is zero (SET NX).
    Taken,
}

/// Whether a command reads or changes what keys hold: [`plan`] says what it does.
pub(crate) fn is_on_keys(command: &Described) -> bool {
    // These look at keys, or ask what they are.
    command.is_data() && !matches!(command.id, CommandId::SoleraLevel | CommandId::Watch)
}

/// What a command on keys does.
///
/// # Errors
/// The error reply, in Redis' words.
pub(crate) fn plan<'a>(id: CommandId, arguments: &'a Arguments<'_>) -> Result<Plan<'a>, String> {
    if let Some(op) = single(id, arguments)? {
        let ops = smallvec![KeyOp { key: arguments.get(1), op }];
        return Ok(Plan { ops, command: id, shape: Shape::Single });
    }
    match id {
        CommandId::Set => {
            let op = Op::SetNew(Value::from(arguments.get(2)));
            let ops = smallvec![KeyOp { key: arguments.get(1), op }];
            Ok(Plan { ops, command: id, shape: Shape::Taken })
        }
        CommandId::Mget => Ok(each(id, arguments, &Op::Get, Shape::Strings)),
        CommandId::Del => Ok(each(id, arguments, &Op::Delete, Shape::Sum)),
        CommandId::Exists => Ok(each(id, arguments, &Op::Exists, Shape::Sum)),
        CommandId::Mset => {
            pairs(arguments, "mset", 1)?;
            let ops = (1..arguments.len()).step_by(2).map(|i| KeyOp {
                key: arguments.get(i),
                op: Op::Set(Value::from(arguments.get(i + 1))),
            });
            Ok(Plan { ops: ops.collect(), command: id, shape: Shape::Ok })
        }
        _ => Err("ERR the command is not about keys".to_owned()),
    }
}

/// The operation of a command on the key that is its first argument; `None` for other commands.
///
/// # Errors
/// The error reply, in Redis' words.
pub(crate) fn single(id: CommandId, arguments: &Arguments<'_>) -> Result<Option<Op>, String> {
    let argument = |index: usize| Value::from(arguments.get(index));
    let values = |first: usize| arguments.from(first).map(Value::from).collect::<Vec<_>>();
    let op = match id {
        CommandId::Get => Op::Get,
        CommandId::Set if is_new(arguments) => return Ok(None),
        CommandId::Set => {
            plain(arguments)?;
            Op::Set(argument(2))
        }
        CommandId::Setnx => Op::SetNew(argument(2)),
        CommandId::Incr => Op::IncrBy(1),
        CommandId::Decr => Op::IncrBy(-1),
        CommandId::Incrby => Op::IncrBy(integer(arguments.get(2))?),
        CommandId::Decrby => {
            let by = integer(arguments.get(2))?;
            Op::IncrBy(by.checked_neg().ok_or("ERR decrement would overflow")?)
        }
        CommandId::Type => Op::Type,
        CommandId::Sadd => Op::SetAdd(values(2)),
        CommandId::Srem => Op::SetRemove(values(2)),
        CommandId::Smembers => Op::SetMembers,
        CommandId::Sismember => Op::SetContains(argument(2)),
        CommandId::Scard => Op::SetLen,
        CommandId::Hset => Op::HashSet(pairs(arguments, "hset", 2)?),
        CommandId::Hget => Op::HashGet(argument(2)),
        CommandId::Hmget => Op::HashGetMany(values(2)),
        CommandId::Hgetall => Op::HashGetAll,
        CommandId::Hdel => Op::HashDelete(values(2)),
        CommandId::Hincrby => Op::HashIncrBy(argument(2), integer(arguments.get(3))?),
        _ => return Ok(None),
    };
    Ok(Some(op))
}

fn each<'a>(command: CommandId, arguments: &'a Arguments<'_>, op: &Op, shape: Shape) -> Plan<'a> {
    let ops = arguments.from(1).map(|key| KeyOp { key, op: op.clone() });
    Plan { ops: ops.collect(), command, shape }
}

/// Whether SET has the option NX, and no other.
fn is_new(arguments: &Arguments<'_>) -> bool {
    let mut options = arguments.from(3);
    options.next().is_some_and(|option| option.eq_ignore_ascii_case(b"nx"))
        && options.next().is_none()
}

/// SET's other options, none of which is served, also not beside NX.
fn plain(arguments: &Arguments<'_>) -> Result<(), String> {
    const OPTIONS: [&str; 7] = ["EX", "PX", "EXAT", "PXAT", "XX", "KEEPTTL", "GET"];
    let options = || arguments.from(3);
    if options().next().is_none() {
        return Ok(());
    }
    let other = options().find(|option| !option.eq_ignore_ascii_case(b"nx")).unwrap_or(b"");
    let known = OPTIONS.iter().find(|name| other.eq_ignore_ascii_case(name.as_bytes()));
    Err(match known {
        Some(name) => format!("ERR SET {name} is not served by this version of Solera"),
        None => "ERR syntax error".to_owned(),
    })
}

fn integer(bytes: &[u8]) -> Result<i64, String> {
    parse_integer(bytes).ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}

fn pairs(
    arguments: &Arguments<'_>,
    name: &str,
    first: usize,
) -> Result<Vec<(Value, Value)>, String> {
    if !(arguments.len() - first).is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{name}' command"));
    }
    let values: Vec<Value> = arguments.from(first).map(Value::from).collect();
    Ok(values.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
}

/// Appends the reply of a command on keys. Returns whether it is no error.
pub(crate) fn write_results(
    out: &mut Writer,
    plan: &Plan<'_>,
    results: &[Result<Outcome, OpError>],
) -> bool {
    if let Shape::Strings = plan.shape {
        out.array(results.len());
        for result in results {
            match result {
                Ok(outcome) => write_outcome(out, outcome),
                Err(_) => out.null(),
            }
        }
        return true;
    }
    if let Some(error) = results.iter().find_map(|result| result.as_ref().err()) {
        return write_error(out, error);
    }
    let outcomes = results.iter().filter_map(|result| result.as_ref().ok());
    match plan.shape {
        Shape::Ok => out.simple("OK"),
        Shape::Sum => out.integer(
            outcomes
                .map(|outcome| match outcome {
                    Outcome::Int(number) => *number,
                    _ => 0,
                })
                .sum(),
        ),
        Shape::Taken => match results.first() {
            Some(Ok(Outcome::Int(0))) => out.null(),
            _ => out.simple("OK"),
        },
        Shape::Single | Shape::Strings => outcomes.for_each(|outcome| write_outcome(out, outcome)),
    }
    true
}

/// Appends the reply of a command on one key. Returns whether it is no error.
pub(crate) fn write_single(out: &mut Writer, result: &Result<Outcome, OpError>) -> bool {
    match result {
        Ok(outcome) => {
            write_outcome(out, outcome);
            true
        }
        Err(error) => write_error(out, error),
    }
}

fn write_error(out: &mut Writer, error: &OpError) -> bool {
    out.error(&told(error));
    false
}

/// An error of an operation, as clients are told.
pub(crate) fn told(error: &OpError) -> String {
    let code = if *error == OpError::WrongType { "WRONGTYPE" } else { "ERR" };
    format!("{code} {error}")
}

fn write_outcome(out: &mut Writer, outcome: &Outcome) {
    match outcome {
        Outcome::Ok => out.simple("OK"),
        Outcome::Nil => out.null(),
        Outcome::Int(number) => out.integer(*number),
        Outcome::Bulk(value) => out.bulk(value),
        Outcome::Type(kind) => out.simple(kind.map_or("none", |kind| kind.name())),
        Outcome::Values(values) => {
            out.array(values.len());
            for value in values {
                match value {
                    Some(value) => out.bulk(value),
                    None => out.null(),
                }
            }
        }
        Outcome::Members(members) => {
            out.set(members.len());
            members.iter().for_each(|member| out.bulk(member));
        }
        Outcome::Pairs(pairs) => {
            out.map(pairs.len());
            for (field, value) in pairs {
                out.bulk(field);
                out.bulk(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_commands::{COMMANDS, lookup};
    use solera_config::Relation;
    use solera_resp::RequestParser;

    use super::*;

    /// A command, with its operation on each key.
    fn ops_of(line: &str) -> Vec<(CommandId, Op)> {
        let request = format!("{line}\r\n");
        let mut parser = RequestParser::new();
        let (arguments, _) = parser.next(request.as_bytes()).unwrap().unwrap();
        let command = lookup(arguments.get(0)).unwrap();
        let plan = plan(command.id, &arguments).unwrap();
        plan.ops.into_iter().map(|op| (command.id, op.op)).collect()
    }

    fn with_strong(name: &str) -> Option<Relation> {
        Relation::named(&[name.to_owned()], &[])
    }

    #[test]
    fn every_command_on_keys_does_what_its_name_stands_for_in_spaces() {
        // These look at keys, or ask what they are.
        let others = [CommandId::SoleraLevel, CommandId::Watch];
        for command in COMMANDS.iter().filter(|command| !others.contains(&command.id)) {
            let relation = with_strong(command.name);
            assert_eq!(relation.is_some(), command.is_data(), "{}", command.name);
            let Some(relation) = relation else { continue };
            let given = ["1"; 4];
            let most = command.arity.unsigned_abs() as usize - 1;
            let line = format!("{} {}", command.name, given[..most].join(" "));
            for (id, op) in ops_of(&line) {
                let class = relation.class_of(id, &op);
                assert!(class.strong, "{line}");
                assert_eq!(class.update, op.is_update(), "{line}");
                assert_eq!(class.update, command.has_flag("write"), "{line}");
            }
        }
    }

    #[test]
    fn adding_a_negative_number_is_told_apart() {
        for (line, is_incrby, is_decrby) in [
            ("INCR k", true, false),
            ("INCRBY k 0", true, false),
            ("INCRBY k -1", true, true),
            ("DECR k", false, true),
            ("DECRBY k 0", false, true),
            ("DECRBY k -1", true, true),
            ("HINCRBY k f -1", false, false),
        ] {
            let (id, op) = ops_of(line).remove(0);
            let is_strong = |name| with_strong(name).unwrap().class_of(id, &op).strong;
            assert_eq!(
                (is_strong("INCRBY"), is_strong("DECRBY")),
                (is_incrby, is_decrby),
                "{line}"
            );
        }
    }
}
