//! Orders the slots: a slot runs after those whose values it uses; among the rest, stronger stores
//! run first.

use std::collections::{BTreeMap, BTreeSet};

use solera_program::span::Span;

use super::VarLabel;
use super::table::{Entry, Slot, Table};
use crate::check::Declarations;
use crate::diagnostic::Diagnostic;
use crate::flat::{StepKind, Var};

/// Returns the slots in the order in which they run. Reports an error and returns an empty list if
/// two stores need each other's values.
pub(super) fn order(
    table: &Table,
    slots: &[Option<Slot>],
    labels: &[VarLabel],
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Slot> {
    let mut left: BTreeSet<Slot> = slots.iter().flatten().copied().collect();
    let edges = edges(table, slots, labels, &left, known);
    let rank = |slot: &Slot| {
        let level = known.store_info(slot.store).level;
        let stronger = known.lattice.labels().filter(|one| known.lattice.at_least(*one, level));
        (!slot.endorsing, stronger.count(), slot.store)
    };
    let mut order = Vec::new();
    while !left.is_empty() {
        let free = |slot: &&Slot| {
            left.iter().all(|other| !edges.contains_key(&(*other, **slot)) || other == *slot)
        };
        let Some(next) = left.iter().filter(free).min_by_key(|slot| rank(slot)).copied() else {
            report_cycle(&left, &edges, known, diagnostics);
            return Vec::new();
        };
        left.remove(&next);
        order.push(next);
    }
    order
}

/// Returns the pairs of slots of which the first must precede the second, each with a span that
/// shows why.
fn edges(
    table: &Table,
    slots: &[Option<Slot>],
    labels: &[VarLabel],
    used: &BTreeSet<Slot>,
    known: &Declarations,
) -> BTreeMap<(Slot, Slot), Option<Span>> {
    let mut edges: BTreeMap<(Slot, Slot), Option<Span>> = BTreeMap::new();
    let mut flows = |from: u64, to: Slot, span: Span| {
        for before in Slot::all_in(from).filter(|before| *before != to) {
            edges.entry((before, to)).or_insert(Some(span));
        }
    };
    let all = |entry: &Entry| {
        let before = |var: Var| labels[var.0 as usize].slots | labels[var.0 as usize].after;
        entry.influences().fold(0, |set, var| set | before(var))
    };
    for (entry, slot) in table.entries.iter().zip(slots) {
        if let Some(slot) = slot {
            flows(all(entry), *slot, entry.step.span);
        }
        if let StepKind::Abort(_) = entry.step.kind {
            let written = table.entries.iter().zip(slots).filter(|(other, _)| other.step.mutates());
            for slot in written.filter_map(|(_, slot)| *slot) {
                flows(all(entry), slot, entry.step.span);
            }
        }
    }
    for before in used {
        for after in used {
            let levels = [before, after].map(|slot| known.store_info(slot.store).level);
            let stronger = levels[0] != levels[1] && known.lattice.at_least(levels[0], levels[1]);
            let in_turn = !before.endorsing && !after.endorsing && stronger;
            if in_turn || before.endorsing && !after.endorsing {
                edges.entry((*before, *after)).or_insert(None);
            }
        }
    }
    edges
}

fn report_cycle(
    left: &BTreeSet<Slot>,
    edges: &BTreeMap<(Slot, Slot), Option<Span>>,
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) {
    // Every remaining slot depends on another remaining slot, so following dependencies leads into
    // a cycle.
    let before = |slot: Slot| {
        let mut waits = edges.iter().filter(|((from, to), _)| *to == slot && left.contains(from));
        waits.find(|((from, _), _)| *from != slot).map(|((from, _), span)| (*from, *span))
    };
    let mut slot = *left.first().expect("a slot remains");
    for _ in 0..left.len() {
        slot = before(slot).map_or(slot, |(from, _)| from);
    }
    let (first, mut marks) = (slot, Vec::new());
    while let Some((from, span)) = before(slot) {
        let name = |slot: Slot| &known.store_info(slot.store).name;
        marks.push((span, format!("`{}` receives a value of `{}`", name(slot), name(from))));
        slot = from;
        if slot == first || marks.len() > left.len() {
            break;
        }
    }
    let names: BTreeSet<_> =
        left.iter().map(|slot| known.store_info(slot.store).name.as_str()).collect();
    let names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "{} depend on each other's values, so none of them can be first",
        names.join(" and ")
    );
    let at = marks.iter().find_map(|(span, _)| *span).unwrap_or_default();
    let mut error = Diagnostic::error("E0110", at, message);
    for (span, text) in marks {
        match span {
            Some(span) if span == at && error.primary.text.is_empty() => error = error.here(text),
            Some(span) => error = error.mark(span, text),
            None => error = error.note(text),
        }
    }
    diagnostics.push(
        error
            .note("each store takes part in one phase, which is committed before the next begins")
            .help("keep data that belongs together in one store, or use two transactions"),
    );
}
