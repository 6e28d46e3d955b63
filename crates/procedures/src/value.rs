//! Values of registers.

use serde::{Deserialize, Serialize};
use solera_data::{
    Context, Dot, Op, OpError, Outcome, State, Type, Value, View, execute, stamp, time_of_stamp,
};
use solera_time::{Origin, Timestamp, Vector};

/// Result of an operation on a key.
pub type KeyResult = Result<Outcome, OpError>;

/// Time of the stamps that stand for the next element of a list.
const NEXT: u64 = u64::MAX;

/// Returns a name for a field in [`Op::HashSet`] that stands for the next element of a list. If an
/// operation adds several elements, their numbers differ, and they are added in ascending order.
///
/// [`KeyValue::execute`] gives the element a stamp with the next position in the list instead of a
/// time. So the elements have the order of the operations, and need no clock.
pub fn next_element(number: u64) -> Value {
    stamp(NEXT, number)
}

fn is_next(field: &Value) -> bool {
    time_of_stamp(field) == Some(NEXT)
}

/// Value of a key: its state, and what names later changes.
///
/// The operations of a space have one order, so each change has seen all earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyValue {
    /// Number of changes.
    changes: u64,
    /// Last position that an element of the list was given.
    position: u64,
    state: State,
}

impl KeyValue {
    /// Creates a string.
    pub(crate) fn of_bytes(bytes: Value) -> KeyValue {
        let mut value = KeyValue::default();
        value.apply(&Op::Set(bytes)).expect("SET replaces anything");
        value
    }

    /// Executes an operation. One that fails changes nothing. Fields that stand for the [next
    /// element](next_element) of a list get its position as their names.
    ///
    /// # Errors
    /// Fails as [`execute`] does, and with [`OpError::Overflow`] if there are no more positions.
    pub fn execute(&mut self, op: &Op) -> KeyResult {
        let Op::HashSet(pairs) = op else { return self.apply(op) };
        if !pairs.iter().any(|(field, _)| is_next(field)) {
            return self.apply(op);
        }
        let mut pairs = pairs.clone();
        let last = self.state.last_stamp().and_then(|last| time_of_stamp(last));
        // A client may have added elements with greater names.
        let mut position = self.position.max(last.unwrap_or(0));
        let mut new: Vec<_> =
            pairs.iter_mut().map(|(field, _)| field).filter(|it| is_next(it)).collect();
        new.sort();
        for field in new {
            position =
                position.checked_add(1).filter(|next| *next < NEXT).ok_or(OpError::Overflow)?;
            *field = stamp(position, 0);
        }
        let outcome = self.apply(&Op::HashSet(pairs))?;
        self.position = position;
        Ok(outcome)
    }

    fn apply(&mut self, op: &Op) -> KeyResult {
        let (outcome, effect) = execute(op, &View::new(&self.state))?;
        if let Some(effect) = effect {
            let mut observed = Vector::zero(0);
            observed[Origin::Strong] = Timestamp(self.changes);
            self.changes += 1;
            let dot = Dot::of(Origin::Strong, Timestamp(self.changes));
            self.state.apply(&effect, Context { dot, observed: &observed });
            self.state.settle(&effect, dot);
        }
        Ok(outcome)
    }

    /// Executes an operation that only reads.
    ///
    /// # Errors
    /// Fails as [`execute`] does.
    pub fn read(&self, op: &Op) -> KeyResult {
        debug_assert!(!op.is_update());
        execute(op, &View::new(&self.state)).map(|(outcome, _)| outcome)
    }

    /// Returns the state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the visible type.
    pub fn kind(&self) -> Option<Type> {
        match self.read(&Op::Type) {
            Ok(Outcome::Type(kind)) => kind,
            _ => None,
        }
    }

    /// Returns the content as clients see it: a string, or all members or fields. Returns `None` if
    /// the key does not exist.
    pub fn content(&self) -> Option<Outcome> {
        let op = match self.kind()? {
            Type::String => Op::Get,
            Type::Set => Op::SetMembers,
            Type::Hash => Op::HashGetAll,
        };
        self.read(&op).ok()
    }

    /// Returns the number of changes since the key was created.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the content of the key's register; `None` if the key does not exist.
    pub(crate) fn into_register(self) -> Option<KeyValue> {
        (!self.state.is_empty()).then_some(self)
    }
}
