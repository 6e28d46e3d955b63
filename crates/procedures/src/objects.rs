//! Objects of a program as values of keys, while a call runs.

use std::collections::BTreeMap;

use solera_creek::Access;
use solera_data::{Op, OpError, Outcome, Type};
use solera_machine::codec;
use solera_program::codec::CodecError;
use solera_program::ir::Program;
use solera_program::keys::{self, CallError, describe, is_blind, operations_of, type_of};
use solera_program::run::{Refusal, RemoteCall};
use solera_program::types::Object;
use solera_program::value::Value;

use crate::call::Scope;
use crate::value::{KeyValue, next_element};

/// Fuel that an operation takes, besides that for its data.
const OPERATION: u64 = 50;
/// Number of bytes that are read or written for one unit of fuel.
const BYTES: usize = 64;
/// Number of elements or fields that are copied for one unit of fuel.
const ELEMENTS: usize = 4;

/// Values of the keys that a call has used. The registers stay unchanged until it has succeeded.
pub(crate) struct Objects<'a> {
    registers: &'a mut dyn Access<KeyValue>,
    scope: &'a Scope,
    program: &'a Program,
    values: BTreeMap<Vec<u8>, Held>,
    /// Fuel that is left for operations.
    fuel: u64,
}

struct Held {
    value: KeyValue,
    /// Number of changes of the key before the call.
    changes: u64,
}

/// Reason why a program gets no answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The interpreter receives the refusal, and the program fails.
    Refused(Refusal),
    /// The caller lacks a right.
    Denied(String),
    /// The operations have used all their fuel.
    Fuel,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(
        registers: &'a mut dyn Access<KeyValue>,
        scope: &'a Scope,
        program: &'a Program,
        fuel: u64,
    ) -> Objects<'a> {
        Objects { registers, scope, program, values: BTreeMap::new(), fuel }
    }

    /// Executes an operation on an object.
    pub(crate) fn perform(&mut self, call: &RemoteCall) -> Result<Value, Stop> {
        let object = &self.program.objects[call.object as usize];
        let on_object = keys::Call {
            program: self.program,
            object,
            op: call.op,
            args: &call.args,
            result: &call.result,
        };
        let handle = &*call.handle.key;
        let failed = |error| Stop::Refused(Refusal::Other(explain(error, handle, object)));
        let name = || next_element(0).to_vec();
        let op = on_object.on_key(name).map_err(failed)?;
        let key = self.scope.key(handle).map_err(refuse)?;
        for operation in operations_of(object, call.op) {
            if !self.scope.permits(operation, &key) {
                let (name, key) = (operation.name(), key.escape_ascii());
                return Err(Stop::Denied(format!(
                    "the caller may not run {name} on the key `{key}`"
                )));
            }
        }
        let outcome = self.execute(&key, &op, object);
        let outcome = outcome?.map_err(|why| refuse(why.explain(handle, object)))?;
        let answer = on_object.answer(outcome).map_err(failed)?;
        answer.ok_or(Stop::Refused(Refusal::Missing))
    }

    /// Executes an operation on a key.
    fn execute(
        &mut self,
        key: &[u8],
        op: &Op,
        object: &Object,
    ) -> Result<Result<Outcome, Wrong>, Stop> {
        self.spend(OPERATION + (op.size() / BYTES) as u64)?;
        self.read(key)?;
        let held = self.values.get_mut(key).expect("the value was read");
        if is_blind(op.operation())
            && let Some(found) = held.value.kind()
            && found != type_of(object)
        {
            return Ok(Err(Wrong::Type(found)));
        }
        let outcome = match op.is_update() {
            true => held.value.execute(op),
            false => held.value.read(op),
        };
        let outcome = outcome.map_err(|error| match (error, held.value.kind()) {
            (OpError::WrongType, Some(found)) => Wrong::Type(found),
            (error, _) => Wrong::Number(error),
        });
        if let Ok(outcome) = &outcome {
            self.spend(work(outcome))?;
        }
        Ok(outcome)
    }

    /// Reads a register, once.
    fn read(&mut self, key: &[u8]) -> Result<(), Stop> {
        if self.values.contains_key(key) {
            return Ok(());
        }
        let value = self.registers.read(key).unwrap_or_default();
        // The size in memory depends on the history of the value, and differs between sites.
        let copied = value.state().weight() / ELEMENTS + codec::encoded_bytes(&value) / BYTES;
        self.spend(copied as u64)?;
        let changes = value.changes();
        self.values.insert(key.to_vec(), Held { value, changes });
        Ok(())
    }

    fn spend(&mut self, fuel: u64) -> Result<(), Stop> {
        self.fuel = self.fuel.checked_sub(fuel).ok_or(Stop::Fuel)?;
        Ok(())
    }

    /// Returns whether the call has changed something.
    pub(crate) fn have_changed(&self) -> bool {
        self.values.values().any(Held::has_changed)
    }

    /// Writes what the call has changed.
    pub(crate) fn commit(self) {
        for (key, held) in self.values {
            if held.has_changed() {
                self.registers.write(&key, held.value.into_register());
            }
        }
    }
}

impl Held {
    fn has_changed(&self) -> bool {
        self.value.changes() != self.changes
    }
}

/// Returns the fuel for an outcome.
fn work(outcome: &Outcome) -> u64 {
    let of = |values: &mut dyn Iterator<Item = &solera_data::Value>| {
        let (count, bytes) =
            values.fold((0, 0), |(count, bytes), value| (count + 1, bytes + value.len()));
        (count / ELEMENTS + bytes / BYTES) as u64
    };
    match outcome {
        Outcome::Ok | Outcome::Nil | Outcome::Int(_) | Outcome::Type(_) => 0,
        Outcome::Bulk(value) => of(&mut std::iter::once(value)),
        Outcome::Values(values) => of(&mut values.iter().flatten()),
        Outcome::Members(values) => of(&mut values.iter()),
        Outcome::Pairs(pairs) => of(&mut pairs.iter().flat_map(|(field, value)| [field, value])),
    }
}

/// Reason why a key cannot be used as an object.
#[derive(Debug)]
enum Wrong {
    /// The key has this type.
    Type(Type),
    /// An operation fails on the value, for example because a number overflows.
    Number(OpError),
}

impl Wrong {
    fn explain(&self, key: &str, object: &Object) -> String {
        let wanted = describe(object);
        match self {
            Wrong::Type(found) => format!("`{key}` holds a {}, not {wanted}", found.name()),
            Wrong::Number(OpError::Overflow) if *object == Object::Counter => {
                format!("the counter `{key}` would not fit 64 bits")
            }
            Wrong::Number(OpError::Overflow) => format!("the list `{key}` takes no more elements"),
            Wrong::Number(OpError::NotAnInteger) => {
                format!("`{key}` holds a string that is not a number, not {wanted}")
            }
            Wrong::Number(other) => format!("`{key}`: {other}"),
        }
    }
}

fn refuse(reason: String) -> Stop {
    Stop::Refused(Refusal::Other(reason))
}

/// Explains why an operation on an object could not be translated to its key.
fn explain(error: CallError, key: &str, object: &Object) -> String {
    match error {
        CallError::Impossible => format!("{} has no such operation", describe(object)),
        CallError::Argument(error) => error.to_string(),
        CallError::Unreadable(CodecError::Unexpected { expected, found, .. }) => {
            format!("`{key}` holds {found}, not {expected}")
        }
        CallError::Unreadable(error) => {
            format!("`{key}` holds unreadable data ({error}), not {}", describe(object))
        }
        CallError::Unexpected(outcome) => format!("`{key}` answers {outcome:?}"),
    }
}
