//! What commands do to one key, as far as spaces tell it apart.

use solera_commands::CommandId;
use solera_data::{Op, Type};

/// What is done to one key, however it is spelled: MSET sets each of its keys.
///
/// Its number is the kind that certification sees, in journals and messages, so it stays what it is for
/// good: new ones are appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Operation {
    Get,
    Set,
    Delete,
    Exists,
    TypeOf,
    Add,
    Take,
    /// INCRBY or DECRBY by a negative number. Who names either command means this, too: by its name, or by
    /// what it comes to.
    Turned,
    SetAdd,
    SetRemove,
    SetMembers,
    SetContains,
    SetLen,
    HashSet,
    HashGet,
    HashGetAll,
    HashDelete,
    HashAdd,
    SetNew,
    /// What WATCH looks at: all of the key.
    Look,
}

use Operation::*;

impl Operation {
    /// All of them, by number.
    pub(super) const ALL: [Operation; 20] = [
        Get,
        Set,
        Delete,
        Exists,
        TypeOf,
        Add,
        Take,
        Turned,
        SetAdd,
        SetRemove,
        SetMembers,
        SetContains,
        SetLen,
        HashSet,
        HashGet,
        HashGetAll,
        HashDelete,
        HashAdd,
        SetNew,
        Look,
    ];

    /// What the name of a command stands for in a configuration; `None` if it does nothing with a key.
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
            CommandId::Hset => HashSet,
            CommandId::Hget | CommandId::Hmget => HashGet,
            CommandId::Hgetall => HashGetAll,
            CommandId::Hdel => HashDelete,
            CommandId::Hincrby => HashAdd,
            _ => return None,
        })
    }

    /// What a command does to a key.
    pub(super) fn of(command: CommandId, op: &Op) -> Operation {
        match op {
            Op::Get => Get,
            Op::Set(_) => Set,
            Op::Delete => Delete,
            Op::Exists => Exists,
            Op::Type => TypeOf,
            Op::IncrBy(by) => match Operation::named(command) {
                Some(Take) if *by <= 0 => Take,
                Some(Take) => Turned,
                _ if *by < 0 => Turned,
                _ => Add,
            },
            Op::SetAdd(_) => SetAdd,
            Op::SetRemove(_) => SetRemove,
            Op::SetMembers => SetMembers,
            Op::SetContains(_) => SetContains,
            Op::SetLen => SetLen,
            Op::HashSet(_) => HashSet,
            Op::HashGet(_) | Op::HashGetMany(_) => HashGet,
            Op::HashGetAll => HashGetAll,
            Op::HashDelete(_) => HashDelete,
            Op::HashIncrBy(..) => HashAdd,
            Op::SetNew(_) => SetNew,
            Op::Digest => Look,
        }
    }

    /// The command that people name it by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Get => "GET",
            Set => "SET",
            Delete => "DEL",
            Exists => "EXISTS",
            TypeOf => "TYPE",
            Add => "INCRBY",
            Take => "DECRBY",
            Turned => "INCRBY by a negative number",
            SetAdd => "SADD",
            SetRemove => "SREM",
            SetMembers => "SMEMBERS",
            SetContains => "SISMEMBER",
            SetLen => "SCARD",
            HashSet => "HSET",
            HashGet => "HGET",
            HashGetAll => "HGETALL",
            HashDelete => "HDEL",
            HashAdd => "HINCRBY",
            SetNew => "SETNX",
            Look => "WATCH",
        }
    }

    /// Whether it can change the key.
    pub(super) const fn is_update(self) -> bool {
        matches!(
            self,
            Set | Delete
                | Add
                | Take
                | Turned
                | SetAdd
                | SetRemove
                | HashSet
                | HashDelete
                | HashAdd
                | SetNew
        )
    }

    /// Whether what it comes to depends on all of the key, so that it needs an order even where nothing is
    /// declared.
    pub(super) const fn looks(self) -> bool {
        matches!(self, Look | SetNew)
    }

    /// The type that a key must have for it; `None` if any will do.
    pub(super) fn needs(self) -> Option<Type> {
        match self {
            Set | SetNew | Delete | Exists | TypeOf | Look => None,
            Get | Add | Take | Turned => Some(Type::String),
            SetAdd | SetRemove | SetMembers | SetContains | SetLen => Some(Type::Set),
            HashSet | HashGet | HashGetAll | HashDelete | HashAdd => Some(Type::Hash),
        }
    }

    /// Its bit in a set of operations.
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

#[cfg(test)]
pub(super) mod tests {
    use solera_commands::lookup;
    use solera_data::Value;

    use super::*;

    /// A command and its operation on its key. Sessions have the rest of the syntax.
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
    fn numbers_are_for_good() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
        }
        let names = Operation::ALL.map(Operation::name).join(" ");
        assert_eq!(
            names,
            "GET SET DEL EXISTS TYPE INCRBY DECRBY INCRBY by a negative number SADD SREM SMEMBERS \
             SISMEMBER SCARD HSET HGET HGETALL HDEL HINCRBY SETNX WATCH",
            "others may only follow"
        );
        assert!(Operation::ALL.len() <= 64, "certification has no more kinds");
    }

    #[test]
    fn adding_a_negative_number_is_told_apart() {
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
            assert_eq!(Operation::of(id, &op), operation, "{line}");
        }
    }
}
