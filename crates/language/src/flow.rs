//! Which level every value has, which flows are not allowed, and in which order stores are used
//! (MixT §4.3, §5.2, §6.2).

mod blame;
mod endorsed;
mod labels;
mod late;
mod legal;
mod order;
mod risk;
mod table;

pub use risk::functions as risks;
pub use table::Slot;
pub(crate) use table::{Entry, Table};

use solera_levels::Label;

use crate::check::{Checkable, Declarations};
use crate::diagnostic::Diagnostic;
use crate::flat::Var;

/// What is known of a transaction once its flows are.
#[derive(Clone, Debug)]
pub struct Flows {
    /// By variable.
    pub labels: Vec<VarLabel>,
    /// The stores' uses, in the order in which they run.
    pub order: Vec<Slot>,
    /// Of the operations, in the order of the text, the slot that each runs in.
    pub slots: Vec<Slot>,
    /// How often the program endorses.
    pub endorsements: usize,
}

/// What influences a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarLabel {
    /// Its level: that of the weakest of what influences it, unless that was endorsed.
    pub level: Label,
    /// The uses of stores that influence it, by [`Slot::bit`]; so it is known once these have run.
    pub slots: u64,
    /// The uses of stores that must be over before it is computed: that could fail, and it is too
    /// weak to decide whether they take effect.
    pub after: u64,
}

impl VarLabel {
    /// The phase after which it is known, counted from 1; 0 if it depends on no store.
    pub(crate) fn phase(self, order: &[Slot]) -> usize {
        let last = |set: u64| order.iter().rposition(|slot| set & slot.bit() != 0);
        let known = last(self.slots).map_or(0, |index| index + 1);
        known.max(last(self.after).map_or(0, |index| index + 2))
    }
}

impl Flows {
    /// Infers and checks. None if some flow is not allowed.
    pub fn of(
        checkable: &Checkable,
        known: &Declarations,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Flows> {
        let before = diagnostics.len();
        let table = table::Table::of(&checkable.body);
        let slots = endorsed::slots(&table, known, diagnostics);
        let labels = labels::infer(&table, &slots, checkable, known);
        legal::check(&table, &slots, &labels, checkable, known, diagnostics);
        let refused = |found: &[Diagnostic]| {
            found.iter().any(|one| one.severity == crate::diagnostic::Severity::Error)
        };
        if refused(&diagnostics[before..]) {
            return None;
        }
        let order = order::order(&table, &slots, &labels, known, diagnostics);
        late::warn(&table, &slots, &labels, &order, checkable, known, diagnostics);
        if refused(&diagnostics[before..]) {
            return None;
        }
        let endorsements = table.endorsements();
        let slots = slots.into_iter().flatten().collect();
        Some(Flows { labels, order, slots, endorsements })
    }

    /// The phase after which a variable is known, counted from 1; 0 if it depends on no store, so
    /// that each phase computes it for itself.
    pub fn phase_of(&self, var: Var) -> usize {
        self.labels[var.0 as usize].phase(&self.order)
    }
}
