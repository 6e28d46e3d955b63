//! Splits a transaction into one phase per use of a store (MixT §4.4, §5.3, Fig. 9).
//!
//! A phase runs the operations of its store, and the computations whose inputs it has. It receives
//! values of earlier phases on tapes, one per variable. At each place where an earlier phase
//! assigned the variable, this phase takes the next value from the tape.

mod emit;
mod plan;

pub use plan::{PhasePlan, Planned};
use solera_program::ir;
use solera_program::types::Object;

use std::collections::BTreeSet;

use crate::check::{Checkable, Declarations};
use crate::flat::Var;
use crate::flow::Flows;

/// A transaction split into phases.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its phases, in the order in which they run.
    pub phases: Vec<PhasePlan>,
    /// Variables that are passed from phase to phase. Their index is the number of their tape.
    pub tapes: Vec<Var>,
    /// Index of the phase that yields the result.
    pub result_phase: usize,
}

impl Split {
    /// Splits a transaction whose flows are legal.
    pub fn of(checkable: &Checkable, flows: &Flows, known: &Declarations) -> Split {
        plan::split(checkable, flows, known)
    }

    /// Puts the transaction into one phase that uses all stores. Tests and benchmarks compare split
    /// transactions with this form.
    pub fn not_at_all(checkable: &Checkable) -> Split {
        plan::whole(checkable)
    }

    /// Generates the intermediate representation. Adds objects to the program's list `objects`.
    pub fn emit(&self, checkable: &Checkable, objects: &mut Vec<Object>) -> ir::Transaction {
        emit::transaction(self, checkable, objects)
    }

    /// Returns the variables that one phase passes to a later one.
    pub fn handed(&self, from: usize, to: usize) -> Vec<Var> {
        let given: BTreeSet<u32> = self.phases[from].gives.iter().copied().collect();
        let taken = self.phases[to].takes.iter().filter(|tape| given.contains(tape));
        taken.map(|tape| self.tapes[*tape as usize]).collect()
    }
}

pub use emit::function;
