//! Infers labels: the smallest ones for which every step's value is at least as weak as all that influences it
//! (MixT Fig. 8).

use super::VarLabel;
use super::table::{Entry, Slot, Table};
use crate::check::{Checkable, Declarations};
use crate::flat::{StepKind, Var};

/// By variable.
pub(super) fn infer(
    table: &Table,
    slots: &[Option<Slot>],
    checkable: &Checkable,
    known: &Declarations,
) -> Vec<VarLabel> {
    let bottom = known.lattice.bottom();
    let stated = |var: Var| checkable.body.vars[var.0 as usize].stated.map(|(label, _)| label);
    let mut labels: Vec<VarLabel> = (0..checkable.body.vars.len() as u32)
        .map(|var| VarLabel { level: stated(Var(var)).unwrap_or(bottom), slots: 0 })
        .collect();
    let once = checkable.body.written_once();
    loop {
        let mut changed = false;
        for (entry, slot) in table.entries.iter().zip(slots) {
            let Some(dst) = entry.step.dst() else { continue };
            let branches = !once[dst.0 as usize];
            let found = contribution(entry, *slot, branches, &labels, known);
            let label = &mut labels[dst.0 as usize];
            let joined = VarLabel {
                // What a type states holds; whether it may is checked afterwards.
                level: match stated(dst) {
                    Some(level) => level,
                    None => known.lattice.join(label.level, found.level),
                },
                slots: label.slots | found.slots,
            };
            changed |= joined != *label;
            *label = joined;
        }
        if !changed {
            return labels;
        }
    }
}

/// What a step alone would give the variable that it writes. `branches`: also by what decides whether it is
/// done. That is left out where the same conditions decide about all uses of the variable, which are checked
/// by themselves.
pub(super) fn contribution(
    entry: &Entry,
    slot: Option<Slot>,
    branches: bool,
    labels: &[VarLabel],
    known: &Declarations,
) -> VarLabel {
    let lattice = &known.lattice;
    let of = |var: &Var| labels[var.0 as usize];
    let mut all = VarLabel { level: lattice.bottom(), slots: 0 };
    let join = |all: &mut VarLabel, other: VarLabel| {
        all.level = lattice.join(all.level, other.level);
        all.slots |= other.slots;
    };
    match &entry.step.kind {
        // The only way down: the value takes the level that the program vouches for, unless it is stronger.
        StepKind::Endorse(_, level, src) => {
            let VarLabel { level: found, slots } = of(src);
            let level = if lattice.at_least(found, *level) { found } else { *level };
            join(&mut all, VarLabel { level, slots });
        }
        _ => entry.step.inputs().iter().for_each(|var| join(&mut all, of(var))),
    }
    if let Some(slot) = slot {
        join(&mut all, VarLabel { level: known.store_info(slot.store).level, slots: slot.bit() });
    }
    let level = all.level;
    // What depends on a store is computed once, where it is known that it is wanted; what depends on none is
    // computed wherever it is used.
    if branches || all.slots != 0 {
        entry.conditions.iter().for_each(|var| join(&mut all, of(var)));
    }
    if !branches {
        all.level = level;
    }
    all
}
