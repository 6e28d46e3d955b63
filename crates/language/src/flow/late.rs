//! Warns of steps that may fail after a part of the transaction is committed.

use solera_program::span::Span;

use super::VarLabel;
use super::risk::Risks;
use super::table::{Entry, Slot, Table};
use crate::check::{Checkable, Declarations};
use crate::diagnostic::Diagnostic;
use crate::risk::Risk;

/// Warns of steps that fail on bad data after an earlier phase has committed, which leaves the
/// transaction incomplete.
#[expect(clippy::too_many_arguments, reason = "what the analysis has found so far")]
pub(super) fn warn(
    table: &Table,
    slots: &[Option<Slot>],
    labels: &[VarLabel],
    order: &[Slot],
    checkable: &Checkable,
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let writes = |slot: &Slot| {
        let of_slot =
            |(entry, found): (&Entry, &Option<Slot>)| *found == Some(*slot) && entry.step.mutates();
        table.entries.iter().zip(slots).any(of_slot)
    };
    let Some(first) = order.iter().position(writes) else { return };
    let store = &known.store_info(order[first].store).name;
    // Phases are counted from 1.
    let is_late = |phase: usize| phase > first + 1;
    let risks = Risks::of(table, &checkable.body, &known.failing, &known.risks);
    for (index, entry) in table.entries.iter().enumerate() {
        let label = entry.step.dst().map(|dst| labels[dst.0 as usize]);
        let phase = match slots[index] {
            Some(slot) => order.iter().position(|one| *one == slot).map(|at| at + 1),
            None => label.map(|label| label.phase(order)),
        };
        if phase.is_some_and(is_late)
            && let Some(risk) = risks.entry(entry)
        {
            diagnostics.push(warning(risk, entry.step.span, store, known));
        }
    }
    for (risk, condition) in risks.loops() {
        if is_late(labels[condition.0 as usize].phase(order)) {
            diagnostics.push(warning(risk, risk.span, store, known));
        }
    }
}

fn warning(risk: Risk, at: Span, store: &str, known: &Declarations) -> Diagnostic {
    let mut warning = Diagnostic::warning("W0104", at, "this may fail too late")
        .here(format!("`{store}` is committed before this is computed"))
        .note("a transaction that fails after a commit is reported as incomplete");
    if let Some(function) = risk.function {
        let name = &known.functions[function as usize].name;
        warning = warning.mark(risk.span, format!("this may fail in `{name}`"));
    }
    if let Some(note) = risk.why.note() {
        warning = warning.note(note);
    }
    warning.help(risk.why.help())
}
