//! Traces the origin of a weak value, step by step.

use std::collections::BTreeSet;

use solera_levels::Label;
use solera_program::operation::ObjectOp;
use solera_program::types::StoreId;

use super::VarLabel;
use super::table::{Entry, Slot, Table};
use crate::check::{Checkable, Declarations};
use crate::diagnostic::Mark;
use crate::flat::{StepKind, Var};

/// Traces weak values back to where they were read.
pub(super) struct Blame<'a> {
    pub(super) table: &'a Table<'a>,
    pub(super) slots: &'a [Option<Slot>],
    pub(super) labels: &'a [VarLabel],
    pub(super) once: &'a [bool],
    pub(super) checkable: &'a Checkable,
    pub(super) known: &'a Declarations,
}

impl Blame<'_> {
    /// Returns the steps that made a variable weaker than a level, from the last to the first.
    /// Empty if the variable is not weaker.
    pub(super) fn of(&self, var: Var, wanted: Label) -> Vec<Mark> {
        let mut marks = Vec::new();
        self.follow(var, wanted, &mut BTreeSet::new(), &mut marks);
        // If several reasons have the same span, the last of them is nearest to the origin.
        let last = |index: &usize| marks[index + 1..].iter().all(|m| m.span != marks[*index].span);
        let keep: Vec<usize> = (0..marks.len()).filter(last).collect();
        keep.into_iter().map(|index| marks[index].clone()).collect()
    }

    /// Returns the store that the last of the steps found by [`of`](Self::of) reads.
    pub(super) fn weak_store(&self, marks: &[Mark], wanted: Label) -> Option<StoreId> {
        let source = marks.last()?.span;
        let mut uses = self.table.entries.iter().zip(self.slots);
        uses.find_map(|(entry, slot)| {
            let store = slot.filter(|_| entry.step.span == source)?.store;
            self.is_weak(self.known.store_info(store).level, wanted).then_some(store)
        })
    }

    /// Returns whether a level is too weak.
    pub(super) fn is_weak(&self, level: Label, wanted: Label) -> bool {
        !self.known.lattice.at_least(level, wanted)
    }

    fn label(&self, var: Var) -> Label {
        self.labels[var.0 as usize].level
    }

    /// Returns the name of a variable, if it has one.
    fn name(&self, var: Var) -> Option<&str> {
        self.checkable.body.vars[var.0 as usize].name.as_deref()
    }

    fn follow(
        &self,
        var: Var,
        wanted: Label,
        seen: &mut BTreeSet<Var>,
        marks: &mut Vec<Mark>,
    ) -> bool {
        if !self.is_weak(self.label(var), wanted) || !seen.insert(var) {
            return false;
        }
        let info = &self.checkable.body.vars[var.0 as usize];
        let level = self.known.level_name(self.label(var));
        if let Some((_, span)) = info.stated {
            let name = info.name.as_deref().unwrap_or("this");
            marks.push(Mark { span, text: format!("`{name}` is stated to be {level}") });
            return true;
        }
        for index in &self.table.writes[var.0 as usize] {
            if self.follow_step(*index, var, wanted, seen, marks) {
                return true;
            }
        }
        false
    }

    fn follow_step(
        &self,
        index: usize,
        var: Var,
        wanted: Label,
        seen: &mut BTreeSet<Var>,
        marks: &mut Vec<Mark>,
    ) -> bool {
        let entry = &self.table.entries[index];
        let span = entry.step.span;
        if let Some(slot) = self.slots[index] {
            let store = self.known.store_info(slot.store);
            if self.is_weak(store.level, wanted) {
                marks.push(Mark { span, text: self.source(entry, slot) });
                return true;
            }
        }
        let level = self.known.level_name(self.label(var));
        let reached = marks.len();
        if let Some(name) = self.name(var) {
            let name = if name.contains(' ') { name.to_owned() } else { format!("`{name}`") };
            marks
                .push(Mark { span, text: format!("{name} is {level}, as it gets its value here") });
        }
        let inputs = match &entry.step.kind {
            StepKind::Endorse(_, level, _) if !self.is_weak(*level, wanted) => Vec::new(),
            StepKind::Endorse(_, level, src) if self.is_weak(self.label(*src), *level) => {
                let level = self.known.level_name(*level);
                marks.push(Mark { span, text: format!("endorsed as {level} only") });
                return true;
            }
            _ => entry.step.inputs(),
        };
        for input in inputs {
            if self.follow(input, wanted, seen, marks) {
                return true;
            }
        }
        for condition in entry.conditions.iter().rev() {
            // The conditions of this step also apply to the use that is being explained, so they
            // are not repeated.
            if self.once[var.0 as usize] {
                break;
            }
            if self.is_weak(self.label(*condition), wanted) && !seen.contains(condition) {
                let at = self.checkable.body.vars[condition.0 as usize].span;
                let level = self.known.level_name(self.label(*condition));
                let article = article(level);
                let text = format!("{article} {level} condition decides it");
                marks.push(Mark { span: at, text });
                if self.follow(*condition, wanted, seen, marks) {
                    return true;
                }
                marks.pop();
            }
        }
        marks.truncate(reached);
        false
    }

    /// Describes what a step reads, and why that is weak.
    fn source(&self, entry: &Entry, slot: Slot) -> String {
        let info = self.known.store_info(slot.store);
        let (store, level) = (&info.name, self.known.level_name(info.level));
        let StepKind::Remote(remote) = &entry.step.kind else {
            return format!("this is an operation of `{store}`, which is {level}");
        };
        let what = match remote.op {
            ObjectOp::Exists => "its existence",
            ObjectOp::Size => "its size",
            ObjectOp::Contains | ObjectOp::ContainsKey => "its content",
            ObjectOp::Elements | ObjectOp::Values | ObjectOp::Entries => "its content",
            ObjectOp::Field(_) => "its field",
            _ => "its value",
        };
        match self.name(remote.handle) {
            Some(name) => format!("`{name}` is in `{store}`: {what} is {level}"),
            None => format!("this is in `{store}`: {what} is {level}"),
        }
    }
}

/// Returns the indefinite article for a level's name.
pub(super) fn article(level: &str) -> &'static str {
    if level.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
