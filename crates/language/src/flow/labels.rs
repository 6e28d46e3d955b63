//! Infers labels: the strongest ones for which every step's value is at least as weak as everything
//! that influences it (MixT Fig. 8).

use std::collections::{BTreeSet, VecDeque};

use solera_levels::Label;

use super::VarLabel;
use super::table::{Entry, Slot, Table};
use crate::check::{Checkable, Declarations};
use crate::flat::{Failing, StepKind, Var};

/// Infers the label of each variable.
pub(super) fn infer(
    table: &Table,
    slots: &[Option<Slot>],
    checkable: &Checkable,
    known: &Declarations,
) -> Vec<VarLabel> {
    let bottom = known.lattice.bottom();
    let stated = |var: Var| checkable.body.vars[var.0 as usize].stated.map(|(label, _)| label);
    let count = checkable.body.vars.len();
    let mut labels: Vec<VarLabel> = (0..count as u32)
        .map(|var| VarLabel { level: stated(Var(var)).unwrap_or(bottom), slots: 0, after: 0 })
        .collect();
    let once = checkable.body.written_once();
    let late = Late::of(table, slots, checkable, known);
    let mut uses = vec![Vec::new(); count];
    for (index, entry) in table.entries.iter().enumerate() {
        entry.influences().for_each(|var| uses[var.0 as usize].push(index));
    }
    // Processes steps in the order of the text, and revisits those that use a variable whose label
    // changed.
    let mut due: VecDeque<usize> = (0..table.entries.len()).collect();
    let mut is_due = vec![true; table.entries.len()];
    while let Some(index) = due.pop_front() {
        is_due[index] = false;
        let entry = &table.entries[index];
        let Some(dst) = entry.step.dst() else { continue };
        let branches = !once[dst.0 as usize];
        let mut found = contribution(entry, slots[index], branches, &labels, known);
        late.postpone(index, entry, &mut found, &labels, known);
        let label = &mut labels[dst.0 as usize];
        let joined = VarLabel {
            // Inference accepts a stated level; a later check rejects it if it is wrong.
            level: match stated(dst) {
                Some(level) => level,
                None => known.lattice.join(label.level, found.level),
            },
            slots: label.slots | found.slots,
            after: label.after | found.after,
        };
        if joined == *label {
            continue;
        }
        *label = joined;
        for user in &uses[dst.0 as usize] {
            if !std::mem::replace(&mut is_due[*user], true) {
                due.push_back(*user);
            }
        }
    }
    labels
}

/// Reads for endorsed values run before anything is written. Other computations with these values
/// must not run that early: if one failed, nothing would be written, so a weak value would decide
/// about strong writes without an endorsement. Such computations wait until the writes that are too
/// strong for them are committed. Computations that an endorsed value depends on do not wait: they
/// are part of the endorsement.
struct Late {
    /// For each step, whether it may fail and no endorsed value depends on it.
    waits: Vec<bool>,
    /// Slots that write, with the levels of their stores.
    written: Vec<(Slot, Label)>,
}

impl Late {
    fn of(
        table: &Table,
        slots: &[Option<Slot>],
        checkable: &Checkable,
        known: &Declarations,
    ) -> Late {
        let endorsed = super::endorsed::influencing(table);
        let failing = Failing::of(&checkable.body, &known.failing);
        let mut endless = Vec::new();
        checkable.body.each_step(&mut |step| {
            if let (true, StepKind::Loop { condition, .. }) =
                (checkable.body.may_not_end(step), &step.kind)
            {
                endless.push(*condition);
            }
        });
        let waits = |entry: &Entry| {
            let fails = failing.step(entry.step)
                || entry.step.dst().is_some_and(|dst| endless.contains(&dst));
            fails && entry.step.dst().is_some_and(|dst| !endorsed.contains(&dst))
        };
        let writes = table.entries.iter().zip(slots).filter(|(entry, _)| entry.step.mutates());
        let slots: BTreeSet<Slot> = writes.filter_map(|(_, slot)| *slot).collect();
        Late {
            waits: table.entries.iter().map(waits).collect(),
            written: slots
                .into_iter()
                .map(|slot| (slot, known.store_info(slot.store).level))
                .collect(),
        }
    }

    /// Postpones a step's value if necessary.
    fn postpone(
        &self,
        index: usize,
        entry: &Entry,
        found: &mut VarLabel,
        labels: &[VarLabel],
        known: &Declarations,
    ) {
        if !self.waits[index] {
            return;
        }
        let mut all = VarLabel { level: known.lattice.bottom(), slots: 0, after: 0 };
        entry.influences().for_each(|var| join(&mut all, labels[var.0 as usize], known));
        if !Slot::all_in(all.slots).any(|slot| slot.endorsing) {
            return;
        }
        for (slot, level) in &self.written {
            if !known.lattice.at_least(all.level, *level) {
                found.after |= slot.bit();
                found.slots |= all.slots;
            }
        }
    }
}

fn join(all: &mut VarLabel, other: VarLabel, known: &Declarations) {
    all.level = known.lattice.join(all.level, other.level);
    all.slots |= other.slots;
    all.after |= other.after;
}

/// Returns the label that a step alone gives to the variable that it assigns. `branches` is whether
/// to include the conditions of the step. They are omitted if the same conditions apply to all uses
/// of the variable, because the uses are checked separately.
pub(super) fn contribution(
    entry: &Entry,
    slot: Option<Slot>,
    branches: bool,
    labels: &[VarLabel],
    known: &Declarations,
) -> VarLabel {
    let lattice = &known.lattice;
    let of = |var: &Var| labels[var.0 as usize];
    let mut all = VarLabel { level: lattice.bottom(), slots: 0, after: 0 };
    let join = |all: &mut VarLabel, other: VarLabel| join(all, other, known);
    match &entry.step.kind {
        // Only an endorsement strengthens a label: the value gets the endorsed level, unless its
        // own is stronger.
        StepKind::Endorse(_, level, src) => {
            let found = of(src);
            let level = if lattice.at_least(found.level, *level) { found.level } else { *level };
            join(&mut all, VarLabel { level, ..found });
        }
        _ => entry.step.inputs().iter().for_each(|var| join(&mut all, of(var))),
    }
    if let Some(slot) = slot {
        join(
            &mut all,
            VarLabel { level: known.store_info(slot.store).level, slots: slot.bit(), after: 0 },
        );
    }
    let level = all.level;
    // A value that depends on a store is computed once, where its conditions are known. A value
    // that depends on none is computed wherever it is used.
    if branches || all.slots != 0 {
        entry.conditions.iter().for_each(|var| join(&mut all, of(var)));
    }
    if !branches {
        all.level = level;
    }
    all
}
