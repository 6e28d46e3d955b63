//! Kinds of operations, without their arguments.

use crate::{Op, Type};

/// Defines the kinds, their list and their names from one table.
macro_rules! operations {
    ($($(#[$about:meta])* $kind:ident $name:literal)*) => {
        /// Kind of an operation on one key, independent of the command: MSET, for example, sets
        /// each of its keys.
        ///
        /// The number of a kind identifies it for certification in journals and messages, so it
        /// never changes. New kinds are appended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[$about])* $kind,)*
        }

        impl Operation {
            /// All kinds, by number.
            pub const ALL: [Operation; [$($name),*].len()] = [$($kind),*];

            /// Returns the command by which configurations refer to the kind.
            pub fn name(self) -> &'static str {
                match self {
                    $($kind => $name,)*
                }
            }
        }
    };
}

operations! {
    /// GET
    Get "GET"
    /// SET
    Set "SET"
    /// DEL
    Delete "DEL"
    /// EXISTS
    Exists "EXISTS"
    /// TYPE
    TypeOf "TYPE"
    /// INCRBY by a non-negative number.
    Add "INCRBY"
    /// DECRBY by a non-negative number. An [`Op`] does not distinguish it from
    /// [`Operation::Turned`]; the command does.
    Take "DECRBY"
    /// INCRBY or DECRBY by a negative number. A configuration that names either command includes
    /// this kind.
    Turned "INCRBY by a negative number"
    /// SADD
    SetAdd "SADD"
    /// SREM
    SetRemove "SREM"
    /// SMEMBERS
    SetMembers "SMEMBERS"
    /// SISMEMBER
    SetContains "SISMEMBER"
    /// SCARD
    SetLen "SCARD"
    /// HSET
    HashSet "HSET"
    /// HGET and HMGET
    HashGet "HGET"
    /// HGETALL and SOLERA.NEWEST
    HashGetAll "HGETALL"
    /// HDEL
    HashDelete "HDEL"
    /// HINCRBY
    HashAdd "HINCRBY"
    /// SETNX
    SetNew "SETNX"
    /// WATCH, which reads the whole key.
    Look "WATCH"
}

use Operation::*;

impl Operation {
    /// Returns whether the operation can change the key.
    pub const fn is_update(self) -> bool {
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

    /// Returns the type that the key must have; `None` if the operation accepts any type.
    pub fn needs(self) -> Option<Type> {
        match self {
            Set | SetNew | Delete | Exists | TypeOf | Look => None,
            Get | Add | Take | Turned => Some(Type::String),
            SetAdd | SetRemove | SetMembers | SetContains | SetLen => Some(Type::Set),
            HashSet | HashGet | HashGetAll | HashDelete | HashAdd => Some(Type::Hash),
        }
    }

    /// Returns the kind's bit in a set of kinds.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }
}

impl Op {
    /// Returns the kind of the operation.
    pub const fn operation(&self) -> Operation {
        match self {
            Op::Get => Get,
            Op::Set(_) => Set,
            Op::Delete => Delete,
            Op::Exists => Exists,
            Op::Type => TypeOf,
            Op::IncrBy(..0) => Turned,
            Op::IncrBy(_) => Add,
            Op::SetAdd(_) => SetAdd,
            Op::SetRemove(_) => SetRemove,
            Op::SetMembers => SetMembers,
            Op::SetContains(_) => SetContains,
            Op::SetLen => SetLen,
            Op::HashSet(_) => HashSet,
            Op::HashGet(_) | Op::HashGetMany(_) => HashGet,
            Op::HashGetAll | Op::HashNewest(_) => HashGetAll,
            Op::HashDelete(_) => HashDelete,
            Op::HashIncrBy(..) => HashAdd,
            Op::SetNew(_) => SetNew,
            Op::Digest => Look,
        }
    }

    /// Returns whether the operation can change the key.
    pub const fn is_update(&self) -> bool {
        self.operation().is_update()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
