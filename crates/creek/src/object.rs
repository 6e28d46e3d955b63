//! The state on which operations are executed (Creek Alg. 2).

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::registers::Registers;

/// Name of a register.
pub type RegisterKey = Vec<u8>;

/// Deterministic operations on registers.
///
/// An operation is a composition of reads and writes of registers and local computation. Its
/// response and writes must depend on nothing but the operation and the values that it reads,
/// because every site executes it, and may execute it several times.
pub trait Procedures: Send + Sync + 'static {
    /// An operation with its arguments.
    type Operation: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Value of a register.
    type Value: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// Response to an operation.
    type Response: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    /// Executes an operation.
    fn execute(
        &self,
        operation: &Self::Operation,
        registers: &mut dyn Access<Self::Value>,
    ) -> Self::Response;

    /// Returns whether an operation never writes. Sites do not broadcast weak operations that do
    /// not write.
    fn is_read_only(&self, operation: &Self::Operation) -> bool;

    /// Returns whether the execution of an operation is so short that a job for it is not worth
    /// its cost. Machines execute short operations themselves. By default all are short.
    fn is_short(&self, _operation: &Self::Operation) -> bool {
        true
    }

    /// Returns classes of an operation. Two operations with a common class probably conflict, so a
    /// machine does not execute them at the same time. The classes change no result.
    fn classes(&self, _operation: &Self::Operation) -> Vec<u64> {
        Vec::new()
    }

    /// Returns whether a register is a key of clients. Others are no part of the number of keys.
    fn is_key(_register: &[u8]) -> bool {
        true
    }

    /// Returns how long the execution of an operation occupies a core in virtual time.
    fn cost(&self, _operation: &Self::Operation) -> Duration {
        Duration::ZERO
    }
}

/// Access of an operation to registers.
pub trait Access<V> {
    /// Returns the value of a register; `None` if it has none.
    fn read(&self, key: &[u8]) -> Option<V>;

    /// Sets the value of a register, or removes it.
    fn write(&mut self, key: &[u8], value: Option<V>);

    /// Adds a change to a register: its value becomes what `add` makes of the value and the change.
    /// Two operations that add to a register and do not read it do not conflict. The sum of two
    /// changes must have the effect of both, so `add` is associative. All operations use the same
    /// `add` for a register.
    fn merge(&mut self, key: &[u8], change: V, add: Add<V>) {
        let value = add(self.read(key), &change);
        self.write(key, Some(value));
    }
}

/// Adds a change to the value of a register. A register without a value has its initial value.
pub type Add<V> = fn(Option<V>, &V) -> V;

/// Registers without versions, for tests and tools that execute operations one after another.
impl<V: Clone> Access<V> for BTreeMap<RegisterKey, V> {
    fn read(&self, key: &[u8]) -> Option<V> {
        self.get(key).cloned()
    }

    fn write(&mut self, key: &[u8], value: Option<V>) {
        match value {
            Some(value) => self.insert(key.to_vec(), value),
            None => self.remove(key),
        };
    }
}

/// Registers and their values (Creek Alg. 2 l. 1).
#[derive(Debug)]
pub(crate) struct StateObject<V> {
    registers: Registers<RegisterKey, V>,
}

/// Former values of the registers that an execution wrote (Creek Alg. 2 l. 2, l. 4, `undoMap`).
#[derive(Debug)]
pub(crate) struct Undo<V>(BTreeMap<RegisterKey, Option<V>>);

struct Execution<'a, V> {
    registers: &'a mut Registers<RegisterKey, V>,
    undo: BTreeMap<RegisterKey, Option<V>>,
}

impl<V: Clone + Serialize> Access<V> for Execution<'_, V> {
    fn read(&self, key: &[u8]) -> Option<V> {
        self.registers.values().get(key).cloned()
    }

    fn write(&mut self, key: &[u8], value: Option<V>) {
        let before = match value {
            Some(value) => self.registers.insert(key.to_vec(), value),
            None => self.registers.remove(key),
        };
        // Creek Alg. 2 l. 9–10: only the first write of a register finds the value from before the
        // execution.
        self.undo.entry(key.to_vec()).or_insert(before);
    }
}

impl<V: Clone + Serialize> StateObject<V> {
    pub(crate) fn new() -> StateObject<V> {
        StateObject { registers: Registers::new() }
    }

    /// Executes an operation (Creek Alg. 2 l. 3–14).
    pub(crate) fn execute<P: Procedures<Value = V>>(
        &mut self,
        procedures: &P,
        operation: &P::Operation,
    ) -> (P::Response, Undo<V>) {
        let registers = &mut self.registers;
        let mut execution = Execution { registers, undo: BTreeMap::new() };
        let response = procedures.execute(operation, &mut execution);
        (response, Undo(execution.undo))
    }

    /// Revokes the last execution that has not been revoked (Creek Alg. 2 l. 15–19).
    pub(crate) fn rollback(&mut self, undo: Undo<V>) {
        for (key, before) in undo.0 {
            self.set(key, before);
        }
    }

    /// Sets the value of a register without the possibility to revoke it.
    pub(crate) fn set(&mut self, key: RegisterKey, value: Option<V>) {
        match value {
            Some(value) => self.registers.insert(key, value),
            None => self.registers.remove(&key),
        };
    }

    pub(crate) fn registers(&self) -> &Registers<RegisterKey, V> {
        &self.registers
    }

    /// Returns the registers as they were before executions, which are listed from the last one to
    /// the first.
    pub(crate) fn before<'a>(
        &self,
        executions: impl Iterator<Item = &'a Undo<V>>,
    ) -> BTreeMap<RegisterKey, V>
    where
        V: 'a,
    {
        let mut earlier = StateObject { registers: self.registers.clone() };
        executions.for_each(|undo| earlier.rollback(Undo(undo.0.clone())));
        earlier.registers.into_values()
    }
}

impl<V> Undo<V> {
    /// Returns the record of an execution that wrote nothing.
    pub(crate) fn nothing() -> Undo<V> {
        Undo(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use solera_random::Random;

    use super::*;

    /// Writes each value in turn; `None` removes the register. The response lists what each write
    /// replaced.
    struct Swaps;

    impl Procedures for Swaps {
        type Operation = Vec<(u8, Option<u64>)>;
        type Value = u64;
        type Response = Vec<Option<u64>>;

        fn execute(
            &self,
            swaps: &Self::Operation,
            registers: &mut dyn Access<u64>,
        ) -> Self::Response {
            let swap = |(key, value): &(u8, Option<u64>)| {
                let before = registers.read(&[*key]);
                registers.write(&[*key], *value);
                before
            };
            swaps.iter().map(swap).collect()
        }

        fn is_read_only(&self, swaps: &Self::Operation) -> bool {
            swaps.is_empty()
        }
    }

    #[test]
    fn alg_2_rollback_restores_what_every_execution_found() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let mut object = StateObject::new();
            let mut undone = Vec::new();
            for _ in 0..40 {
                if random.one_in(3) {
                    if let Some((before, undo)) = undone.pop() {
                        object.rollback(undo);
                        assert_eq!(object.registers.values(), &before);
                    }
                    continue;
                }
                let before = object.registers.values().clone();
                let count = random.below(5);
                let swap =
                    |_| (random.below(4) as u8, (random.below(3) > 0).then(|| random.draw()));
                let swaps = (0..count).map(swap).collect();
                let (replaced, undo) = object.execute(&Swaps, &swaps);
                let first = swaps.first().map(|(key, _)| before.get(&[*key][..]).copied());
                assert_eq!(replaced.first().copied(), first);
                undone.push((before, undo));
            }
            let undos = undone.iter().rev().map(|(_, undo)| undo);
            assert_eq!(
                object.before(undos),
                undone.first().map_or_else(
                    || object.registers.values().clone(),
                    |(before, _)| before.clone()
                )
            );
        }
    }
}
