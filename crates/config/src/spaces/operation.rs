//! Operations of commands on one key, as far as spaces distinguish them.

use solera_commands::CommandId;
use solera_data::{Op, Operation};

use Operation::*;

/// Returns the operation that a command's name stands for in a configuration; `None` if the command
/// does not act on a key.
pub(super) fn named(command: CommandId) -> Option<Operation> {
    Some(match command {
        CommandId::Get | CommandId::Mget => Get,
        CommandId::Set | CommandId::Mset => Set,
        CommandId::Del => Delete,
        CommandId::Exists => Exists,
        CommandId::Type => TypeOf,
        CommandId::Incr | CommandId::Incrby => Add,
        CommandId::Decr | CommandId::Decrby => Take,
        CommandId::Setnx => SetNew,
        CommandId::Sadd => SetAdd,
        CommandId::Srem => SetRemove,
        CommandId::Smembers => SetMembers,
        CommandId::Sismember => SetContains,
        CommandId::Scard => SetLen,
        CommandId::Hset | CommandId::SoleraPush => HashSet,
        CommandId::Hget | CommandId::Hmget => HashGet,
        CommandId::Hgetall | CommandId::SoleraNewest => HashGetAll,
        CommandId::Hdel => HashDelete,
        CommandId::Hincrby => HashAdd,
        _ => return None,
    })
}

/// Returns the operation of a command on a key.
pub(super) fn of(command: CommandId, op: &Op) -> Operation {
    match op {
        Op::IncrBy(by) if named(command) == Some(Take) => {
            if *by <= 0 {
                Take
            } else {
                Turned
            }
        }
        op => op.operation(),
    }
}

/// Returns whether the result of an operation depends on the whole key, so it needs an order even
/// where nothing is declared.
pub(super) const fn looks(operation: Operation) -> bool {
    matches!(operation, Look | SetNew)
}

#[cfg(test)]
pub(super) mod tests {
    use solera_commands::lookup;
    use solera_data::Value;

    use super::*;

    /// Returns a command and its operation on its key. Sessions parse the rest of the syntax.
    pub(in crate::spaces) fn op_of(line: &str) -> (CommandId, Op) {
        let words: Vec<&str> = line.split(' ').collect();
        let value = |at: usize| Value::from(words[at].as_bytes());
        let number = |at: usize| words[at].parse::<i64>().unwrap();
        let op = match words[0] {
            "GET" => Op::Get,
            "SET" => Op::Set(value(2)),
            "SETNX" => Op::SetNew(value(2)),
            "DEL" => Op::Delete,
            "EXISTS" => Op::Exists,
            "TYPE" => Op::Type,
            "INCR" => Op::IncrBy(1),
            "DECR" => Op::IncrBy(-1),
            "INCRBY" => Op::IncrBy(number(2)),
            "DECRBY" => Op::IncrBy(-number(2)),
            "SADD" => Op::SetAdd(vec![value(2)]),
            "SREM" => Op::SetRemove(vec![value(2)]),
            "SCARD" => Op::SetLen,
            "HGET" => Op::HashGet(value(2)),
            "HMGET" => Op::HashGetMany(vec![value(2)]),
            "HGETALL" => Op::HashGetAll,
            "HINCRBY" => Op::HashIncrBy(value(2), number(3)),
            other => panic!("{other} is not here yet"),
        };
        (lookup(words[0].as_bytes()).unwrap().id, op)
    }

    #[test]
    fn adding_a_negative_number_is_distinguished() {
        for (line, operation) in [
            ("INCR k", Add),
            ("INCRBY k 0", Add),
            ("INCRBY k -1", Turned),
            ("DECR k", Take),
            ("DECRBY k 0", Take),
            ("DECRBY k -1", Turned),
            ("HINCRBY k f -1", HashAdd),
        ] {
            let (id, op) = op_of(line);
            assert_eq!(of(id, &op), operation, "{line}");
        }
    }
}
