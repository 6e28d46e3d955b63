//! Finds the reads that endorsed values depend on. They run before everything else and must not
//! write (MixT §6.2).

use super::table::{Entry, Slot, Table};
use crate::check::Declarations;
use crate::diagnostic::Diagnostic;
use crate::flat::{StepKind, Var};

/// Returns, for each step, the slot that it runs in; `None` for steps that use no store.
pub(super) fn slots(
    table: &Table,
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Option<Slot>> {
    let endorsed = influencing(table);
    let slot = |entry: &Entry| {
        let store = entry.step.store()?;
        let endorsing = entry.step.dst().is_some_and(|dst| endorsed.contains(&dst));
        Some(Slot { store, endorsing })
    };
    let slots: Vec<_> = table.entries.iter().map(slot).collect();
    refuse_writes(table, &slots, known, diagnostics);
    slots
}

/// Returns the variables that influence an endorsed value, in ascending order.
pub(super) fn influencing(table: &Table) -> std::collections::BTreeSet<Var> {
    let mut found = std::collections::BTreeSet::new();
    let mut due = Vec::new();
    for entry in &table.entries {
        if let StepKind::Endorse(_, _, src) = entry.step.kind {
            due.push(src);
            due.extend(&entry.conditions);
        }
    }
    while let Some(var) = due.pop() {
        if found.insert(var) {
            let writes = table.writes[var.0 as usize].iter();
            due.extend(writes.flat_map(|index| table.entries[*index].influences()));
        }
    }
    found
}

fn refuse_writes(
    table: &Table,
    slots: &[Option<Slot>],
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (index, entry) in table.entries.iter().enumerate() {
        let Some(slot) = slots[index].filter(|slot| slot.endorsing) else { continue };
        let store = &known.store_info(slot.store).name;
        let span = entry.step.span;
        if entry.step.mutates() {
            diagnostics.push(
                Diagnostic::error("E0120", span, "an endorsed value depends on a write")
                    .here(format!("this changes `{store}`, and an endorsed value depends on it"))
                    .note("endorsed values are read before anything is written"),
            );
            continue;
        }
        let first = |(other, _): &(usize, &Entry)| {
            *other < index
                || table.entries[*other].loops.iter().any(|one| entry.loops.contains(one))
        };
        let write = table
            .entries
            .iter()
            .enumerate()
            .filter(|(_, other)| other.step.mutates() && other.step.store() == Some(slot.store))
            .find(first);
        if let Some((_, write)) = write {
            diagnostics.push(
                Diagnostic::error("E0121", span, "an endorsed value is read after a write")
                    .here(format!("this is read from `{store}` before anything is written"))
                    .mark(write.step.span, format!("but this changes `{store}`, and precedes it"))
                    .help("read and endorse before the write: `var x = endorse(…, …);`"),
            );
        }
    }
}
