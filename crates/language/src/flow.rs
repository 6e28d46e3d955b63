//! Infers the level of every value, rejects illegal flows, and orders the uses of stores (MixT
//! §4.3, §5.2, §6.2).

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

/// Results of the flow analysis of a transaction.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Labels, by variable.
    pub labels: Vec<VarLabel>,
    /// Slots, in the order in which they run.
    pub order: Vec<Slot>,
    /// Slot of each operation, in the order of the text.
    pub slots: Vec<Slot>,
    /// Number of endorsements.
    pub endorsements: usize,
}

/// Label of a variable: its level, and the slots that it depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VarLabel {
    /// Its level: that of the weakest value that influences it, unless endorsed.
    pub level: Label,
    /// Set of slots that influence it, by [`Slot::bit`]. Its value is known once these have run.
    pub slots: u64,
    /// Set of slots that must complete before it is computed: the computation could fail, and it is
    /// too weak to decide whether these slots take effect.
    pub after: u64,
}

impl VarLabel {
    /// Returns the phase after which it is known, counted from 1; 0 if it depends on no store.
    pub(crate) fn phase(self, order: &[Slot]) -> usize {
        let last = |set: u64| order.iter().rposition(|slot| set & slot.bit() != 0);
        let known = last(self.slots).map_or(0, |index| index + 1);
        known.max(last(self.after).map_or(0, |index| index + 2))
    }
}

impl Flows {
    /// Infers labels and checks flows. Returns `None` if some flow is illegal.
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

    /// Returns the phase after which a variable is known, counted from 1; 0 if it depends on no
    /// store, so that each phase computes it for itself.
    pub fn phase_of(&self, var: Var) -> usize {
        self.labels[var.0 as usize].phase(&self.order)
    }
}
