//! What a phase starts with besides its arguments.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// How much a phase may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Instructions, and work in proportion to the values they handle: a unit is about 10 ns.
    pub fuel: u64,
    /// How deep functions may call one another.
    pub depth: u32,
    /// The size of a value in bytes, with everything in it as often as it is in it.
    pub value_bytes: u64,
    /// The size of all that variables and intermediate results hold at a time, in bytes: of each as
    /// much as its value has, also where several hold the same. It is looked at each time so much
    /// fuel is used as can make a part of it, so that what is there may be larger for a moment, by
    /// that part and one value.
    pub held_bytes: u64,
    /// The size of all that is kept for later phases, in bytes.
    pub tape_bytes: u64,
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

/// Names for new objects. A phase that is run again chooses the same ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// What all names of the transaction begin with. Nobody else may use it.
    pub prefix: Arc<str>,
}

impl Names {
    /// The name of a phase's n-th new object.
    pub(super) fn name(&self, phase: usize, index: u32) -> Arc<str> {
        format!("{}.{phase}.{index}", self.prefix).into()
    }
}

/// What phases hand on: for each variable its values, in the order in which it took them
/// (the implicit iterators of MixT §5.3). Copies are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tapes(BTreeMap<u32, Arc<Vec<Value>>>);

impl Tapes {
    /// None yet.
    pub fn new() -> Tapes {
        Tapes::default()
    }

    /// Takes over what a phase has given; of a tape that is in both, the new one.
    pub fn extend(&mut self, given: Tapes) {
        self.0.extend(given.0);
    }

    /// Sets one tape.
    pub fn insert(&mut self, tape: u32, values: Vec<Value>) {
        self.0.insert(tape, Arc::new(values));
    }

    /// The values of a tape. One that nobody wrote is empty.
    pub fn get(&self, tape: u32) -> &[Value] {
        self.0.get(&tape).map_or(&[], |values| values)
    }

    /// Only some of them: what a phase takes, if it runs elsewhere.
    pub fn only(&self, tapes: &[u32]) -> Tapes {
        let held = |tape: &u32| self.0.get(tape).map(|values| (*tape, Arc::clone(values)));
        Tapes(tapes.iter().filter_map(held).collect())
    }

    pub(super) fn reader(&self, tape: u32) -> Reader {
        Reader { values: self.0.get(&tape).cloned().unwrap_or_default(), next: 0 }
    }
}

/// A tape, and how far it was read.
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
