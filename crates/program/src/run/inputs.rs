//! Inputs of a phase besides its arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Limits of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Fuel: a unit of work takes about 10 ns. Instructions use fuel in proportion to the values
    /// that they process.
    pub fuel: u64,
    /// Maximum depth of function calls.
    pub depth: u32,
    /// Maximum size of a value in bytes. A part that occurs several times counts each time.
    pub value_bytes: u64,
    /// Maximum size in bytes of all values that variables and intermediate results hold at one
    /// time. Shared values count each time. The size is checked at intervals of fuel in which only
    /// a fraction of it can be created, so the actual size may exceed the limit by that fraction
    /// and one value.
    pub held_bytes: u64,
    /// Maximum size of all values for later phases, in bytes.
    pub tape_bytes: u64,
}

impl Limits {
    /// Checks that a value is within the limits for arguments. A run does not check its arguments.
    ///
    /// # Errors
    /// If the value is too large, with its size and the limit, or if a handle in it has an empty
    /// key.
    pub fn check_argument(&self, value: &Value) -> Result<(), String> {
        if has_empty_key(value) {
            return Err("a handle's key must not be empty".to_owned());
        }
        let (size, most) = (size(value), self.value_bytes);
        if size <= most {
            return Ok(());
        }
        Err(format!("it takes {size} bytes, and a value may take {most} at most"))
    }
}

fn has_empty_key(value: &Value) -> bool {
    match value {
        Value::Handle(handle) => handle.key.is_empty(),
        Value::Option(of) => of.as_deref().is_some_and(has_empty_key),
        Value::List(of) | Value::Struct(of) => of.iter().any(has_empty_key),
        Value::Set(of) => of.iter().any(has_empty_key),
        Value::Map(of) => of.iter().any(|(key, value)| has_empty_key(key) || has_empty_key(value)),
        _ => false,
    }
}

/// Returns the size of a value in bytes, as the interpreter counts it: 16 and the text for each
/// value in it.
fn size(value: &Value) -> u64 {
    let (bytes, held): (usize, u64) = match value {
        Value::Unit | Value::Bool(_) | Value::Int(_) | Value::Float(_) => (0, 0),
        Value::String(text) => (text.len(), 0),
        Value::Bytes(bytes) => (bytes.len(), 0),
        Value::Handle(handle) => (handle.store.len() + handle.key.len(), 0),
        Value::Option(of) => (0, of.as_deref().map_or(0, size)),
        Value::List(of) | Value::Struct(of) => (0, of.iter().map(size).sum()),
        Value::Set(of) => (0, of.iter().map(size).sum()),
        Value::Map(of) => (0, of.iter().map(|(key, value)| size(key) + size(value)).sum()),
    };
    16 + bytes as u64 + held
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            fuel: 1_000_000,
            depth: 200,
            value_bytes: 16 << 20,
            held_bytes: 64 << 20,
            tape_bytes: 16 << 20,
        }
    }
}

/// Generator of names for new objects. A phase that is rerun generates the same names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Prefix of all names of the transaction. It must be unique.
    pub prefix: Arc<str>,
}

impl Names {
    /// Returns the name of a phase's n-th new object.
    pub(super) fn name(&self, phase: usize, index: u32) -> Arc<str> {
        format!("{}.{phase}.{index}", self.prefix).into()
    }
}

/// Values that phases pass on: for each variable, its values in the order of assignment (the
/// implicit iterators of MixT §5.3). Copies are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tapes(BTreeMap<u32, Arc<Vec<Value>>>);

impl Tapes {
    /// Creates an empty set of tapes.
    pub fn new() -> Tapes {
        Tapes::default()
    }

    /// Adds the tapes that a phase wrote; they replace tapes of the same number.
    pub fn extend(&mut self, given: Tapes) {
        self.0.extend(given.0);
    }

    /// Sets one tape.
    pub fn insert(&mut self, tape: u32, values: Vec<Value>) {
        self.0.insert(tape, Arc::new(values));
    }

    /// Returns the values of a tape; empty if no phase wrote it.
    pub fn get(&self, tape: u32) -> &[Value] {
        self.0.get(&tape).map_or(&[], |values| values)
    }

    /// Returns some of the tapes: those that a phase takes, if it runs at another site.
    pub fn only(&self, tapes: &[u32]) -> Tapes {
        let held = |tape: &u32| self.0.get(tape).map(|values| (*tape, Arc::clone(values)));
        Tapes(tapes.iter().filter_map(held).collect())
    }

    pub(super) fn reader(&self, tape: u32) -> Reader {
        Reader { values: self.0.get(&tape).cloned().unwrap_or_default(), next: 0 }
    }
}

/// A tape with its read position.
#[derive(Debug)]
pub(super) struct Reader {
    values: Arc<Vec<Value>>,
    next: usize,
}

impl Reader {
    pub(super) fn advance(&mut self) -> Option<Value> {
        let value = self.values.get(self.next)?.clone();
        self.next += 1;
        Some(value)
    }
}
