//! Splits a transaction into one phase per use of a store (MixT §4.4, §5.3, Fig. 9).
//!
//! A phase does what belongs to its store, and computes what it can know. What it needs of earlier
//! phases is handed to it on tapes, one per variable: wherever the variable was written, the next
//! value is taken.

mod emit;
mod plan;

pub use plan::{PhasePlan, Planned};
use solera_program::ir;
use solera_program::types::Object;

use std::collections::BTreeSet;

use crate::check::{Checkable, Declarations};
use crate::flat::Var;
use crate::flow::Flows;

/// A transaction that is split.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its phases, in the order in which they run.
    pub phases: Vec<PhasePlan>,
    /// The variables that are handed from phase to phase. Their place is the number of their tape.
    pub tapes: Vec<Var>,
    /// The phase that yields the result, from 0.
    pub result_phase: usize,
}

impl Split {
    /// Splits a transaction whose flows are allowed.
    pub fn of(checkable: &Checkable, flows: &Flows, known: &Declarations) -> Split {
        plan::split(checkable, flows, known)
    }

    /// The same transaction in one phase that uses all stores, to compare with.
    pub fn not_at_all(checkable: &Checkable) -> Split {
        plan::whole(checkable)
    }

    /// Its intermediate representation. `objects` is the program's list, which grows.
    pub fn emit(&self, checkable: &Checkable, objects: &mut Vec<Object>) -> ir::Transaction {
        emit::transaction(self, checkable, objects)
    }

    /// The variables that go from one phase to a later one.
    pub fn handed(&self, from: usize, to: usize) -> Vec<Var> {
        let given: BTreeSet<u32> = self.phases[from].gives.iter().copied().collect();
        let taken = self.phases[to].takes.iter().filter(|tape| given.contains(tape));
        taken.map(|tape| self.tapes[*tape as usize]).collect()
    }
}

pub use emit::function;
