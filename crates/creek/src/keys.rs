//! Procedures that are lists of operations on keys, as commands and `MULTI` of Redis are.

use serde::{Deserialize, Serialize};
use solera_data::{Context, Dot, Key, Op, OpError, Outcome, State, View, execute};
use solera_time::{Origin, Timestamp, Vector};

use crate::object::{Access, Procedures};

/// Procedures that execute operations on keys, one after another. An operation that fails changes
/// nothing, and the later ones are executed nevertheless, as in Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyProcedures;

/// Value of a key: its state, and the number of its changes.
///
/// The operations of a space have one order, so that each change has seen all earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeyValue {
    changes: u64,
    state: State,
}

impl KeyValue {
    /// Executes an operation.
    fn execute(&mut self, op: &Op) -> Result<Outcome, OpError> {
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

    /// Returns the state.
    pub fn state(&self) -> &State {
        &self.state
    }
}

impl Procedures for KeyProcedures {
    type Operation = Vec<(Key, Op)>;
    type Value = KeyValue;
    type Response = Vec<Result<Outcome, OpError>>;

    fn execute(
        &self,
        operation: &Self::Operation,
        registers: &mut dyn Access<KeyValue>,
    ) -> Self::Response {
        let on_key = |(key, op): &(Key, Op)| {
            let mut value = registers.read(key.as_bytes()).unwrap_or_default();
            let outcome = value.execute(op);
            if op.is_update() && outcome.is_ok() {
                let value = (!value.state.is_empty()).then_some(value);
                registers.write(key.as_bytes(), value);
            }
            outcome
        };
        operation.iter().map(on_key).collect()
    }

    fn is_read_only(&self, operation: &Self::Operation) -> bool {
        operation.iter().all(|(_, op)| !op.is_update())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use solera_data::Value;

    use super::*;

    #[derive(Default)]
    struct Registers(BTreeMap<Vec<u8>, KeyValue>);

    impl Access<KeyValue> for Registers {
        fn read(&self, key: &[u8]) -> Option<KeyValue> {
            self.0.get(key).cloned()
        }

        fn write(&mut self, key: &[u8], value: Option<KeyValue>) {
            match value {
                Some(value) => self.0.insert(key.to_vec(), value),
                None => self.0.remove(key),
            };
        }
    }

    fn key(name: &str) -> Key {
        Key::from(name.as_bytes())
    }

    fn value(text: &str) -> Value {
        Value::from(text.as_bytes())
    }

    #[test]
    fn operations_see_those_before_them() {
        let mut registers = Registers::default();
        let operations = vec![
            (key("n"), Op::IncrBy(5)),
            (key("n"), Op::IncrBy(-2)),
            (key("n"), Op::Get),
            (key("s"), Op::SetAdd(vec![value("a"), value("b")])),
            (key("s"), Op::SetRemove(vec![value("a")])),
            (key("s"), Op::SetMembers),
            (key("n"), Op::SetAdd(vec![value("a")])),
            (key("n"), Op::Set(value("x"))),
            (key("n"), Op::Get),
        ];
        let outcomes = KeyProcedures.execute(&operations, &mut registers);
        let expected = [
            Ok(Outcome::Int(5)),
            Ok(Outcome::Int(3)),
            Ok(Outcome::Bulk(value("3"))),
            Ok(Outcome::Int(2)),
            Ok(Outcome::Int(1)),
            Ok(Outcome::Members(vec![value("b")])),
            Err(OpError::WrongType),
            Ok(Outcome::Ok),
            Ok(Outcome::Bulk(value("x"))),
        ];
        assert_eq!(outcomes, expected);
        let delete = vec![(key("n"), Op::Delete), (key("s"), Op::Delete)];
        KeyProcedures.execute(&delete, &mut registers);
        assert!(registers.0.is_empty(), "removed keys take no memory");
    }
}
