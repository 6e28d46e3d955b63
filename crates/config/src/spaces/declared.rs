//! Declarations of strong commands and conflicts in a configuration, and their checks.

use std::fmt;

use solera_commands::{COMMANDS, lookup, similar};
use solera_data::{Operation, Type};

use super::operation::named;
use super::relation::{ANY, Relation, all_where, conflict_by_default};

/// Declarations for a space of level `por` or `speculative`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    /// Strong operations; `None` if no command is named, and then every update is strong.
    strong: Option<u64>,
    /// Operations that occur in a declared pair of conflicting commands. All others conflict as if
    /// no pair were declared.
    paired: u64,
    /// For each operation, the operations with which it forms a declared pair.
    pairs: [u64; Operation::ALL.len()],
}

impl Declared {
    /// Creates the declarations of a space in which only named commands are strong.
    pub(crate) fn only_named() -> Declared {
        Declared { strong: Some(0), ..Declared::default() }
    }

    /// Declares a strong command. All of them must be declared before the first pair.
    ///
    /// # Errors
    /// The command does not act on a key.
    pub(crate) fn strong(&mut self, name: &str) -> Result<(), RelationError> {
        if name == ANY {
            return Err(RelationError::AnyStrong);
        }
        *self.strong.get_or_insert(0) |= operation(name)?.bit();
        Ok(())
    }

    /// Declares that two commands conflict, in any order; `*` is any command.
    ///
    /// # Errors
    /// Neither is strong, or their order cannot make a difference.
    pub(crate) fn conflict(&mut self, one: &str, other: &str) -> Result<(), RelationError> {
        let side = |name: &str| if name == ANY { Ok(None) } else { operation(name).map(Some) };
        let sides = [side(one)?, side(other)?];
        let weak = |side: &Option<Operation>| side.filter(|named| !self.is_strong(*named));
        match sides.each_ref().map(weak) {
            [Some(one), Some(other)] if one != other => {
                return Err(RelationError::NeitherStrong(one.name(), other.name()));
            }
            [Some(weak), _] | [_, Some(weak)] => return Err(RelationError::NotStrong(weak.name())),
            [None, None] => {}
        }
        if let [Some(one), Some(other)] = sides {
            if let (Some(first), Some(second)) = (one.needs(), other.needs())
                && first != second
            {
                let (first, second) = ((one.name(), first), (other.name(), second));
                return Err(RelationError::OtherType(first, second));
            }
            if !conflict_by_default(one, other) {
                return Err(RelationError::TwoReads(one.name(), other.name()));
            }
        }
        let [one, other] = sides;
        self.paired |= one.map_or(0, Operation::bit) | other.map_or(0, Operation::bit);
        let meant = |side: Option<Operation>, operation| side.is_none_or(|side| side == operation);
        for first in Operation::ALL {
            for second in Operation::ALL {
                if meant(one, first) && meant(other, second) {
                    self.pairs[first as usize] |= second.bit();
                    self.pairs[second as usize] |= first.bit();
                }
            }
        }
        Ok(())
    }

    /// Creates the declaration of exactly these strong commands and conflicts.
    ///
    /// # Errors
    /// A command does not act on a key.
    pub(super) fn exactly(
        strong: &[String],
        conflicts: &[[String; 2]],
    ) -> Result<Declared, RelationError> {
        let mut declared = Declared::default();
        for name in strong {
            declared.strong(name)?;
        }
        declared.paired = declared.strong.unwrap_or(0);
        for [one, other] in conflicts {
            let (one, other) = (operation(one)?, operation(other)?);
            declared.pairs[one as usize] |= other.bit();
            declared.pairs[other as usize] |= one.bit();
        }
        Ok(declared)
    }

    /// Checks that a strong command conflicts with some command.
    ///
    /// # Errors
    /// It conflicts with none, so it need not be strong.
    pub(crate) fn check(&self, name: &str) -> Result<(), RelationError> {
        let named = operation(name)?;
        let mut others = Operation::ALL.into_iter().filter(|other| self.is_strong(*other));
        match others.any(|other| self.in_conflict(named, other)) {
            true => Ok(()),
            false => Err(RelationError::Idle(named.name())),
        }
    }

    /// Returns the relation of the declared strong commands in which no two of them conflict.
    pub(crate) fn without_conflicts(&self) -> Relation {
        Relation::among(self.strong_operations(), |_, _| false)
    }

    /// Returns the relation that follows from the declarations.
    pub(crate) fn relation(&self) -> Relation {
        Relation::among(self.strong_operations(), |one, other| {
            let others = || self.meanings(other).into_iter().flatten();
            let mut ones = self.meanings(one).into_iter().flatten();
            ones.any(|one| others().any(|other| self.in_conflict(one, other)))
        })
    }

    /// Returns the strong operations, one bit each.
    fn strong_operations(&self) -> u64 {
        all_where(|operation| {
            self.meanings(operation).into_iter().flatten().any(|named| self.is_strong(named))
        })
    }

    /// Returns the operations whose declarations apply to an operation: itself, except that INCRBY
    /// or DECRBY with a negative number counts as both of them if both are strong, as the strong
    /// one if one is, and otherwise as DECRBY.
    fn meanings(&self, operation: Operation) -> [Option<Operation>; 2] {
        if operation != Operation::Turned {
            return [Some(operation), None];
        }
        match [Operation::Add, Operation::Take].map(|named| (named, self.is_strong(named))) {
            [(add, true), (take, true)] => [Some(add), Some(take)],
            [(add, true), _] => [Some(add), None],
            [_, (take, _)] => [Some(take), None],
        }
    }

    fn is_strong(&self, named: Operation) -> bool {
        self.strong.map_or(named.is_update(), |strong| strong & named.bit() != 0)
    }

    /// Returns whether two strong operations conflict. An operation that no pair names conflicts as
    /// it does by default.
    fn in_conflict(&self, one: Operation, other: Operation) -> bool {
        let declared = |named: Operation| self.paired & named.bit() != 0;
        let in_pair = self.pairs[one as usize] & other.bit() != 0;
        conflict_by_default(one, other) && (in_pair || !declared(one) || !declared(other))
    }
}

impl Relation {
    /// Returns the relation of these strong commands and conflicts, in the form of
    /// [`Relation::strong`] and [`Relation::conflicts`]; `None` if one of them is unknown.
    pub fn named(strong: &[String], conflicts: &[[String; 2]]) -> Option<Relation> {
        Some(Declared::exactly(strong, conflicts).ok()?.relation())
    }
}

/// Returns the operation of a command's name.
fn operation(name: &str) -> Result<Operation, RelationError> {
    let Some(command) = lookup(name.as_bytes()) else {
        let on_keys = COMMANDS.iter().filter(|command| named(command.id).is_some());
        let near = similar(name, on_keys.map(|command| command.name));
        return Err(RelationError::Unknown(name.to_owned(), near.map(str::to_ascii_uppercase)));
    };
    named(command.id).ok_or_else(|| RelationError::NoKey(command.name.to_ascii_uppercase()))
}

/// Error of contradictory declarations of strong commands and conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelationError {
    /// No command has this name; a similar one may be meant.
    Unknown(String, Option<String>),
    /// The command does not act on a key.
    NoKey(String),
    /// Every command is declared strong.
    AnyStrong,
    /// Neither command of a pair is strong.
    NeitherStrong(&'static str, &'static str),
    /// A command of a pair is not strong.
    NotStrong(&'static str),
    /// The commands of a pair are for keys of different types.
    OtherType((&'static str, Type), (&'static str, Type)),
    /// The commands of a pair change nothing.
    TwoReads(&'static str, &'static str),
    /// A strong command conflicts with none.
    Idle(&'static str),
}

impl fmt::Display for RelationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelationError::Unknown(name, near) => {
                write!(f, "there is no command '{name}'")?;
                near.iter().try_for_each(|near| write!(f, "; did you mean {near}?"))
            }
            RelationError::NoKey(name) => write!(f, "{name} does not act on a key"),
            RelationError::AnyStrong => f.write_str(
                "'*' is permitted only in pairs; where all commands are strong, the level is 'linearizable'",
            ),
            RelationError::NeitherStrong(one, other) => {
                write!(f, "neither {one} nor {other} is strong, so that they cannot conflict")
            }
            RelationError::NotStrong(name) => write!(
                f,
                "{name} is not strong, so that a pair with it has no effect; name it in strong, or \
                 leave the pair out"
            ),
            RelationError::OtherType((one, first), (other, second)) => write!(
                f,
                "{one} is for a {} and {other} for a {}, so that they never act on one key",
                first.name(),
                second.name()
            ),
            RelationError::TwoReads(one, other) if one == other => {
                write!(f, "{one} changes nothing, so that the order of two of them does not matter")
            }
            RelationError::TwoReads(one, other) => {
                write!(f, "{one} and {other} change nothing, so that their order does not matter")
            }
            RelationError::Idle(name) => write!(
                f,
                "{name} is strong and conflicts with nothing: no strong command changes what it reads"
            ),
        }
    }
}

impl std::error::Error for RelationError {}
