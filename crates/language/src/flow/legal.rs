//! Rejects flows from weaker values to stronger data.

use solera_levels::Label;

use super::VarLabel;
use super::blame::{Blame, article};
use super::labels::contribution;
use super::table::{Entry, Slot, Table};
use crate::check::{Checkable, Declarations};
use crate::diagnostic::Diagnostic;
use crate::flat::{StepKind, Var};

/// Checks every step that uses a store, every level that a type states, and every `abort`.
pub(super) fn check(
    table: &Table,
    slots: &[Option<Slot>],
    labels: &[VarLabel],
    checkable: &Checkable,
    known: &Declarations,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let once = &checkable.body.written_once();
    let blame = Blame { table, slots, labels, once, checkable, known };
    for (index, entry) in table.entries.iter().enumerate() {
        if let Some(slot) = slots[index] {
            blame.operation(entry, slot, diagnostics);
        }
        if let StepKind::Abort(_) = entry.step.kind {
            blame.abort(entry, diagnostics);
        }
        if let StepKind::Endorse(_, level, src) = entry.step.kind
            && known.lattice.at_least(labels[src.0 as usize].level, level)
        {
            let found = labels[src.0 as usize].level;
            let [has, asked] = [found, level].map(|level| known.level_name(level));
            let note = match found == level {
                true => format!("the value is {has} without it"),
                false => {
                    format!("the value is {has}, which is stronger than {asked}, and remains {has}")
                }
            };
            diagnostics.push(
                Diagnostic::warning("W0103", entry.step.span, "this endorsement has no effect")
                    .note(note),
            );
        }
        blame.stated(index, entry, diagnostics);
    }
    blame.stated_result(diagnostics);
}

impl Blame<'_> {
    fn level(&self, var: Var) -> Label {
        self.labels[var.0 as usize].level
    }

    /// Checks an operation: its arguments and its conditions must be at least as strong as the
    /// store. This applies to reads as well as to writes (MixT Fig. 8, REMOTE-READ).
    fn operation(&self, entry: &Entry, slot: Slot, diagnostics: &mut Vec<Diagnostic>) {
        let info = self.known.store_info(slot.store);
        let (store, wanted) = (&info.name, info.level);
        let strong = self.known.level_name(wanted);
        let weak = |var: &Var| self.is_weak(self.level(*var), wanted);
        let does = if entry.step.mutates() { "writes" } else { "reads" };
        let act = if entry.step.mutates() { "write" } else { "read" };
        let inputs = entry.step.inputs();
        let (var, message) = if let Some(var) = inputs.iter().copied().find(weak) {
            let level = self.known.level_name(self.level(var));
            let is_handle = match &entry.step.kind {
                StepKind::Remote(remote) => remote.handle == var,
                _ => false,
            };
            let article = article(level);
            let message = if is_handle {
                format!("{article} {level} handle decides the object of a {strong} {act}")
            } else if entry.step.mutates() {
                format!("{article} {level} value is written to {strong} data")
            } else {
                format!("{article} {level} value decides what is read from {strong} data")
            };
            (var, message)
        } else if let Some(var) = entry.conditions.iter().rev().copied().find(weak) {
            let level = self.known.level_name(self.level(var));
            let article = article(level);
            (var, format!("{article} {level} value decides a {strong} {act}"))
        } else {
            return;
        };
        let code = if entry.step.mutates() { "E0101" } else { "E0102" };
        let mut error = Diagnostic::error(code, entry.step.span, message)
            .here(format!("this {does} `{store}` ({strong})"));
        if !inputs.contains(&var) {
            let info = &self.checkable.body.vars[var.0 as usize];
            let text = match info.purpose {
                "go_on" => "whether it is reached depends on this",
                _ => "the branch depends on this",
            };
            error = error.mark(info.span, text);
        }
        let marks = self.of(var, wanted);
        let source = self.weak_store(&marks, wanted);
        for mark in marks {
            if error.others.iter().all(|other| other.span != mark.span) {
                error.others.push(mark);
            } else if let Some(other) = error.others.iter_mut().find(|o| o.span == mark.span) {
                other.text = format!("{}, and the branch depends on it", mark.text);
            }
        }
        if !entry.step.mutates() {
            error = error
                .note("stronger stores are used first, so a read cannot wait for a weaker value");
        }
        if !entry.step.mutates() && !inputs.contains(&var) {
            error =
                error.help("read it first and decide afterwards: `var x = …;` before the branch");
        }
        error = error.help(match source.map(|store| &self.known.store_info(store).name) {
            Some(weak) => format!(
                "decide by data of a store that is at least {strong}, as `{store}` is, or declare \
                 `store {weak} : {strong};` and bind it to a space of that level"
            ),
            None => format!("decide by a value that is at least {strong}"),
        });
        diagnostics
            .push(error.help(format!("or accept the risk explicitly: `endorse({strong}, …)`")));
    }

    /// Checks an `abort`: it undoes all writes, so its conditions must be at least as strong as
    /// every written store.
    fn abort(&self, entry: &Entry, diagnostics: &mut Vec<Diagnostic>) {
        for write in self.table.entries.iter().filter(|entry| entry.step.mutates()) {
            let info = write.step.store().map(|store| self.known.store_info(store));
            let Some(info) = info else { continue };
            let weak = |var: &Var| self.is_weak(self.level(*var), info.level);
            let Some(var) = entry.influences().find(weak) else { continue };
            let (level, strong) =
                (self.known.level_name(self.level(var)), self.known.level_name(info.level));
            let article = article(level);
            let message =
                format!("{article} {level} value decides whether a {strong} write is undone");
            let mut error = Diagnostic::error("E0105", entry.step.span, message)
                .here("the transaction has no effect if this is reached")
                .mark(write.step.span, format!("but this writes `{}` ({strong})", info.name));
            error.others.extend(self.of(var, info.level));
            diagnostics.push(error.note("stronger stores are committed first").help(format!(
                "decide it by a value that is at least {strong}, or `endorse({strong}, …)`"
            )));
            return;
        }
    }

    /// Checks an assignment to a variable whose type states a level.
    fn stated(&self, index: usize, entry: &Entry, diagnostics: &mut Vec<Diagnostic>) {
        let Some(dst) = entry.step.dst() else { return };
        let info = &self.checkable.body.vars[dst.0 as usize];
        let Some((wanted, at)) = info.stated else { return };
        let found = contribution(entry, self.slots[index], true, self.labels, self.known);
        if !self.is_weak(found.level, wanted) {
            return;
        }
        let (level, strong) = (self.known.level_name(found.level), self.known.level_name(wanted));
        let name = info.name.as_deref().unwrap_or("this");
        let mut error = Diagnostic::error(
            "E0103",
            entry.step.span,
            format!("`{name}` is stated to be {strong}, but this value is {level}"),
        )
        .mark(at, "stated here");
        for var in entry.influences() {
            error.others.extend(self.of(var, wanted));
        }
        diagnostics.push(error);
    }

    fn stated_result(&self, diagnostics: &mut Vec<Diagnostic>) {
        let (Some((wanted, at)), Some(result)) =
            (self.checkable.stated, self.checkable.body.result)
        else {
            return;
        };
        if !self.is_weak(self.level(result), wanted) {
            return;
        }
        let (level, strong) =
            (self.known.level_name(self.level(result)), self.known.level_name(wanted));
        let message = format!("the result is stated to be {strong}, but is {level}");
        let mut error = Diagnostic::error("E0103", at, message).here("stated here");
        error.others.extend(self.of(result, wanted));
        diagnostics.push(error);
    }
}
