//! Commands on keys: from arguments to operations, and from outcomes to replies.
//!
//! These commands have no files of their own. Their typed arguments are operations of crate `data`,
//! which also executes them. The table of commands gives their rights and keys, and one function of
//! the session, `run_plan`, runs all of them. Most commands therefore need only one line, in
//! [`single`]. Arguments that take more to parse are in the module of their data type.

mod counters;
mod hashes;
mod lists;
mod reply;
mod strings;

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};
use solera_commands::{Command as Described, CommandId};
use solera_data::{Op, Value};
use solera_resp::Arguments;

pub(crate) use self::reply::{error_reply, write_at_once, write_results, write_single};

/// An operation on one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyOp<'a> {
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) op: Op,
}

/// The operations of a command, and the way to turn their outcomes into one reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan<'a> {
    pub(crate) ops: SmallVec<[KeyOp<'a>; 1]>,
    /// The command that the client sent.
    pub(crate) command: CommandId,
    shape: Shape,
}

impl<'a> Plan<'a> {
    /// Creates the plan of a command that replies with the outcome of its only operation.
    pub(crate) fn single(command: CommandId, key: &'a [u8], op: Op) -> Plan<'a> {
        let ops = smallvec![KeyOp::new(key, op)];
        Plan { ops, command, shape: Shape::Single }
    }

    /// Returns the keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.ops.iter().map(|op| &*op.key)
    }

    /// Returns the same plan with owned keys, for a queue.
    pub(crate) fn into_owned(self) -> Plan<'static> {
        let owned = |op: KeyOp<'_>| KeyOp { key: Cow::Owned(op.key.into_owned()), op: op.op };
        let Plan { ops, command, shape } = self;
        Plan { ops: ops.into_iter().map(owned).collect(), command, shape }
    }
}

impl<'a> KeyOp<'a> {
    /// Creates an operation on a key.
    pub(crate) fn new(key: &'a [u8], op: Op) -> KeyOp<'a> {
        KeyOp { key: Cow::Borrowed(key), op }
    }
}

/// The way to turn outcomes into a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Reply with the only outcome.
    Single,
    /// Reply with an array of strings, with null for other types (MGET).
    Strings,
    /// Reply with the sum of numbers (DEL, EXISTS).
    Sum,
    /// Reply OK (MSET).
    Ok,
    /// Reply OK, or null if the number is zero (SET NX).
    Taken,
    /// Reply with this number of new identifiers (SOLERA.TAKE).
    Identifiers(usize),
}

impl Shape {
    /// Returns the shape of a command with one operation.
    fn of_single(id: CommandId, op: &Op) -> Shape {
        match (id, op) {
            (CommandId::SoleraTake, Op::IncrBy(taken)) => {
                Shape::Identifiers(usize::try_from(taken.unsigned_abs()).unwrap_or_default())
            }
            _ => Shape::Single,
        }
    }
}

/// Returns whether a command changes pools alone.
pub(crate) fn is_of_pools(id: CommandId) -> bool {
    matches!(id, CommandId::SoleraTake | CommandId::SoleraGrow)
}

/// Returns whether a command reads or changes the content of keys, so that [`plan`] accepts it.
pub(crate) fn is_on_keys(command: &Described) -> bool {
    // These take keys and are no operation of their own on them.
    command.is_data()
        && !matches!(
            command.id,
            CommandId::SoleraLevel
                | CommandId::SoleraRead
                | CommandId::SoleraInterval
                | CommandId::SoleraRights
                | CommandId::Watch
        )
}

/// Parses a command on keys into a plan.
///
/// # Errors
/// The error reply, in Redis' words.
pub(crate) fn plan<'a>(id: CommandId, arguments: &Arguments<'a>) -> Result<Plan<'a>, String> {
    if let Some(op) = single(id, arguments)? {
        let shape = Shape::of_single(id, &op);
        return Ok(Plan { shape, ..Plan::single(id, arguments.get(1), op) });
    }
    let (ops, shape) = match id {
        CommandId::Set => {
            let op = Op::SetNew(Value::from(arguments.get(2)));
            (smallvec![KeyOp::new(arguments.get(1), op)], Shape::Taken)
        }
        CommandId::Mget => (each(arguments, &Op::Get), Shape::Strings),
        CommandId::Del => (each(arguments, &Op::Delete), Shape::Sum),
        CommandId::Exists => (each(arguments, &Op::Exists), Shape::Sum),
        CommandId::Mset => (strings::set_many(arguments)?, Shape::Ok),
        _ => return Err("ERR the command is not about keys".to_owned()),
    };
    Ok(Plan { ops, command: id, shape })
}

/// Parses a command on the one key that is its first argument. Returns `None` for other commands.
///
/// # Errors
/// The error reply, in Redis' words.
pub(crate) fn single(id: CommandId, arguments: &Arguments<'_>) -> Result<Option<Op>, String> {
    let argument = |index: usize| Value::from(arguments.get(index));
    let values = |first: usize| arguments.from(first).map(Value::from).collect::<Vec<_>>();
    let op = match id {
        CommandId::Get => Op::Get,
        CommandId::Set if strings::is_new(arguments) => return Ok(None),
        CommandId::Set => strings::set(arguments)?,
        CommandId::Setnx => Op::SetNew(argument(2)),
        CommandId::Incr => Op::IncrBy(1),
        CommandId::Decr => Op::IncrBy(-1),
        CommandId::Incrby => Op::IncrBy(counters::integer(arguments.get(2))?),
        CommandId::Decrby => counters::decrement(arguments)?,
        CommandId::SoleraTake => Op::IncrBy(-i64::from(counters::taken(arguments)?)),
        CommandId::SoleraGrow => Op::IncrBy(counters::grown(arguments)?),
        CommandId::Exists if arguments.len() == 2 => Op::Exists,
        CommandId::Type => Op::Type,
        CommandId::Sadd => Op::SetAdd(values(2)),
        CommandId::Srem => Op::SetRemove(values(2)),
        CommandId::Smembers => Op::SetMembers,
        CommandId::Sismember => Op::SetContains(argument(2)),
        CommandId::Scard => Op::SetLen,
        CommandId::Hset => hashes::set(arguments)?,
        CommandId::Hget => Op::HashGet(argument(2)),
        CommandId::Hmget => Op::HashGetMany(values(2)),
        CommandId::Hgetall => Op::HashGetAll,
        CommandId::Hdel => Op::HashDelete(values(2)),
        CommandId::SoleraPush => lists::push(arguments),
        CommandId::SoleraNewest => lists::newest(arguments)?,
        CommandId::Hincrby => Op::HashIncrBy(argument(2), counters::integer(arguments.get(3))?),
        _ => return Ok(None),
    };
    Ok(Some(op))
}

/// Returns the same operation on each key.
fn each<'a>(arguments: &Arguments<'a>, op: &Op) -> SmallVec<[KeyOp<'a>; 1]> {
    arguments.from(1).map(|key| KeyOp::new(key, op.clone())).collect()
}

/// Checks that arguments come in pairs from `first` on.
///
/// # Errors
/// The error reply.
fn come_in_pairs(arguments: &Arguments<'_>, name: &str, first: usize) -> Result<(), String> {
    match (arguments.len() - first).is_multiple_of(2) {
        true => Ok(()),
        false => Err(format!("ERR wrong number of arguments for '{name}' command")),
    }
}

#[cfg(test)]
mod tests {
    use solera_commands::{COMMANDS, lookup};
    use solera_config::Relation;
    use solera_data::is_stamp;
    use solera_resp::RequestParser;

    use super::*;

    fn planned(line: &str) -> Result<Plan<'static>, String> {
        let request = format!("{line}\r\n");
        let mut parser = RequestParser::new();
        let (arguments, _) = parser.next(request.as_bytes()).unwrap().unwrap();
        let command = lookup(arguments.get(0)).unwrap();
        plan(command.id, &arguments).map(Plan::into_owned)
    }

    /// Parses a command and returns it with its operation on each key.
    fn ops_of(line: &str) -> Vec<(CommandId, Op)> {
        let plan = planned(line).unwrap();
        plan.ops.into_iter().map(|op| (plan.command, op.op)).collect()
    }

    #[test]
    fn arguments_become_operations_on_keys() {
        let set = |key: &'static str, value: &str| {
            KeyOp::new(key.as_bytes(), Op::Set(Value::from(value.as_bytes())))
        };
        assert_eq!(planned("MSET a 1 b 2").unwrap().ops.to_vec(), [set("a", "1"), set("b", "2")]);
        assert_eq!(planned("SET a 1").unwrap().ops.to_vec(), [set("a", "1")]);
        let taken = planned("SET a 1 nx").unwrap();
        assert!(matches!(taken.ops.as_slice(), [KeyOp { op: Op::SetNew(_), .. }]));
        assert_eq!(taken.shape, Shape::Taken);
        let pairs = vec![(Value::from(&b"f"[..]), Value::from(&b"1"[..]))];
        assert_eq!(ops_of("HSET h f 1"), [(CommandId::Hset, Op::HashSet(pairs))]);
        let [(_, Op::HashSet(pushed))] = &ops_of("SOLERA.PUSH l x y")[..] else { panic!("a list") };
        let elements: Vec<_> = pushed.iter().map(|(_, element)| element.as_bytes()).collect();
        assert_eq!(elements, [b"x", b"y"]);
        assert!(pushed[0].0 < pushed[1].0 && pushed.iter().all(|(name, _)| is_stamp(name)));
        assert_eq!(ops_of("SOLERA.NEWEST l 3"), [(CommandId::SoleraNewest, Op::HashNewest(3))]);
        assert_eq!(planned("DEL a b a").unwrap().keys().count(), 3);
    }

    #[test]
    fn bad_arguments_are_rejected() {
        let number = "ERR value is not an integer or out of range";
        let few = "ERR SOLERA.NEWEST takes a number of elements, which is at least 1";
        for (line, error) in [
            ("SET a 1 EX 5", "ERR Solera does not support SET EX yet"),
            ("SET a 1 NX GET", "ERR Solera does not support SET GET yet"),
            ("SET a 1 NX NX", "ERR syntax error"),
            ("SET a 1 foo", "ERR syntax error"),
            ("MSET a 1 b", "ERR wrong number of arguments for 'mset' command"),
            ("INCRBY a x", number),
            ("DECRBY a 1.5", number),
            ("DECRBY a -9223372036854775808", "ERR decrement would overflow"),
            ("HSET h f 1 g", "ERR wrong number of arguments for 'hset' command"),
            ("HINCRBY h f x", number),
            ("SOLERA.NEWEST l 0", few),
            ("SOLERA.NEWEST l -1", few),
            ("SOLERA.NEWEST l x", few),
            ("SOLERA.NEWEST l 9223372036854775808", few),
            ("WATCH a", "ERR the command is not about keys"),
        ] {
            assert_eq!(planned(line), Err(error.to_owned()), "{line}");
        }
    }

    fn with_strong(name: &str) -> Option<Relation> {
        Relation::named(&[name.to_owned()], &[])
    }

    #[test]
    fn every_command_on_keys_matches_its_name_in_spaces() {
        let others = [
            CommandId::SoleraLevel,
            CommandId::SoleraRead,
            CommandId::SoleraInterval,
            CommandId::SoleraRights,
            CommandId::SoleraTake,
            CommandId::SoleraGrow,
            CommandId::Watch,
        ];
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
    fn adding_a_negative_number_is_classified_as_a_decrement() {
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
