//! Strong operations and conflicts of a space (the paper's `⋈`, UniStore §3).
//!
//! Only strong operations conflict, with one exception: WATCH, and SETNX where it is not strong,
//! depend on the contents of a key of any space, so they conflict with every update of the key in a
//! strong transaction.

use std::fmt;

use solera_commands::CommandId;
use solera_data::{Op, Operation};
use solera_levels::Level;
use solera_unistore::Kind;

use super::operation::{looks, named, of};

/// Name that stands for every command in a pair.
pub(super) const ANY: &str = "*";

/// Certification class of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Whether it is a strong transaction by itself, and makes MULTI … EXEC a strong transaction.
    pub strong: bool,
    /// Whether it can change its key.
    pub update: bool,
    /// Kind, below 64. The same in all spaces.
    pub kind: u8,
    /// Kinds that it conflicts with on the same key in strong transactions, one bit each. Symmetric
    /// among operations of one space.
    pub conflicts: u64,
}

impl Class {
    /// Returns the kind for certification.
    pub fn as_kind(self) -> Kind {
        Kind { number: self.kind, conflicts: self.conflicts }
    }
}

/// Strong operations and conflicts of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Strong operations, one bit each.
    pub(super) strong: u64,
    /// For each operation, the operations with which it conflicts. Symmetric.
    pub(super) conflicts: [u64; Operation::ALL.len()],
}

impl Relation {
    /// Returns the relation of a level without declarations. The level determines the strong
    /// operations; among those, a read and an update of a key conflict, and so do two updates.
    pub fn of(level: Level) -> Relation {
        let strong = all_where(|operation| match level {
            Level::Linearizable => true,
            Level::Por => operation.is_update(),
            Level::PcPsi
            | Level::Quorum
            | Level::LocalQuorum
            | Level::Causal
            | Level::Speculative
            | Level::Eventual => false,
        });
        Relation::among(strong, conflict_by_default)
    }

    /// Creates a relation in which strong operations conflict if `conflict` holds, which must be
    /// symmetric; WATCH and SETNX conflict in addition, as the module describes.
    pub(super) fn among(strong: u64, conflict: impl Fn(Operation, Operation) -> bool) -> Relation {
        let is_strong = |operation: Operation| strong & operation.bit() != 0;
        let looks =
            |one: Operation, other: Operation| looks(one) && !is_strong(one) && other.is_update();
        let conflicts = |one| {
            all_where(|other| {
                (is_strong(one) && is_strong(other) && conflict(one, other))
                    || looks(one, other)
                    || looks(other, one)
            })
        };
        Relation { strong, conflicts: Operation::ALL.map(conflicts) }
    }

    /// Returns the relation with the same strong operations and no declared pairs.
    pub(crate) fn without_pairs(&self) -> Relation {
        Relation::among(self.strong, conflict_by_default)
    }

    /// Returns the certification class of an operation. `command` is the client's command.
    pub fn class_of(&self, command: CommandId, op: &Op) -> Class {
        let operation = of(command, op);
        Class {
            strong: self.strong & operation.bit() != 0,
            update: operation.is_update(),
            kind: operation as u8,
            conflicts: self.conflicts[operation as usize],
        }
    }

    /// Returns whether a command is strong; `None` if it does not act on a key.
    pub fn is_strong(&self, command: CommandId) -> Option<bool> {
        Some(self.strong & named(command)?.bit() != 0)
    }

    /// Returns the strong commands, one name for all commands with the same operation.
    pub fn strong(&self) -> Vec<&'static str> {
        self.strong_operations().map(Operation::name).collect()
    }

    /// Returns the pairs of strong commands that conflict, each once.
    pub fn conflicts(&self) -> Vec<[&'static str; 2]> {
        let mut pairs = Vec::new();
        for one in self.strong_operations() {
            let others = self.strong_operations().filter(|other| *other as u8 >= one as u8);
            let others = others.filter(|other| self.conflicts[one as usize] & other.bit() != 0);
            pairs.extend(others.map(|other| [one.name(), other.name()]));
        }
        pairs
    }

    /// Returns pairs that, together with the strong commands, declare this relation in a
    /// configuration; empty if none are needed. Uses `*` for the other command where possible,
    /// because a configuration accepts no pair of commands for different types.
    pub fn pairs(&self) -> Vec<[&'static str; 2]> {
        let conflict =
            |one: Operation, other: Operation| self.conflicts[one as usize] & other.bit() != 0;
        let with_all = |one: Operation| {
            let mut others = self.strong_operations();
            others.all(|other| conflict(one, other) || !conflict_by_default(one, other))
        };
        if self.strong_operations().all(with_all) {
            return Vec::new();
        }
        let mut pairs = Vec::new();
        for one in self.strong_operations() {
            if with_all(one) {
                pairs.push([one.name(), ANY]);
                continue;
            }
            let others = self.strong_operations().filter(|other| {
                let meet = one.needs().is_none_or(|of| other.needs().is_none_or(|to| of == to));
                meet && conflict(one, *other) && (with_all(*other) || *other as u8 >= one as u8)
            });
            pairs.extend(others.map(|other| [one.name(), other.name()]));
        }
        pairs
    }

    /// Returns the strong operations that have a name of their own.
    fn strong_operations(&self) -> impl Iterator<Item = Operation> {
        let strong = |operation: &Operation| self.strong & operation.bit() != 0;
        Operation::ALL
            .into_iter()
            .filter(|operation| *operation != Operation::Turned)
            .filter(strong)
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "strong {}, conflicts", self.strong().join(" "))?;
        self.conflicts().iter().try_for_each(|[one, other]| write!(f, " {one}+{other}"))
    }
}

/// Returns whether two operations conflict in the absence of declarations, because their order can
/// make a difference.
pub(super) fn conflict_by_default(one: Operation, other: Operation) -> bool {
    one.is_update() || other.is_update()
}

/// Returns the operations for which a predicate holds, one bit each.
pub(super) fn all_where(holds: impl Fn(Operation) -> bool) -> u64 {
    let found = Operation::ALL.into_iter().filter(|operation| holds(*operation));
    found.fold(0, |all, operation| all | operation.bit())
}

#[cfg(test)]
mod tests {
    use super::super::Declared;
    use super::super::operation::tests::op_of;
    use super::*;

    fn declared(strong: &[&str], pairs: &[[&str; 2]]) -> Relation {
        let mut declared = Declared::default();
        strong.iter().for_each(|name| declared.strong(name).unwrap());
        pairs.iter().for_each(|[one, other]| declared.conflict(one, other).unwrap());
        declared.relation()
    }

    fn class(relation: &Relation, line: &str) -> Class {
        let (command, op) = op_of(line);
        relation.class_of(command, &op)
    }

    fn is_strong(relation: &Relation, line: &str) -> bool {
        class(relation, line).strong
    }

    fn conflict(relation: &Relation, one: &str, other: &str) -> bool {
        let (one, other) = (class(relation, one), class(relation, other));
        let named = one.conflicts >> other.kind & 1 == 1;
        assert_eq!(named, other.conflicts >> one.kind & 1 == 1, "both must say so");
        named
    }

    #[test]
    fn without_a_declaration_the_level_says_what_is_strong() {
        for (level, read, update) in [
            (Level::Linearizable, true, true),
            (Level::Por, false, true),
            (Level::Causal, false, false),
            (Level::Eventual, false, false),
        ] {
            let relation = Relation::of(level);
            for line in ["GET k", "EXISTS k", "HMGET k f", "SCARD k", "TYPE k"] {
                assert_eq!(is_strong(&relation, line), read, "{level} {line}");
            }
            for line in ["SET k v", "DEL k", "INCR k", "INCRBY k -1", "SREM k e", "HINCRBY k f 1"] {
                assert_eq!(is_strong(&relation, line), update, "{level} {line}");
            }
            assert_eq!(conflict(&relation, "GET k", "SET k v"), read && update, "{level}");
            assert_eq!(conflict(&relation, "INCR k", "DECR k"), update, "{level}");
            assert!(
                !conflict(&relation, "GET k", "GET k") && !conflict(&relation, "GET k", "TYPE k")
            );
        }
        assert_eq!(declared(&[], &[]), Relation::of(Level::Por));
        assert!(class(&Relation::of(Level::Por), "SET k v").update);
        assert!(!class(&Relation::of(Level::Por), "GET k").update);
    }

    #[test]
    fn a_name_means_all_commands_that_do_the_same() {
        let relation = declared(&["decrby", "HGET", "MSET"], &[]);
        for line in [
            "DECRBY k 1",
            "DECR k",
            "INCRBY k -1",
            "DECRBY k -1",
            "HGET k f",
            "HMGET k f g",
            "SET k v",
        ] {
            assert!(is_strong(&relation, line), "{line}");
        }
        for line in ["INCR k", "INCRBY k 1", "GET k", "HGETALL k", "DEL k"] {
            assert!(!is_strong(&relation, line), "{line}");
        }
        let relation = declared(&["INCR"], &[]);
        assert!(is_strong(&relation, "INCRBY k -1") && is_strong(&relation, "DECRBY k -1"));
        assert!(!is_strong(&relation, "DECRBY k 1"));
    }

    #[test]
    fn pairs_say_what_conflicts() {
        let pairs = [["DECRBY", "DECRBY"], ["SET", "*"]];
        let relation = declared(&["DECRBY", "SET", "SADD", "GET"], &pairs);
        assert!(conflict(&relation, "DECR k", "INCRBY k -1"));
        assert!(
            conflict(&relation, "SET k v", "SET k v") && conflict(&relation, "SET k v", "DECR k")
        );
        assert!(conflict(&relation, "SET k v", "GET k"));
        // No pair names them, so they conflict as without any pairs.
        assert!(
            conflict(&relation, "SADD k e", "SADD k e") && conflict(&relation, "GET k", "DECR k")
        );
        // They are not strong, so they conflict with nothing, not even in a strong transaction.
        for line in ["DECR k", "SET k v", "INCR k", "TYPE k", "GET k"] {
            assert!(!conflict(&relation, "INCR k", line) && !conflict(&relation, "TYPE k", line));
        }

        let both = ["DECRBY", "INCRBY", "GET"];
        let relation = declared(&both, &[["DECRBY", "DECRBY"], ["INCRBY", "GET"]]);
        assert!(
            !conflict(&relation, "DECR k", "INCR k") && !conflict(&relation, "INCR k", "INCR k")
        );
        assert!(!conflict(&relation, "DECR k", "GET k") && conflict(&relation, "INCR k", "GET k"));
        // INCRBY with a negative number counts as INCRBY and as DECRBY, because both are strong.
        for line in ["DECR k", "GET k", "INCRBY k -1"] {
            assert!(conflict(&relation, "INCRBY k -1", line), "{line}");
        }
        assert_eq!(
            relation,
            declared(&both, &[["GET", "INCR"], ["DECR", "DECRBY"], ["INCR", "GET"]])
        );
    }

    #[test]
    fn watched_keys_conflict_with_every_update_of_any_level() {
        let look = |relation: &Relation| relation.class_of(CommandId::Watch, &Op::Digest);
        let undeclared = Level::ALL.map(Relation::of);
        for relation in undeclared.iter().chain([&declared(&["DECRBY"], &[["DECRBY", "DECRBY"]])]) {
            let look = look(relation);
            for line in ["SET k v", "DEL k", "INCR k", "DECR k", "SREM k e", "SETNX k v"] {
                let update = class(relation, line);
                assert_eq!(look.conflicts >> update.kind & 1, 1, "{relation} {line}");
                assert_eq!(update.conflicts >> look.kind & 1, 1, "{relation} {line}");
                assert!(conflict(relation, "SETNX k v", line), "{relation} {line}");
            }
            for line in ["GET k", "EXISTS k", "HGETALL k"] {
                assert_eq!(look.conflicts >> class(relation, line).kind & 1, 0, "{relation}");
            }
            assert_eq!(look.conflicts >> look.kind & 1, 0, "{relation}");
        }
        // Where SETNX is strong, its pairs determine its conflicts.
        let relation = declared(&["SETNX", "DEL"], &[["SETNX", "SETNX"], ["DEL", "DEL"]]);
        assert!(!conflict(&relation, "SETNX k v", "DEL k"));
        assert!(!conflict(&relation, "SETNX k v", "SET k v"));
    }

    #[test]
    fn without_pairs_everything_strong_conflicts_and_nothing_else() {
        let relation = declared(&["DECRBY", "INCRBY"], &[["DECRBY", "DECRBY"]]).without_pairs();
        assert!(conflict(&relation, "INCR k", "INCR k") && conflict(&relation, "INCR k", "DECR k"));
        assert!(!conflict(&relation, "INCR k", "SET k v"));
    }

    #[test]
    fn no_read_conflicts_with_a_read() {
        let relation = declared(&["GET", "EXISTS", "SET"], &[["GET", "*"], ["*", "*"]]);
        assert!(
            !conflict(&relation, "GET k", "EXISTS k") && conflict(&relation, "GET k", "SET k v")
        );
    }

    #[test]
    fn a_relation_is_declared_again_by_its_commands_and_pairs() {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for relation in [
            declared(&[], &[]),
            declared(&["DECRBY"], &[]),
            declared(&["SADD", "HSET", "GET"], &[]),
            declared(&["DECRBY", "INCRBY"], &[["DECRBY", "DECRBY"], ["INCRBY", "INCRBY"]]),
            declared(&["SET", "DECRBY", "SADD"], &[["SET", "*"], ["DECRBY", "DECRBY"]]),
            // SADD conflicts with all, because no pair names it.
            declared(&["SET", "DECRBY", "SADD"], &[["SET", "SET"], ["DECRBY", "SET"]]),
            declared(&["SET", "INCR", "DECR"], &[["SET", "*"], ["SET", "INCR"], ["SET", "DECR"]]),
            declared(&["SETNX", "DEL", "HGET"], &[["SETNX", "SETNX"], ["DEL", "HGET"]]),
        ] {
            let (strong, pairs) = (relation.strong(), relation.pairs());
            assert_eq!(declared(&strong, &pairs), relation, "{strong:?} {pairs:?}");
            let conflicts: Vec<_> =
                relation.conflicts().iter().map(|pair| pair.map(str::to_owned)).collect();
            let strong: Vec<String> = strings(&strong);
            assert_eq!(Relation::named(&strong, &conflicts), Some(relation));
        }
        assert!(declared(&["SADD", "HSET"], &[]).pairs().is_empty());
        assert_eq!(Relation::named(&["MYSTERY".to_owned()], &[]), None);
    }

    #[test]
    fn a_relation_is_printed_as_the_conflicts_that_it_implies() {
        let pairs = [["SET", "*"], ["DECR", "DECRBY"]];
        let relation = declared(&["DECRBY", "SET"], &pairs);
        assert_eq!(
            relation.to_string(),
            "strong SET DECRBY, conflicts SET+SET SET+DECRBY DECRBY+DECRBY"
        );
        let spelled = [["DECRBY", "DECRBY"], ["SET", "SET"], ["DECRBY", "SET"]];
        assert_eq!(relation, declared(&["SET", "DECR"], &spelled));
    }
}
