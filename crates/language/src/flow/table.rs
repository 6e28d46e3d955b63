//! Steps of a body in the order of the text, each with its conditions.

use solera_program::types::StoreId;

use crate::flat::{Body, Step, StepKind, Var};

/// A use of a store: either at the beginning, to read values for endorsement, or in its regular
/// order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The store.
    pub store: StoreId,
    /// Whether it only reads values for endorsement.
    pub endorsing: bool,
}

impl Slot {
    /// Returns its bit in sets of slots. There are at most 30 stores.
    pub fn bit(self) -> u64 {
        1 << (self.store.0 as u64 + if self.endorsing { 32 } else { 0 })
    }

    /// Iterates over the slots of a set.
    pub(super) fn all_in(set: u64) -> impl Iterator<Item = Slot> {
        let bits = (0..64u8).filter(move |bit| set >> bit & 1 == 1);
        bits.map(|bit| Slot { store: StoreId(bit % 32), endorsing: bit >= 32 })
    }
}

/// A step other than a branch or loop.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) step: &'a Step,
    /// Conditions that it depends on, the outermost first.
    pub(crate) conditions: Vec<Var>,
    /// Indices of the loops around it.
    pub(super) loops: Vec<usize>,
}

/// All steps other than branches and loops.
#[derive(Debug)]
pub(crate) struct Table<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    /// For each variable, the entries that assign it.
    pub(super) writes: Vec<Vec<usize>>,
    /// For each loop, the conditions that it depends on, its own last.
    pub(crate) loops: Vec<Vec<Var>>,
}

impl<'a> Table<'a> {
    pub(crate) fn of(body: &'a Body) -> Table<'a> {
        let writes = vec![Vec::new(); body.vars.len()];
        let mut table = Table { entries: Vec::new(), writes, loops: Vec::new() };
        table.add(&body.steps, &mut Vec::new(), &mut Vec::new());
        for (index, entry) in table.entries.iter().enumerate() {
            if let Some(dst) = entry.step.dst() {
                table.writes[dst.0 as usize].push(index);
            }
        }
        table
    }

    fn add(&mut self, steps: &'a [Step], conditions: &mut Vec<Var>, loops: &mut Vec<usize>) {
        for step in steps {
            match &step.kind {
                StepKind::If(condition, then, other) => {
                    conditions.push(*condition);
                    self.add(then, conditions, loops);
                    self.add(other, conditions, loops);
                    conditions.pop();
                }
                // The condition's previous value decides whether the condition is computed again.
                StepKind::Loop { before, condition, body } => {
                    conditions.push(*condition);
                    loops.push(self.loops.len());
                    self.loops.push(conditions.clone());
                    self.add(before, conditions, loops);
                    self.add(body, conditions, loops);
                    loops.pop();
                    conditions.pop();
                }
                _ => self.entries.push(Entry {
                    step,
                    conditions: conditions.clone(),
                    loops: loops.clone(),
                }),
            }
        }
    }

    pub(super) fn endorsements(&self) -> usize {
        let endorses = |entry: &&Entry| matches!(entry.step.kind, StepKind::Endorse(..));
        self.entries.iter().filter(endorses).count()
    }
}

impl Entry<'_> {
    /// Iterates over all variables that influence the step: its inputs and its conditions.
    pub(super) fn influences(&self) -> impl Iterator<Item = Var> + '_ {
        self.step.inputs().into_iter().chain(self.conditions.iter().copied())
    }
}
