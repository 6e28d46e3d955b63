//! Warns of steps that may fail when a part of the transaction is committed already.

use super::VarLabel;
use super::table::{Entry, Slot, Table};
use crate::builtin::Builtin;
use crate::check::{Checkable, Declarations};
use crate::diagnostic::Diagnostic;
use crate::flat::{Compute, StepKind, Var};
use crate::operation::ObjectOp;
use crate::syntax::ast::BinaryOp;
use crate::types::Type;

/// Warns of steps that fail on bad data after something was committed: the transaction is then incomplete.
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
    let given = given(table, checkable);
    for (index, entry) in table.entries.iter().enumerate() {
        let overflows = overflows(entry, &given, checkable);
        let risky = match &entry.step.kind {
            StepKind::Set(_, Compute::Builtin(Builtin::OrFail | Builtin::Index, _)) => true,
            StepKind::Set(_, Compute::Binary(BinaryOp::Divide | BinaryOp::Remainder, ..)) => true,
            StepKind::Remote(remote) => matches!(remote.op, ObjectOp::Load),
            _ => overflows,
        };
        let all = entry.step.dst().map(|dst| labels[dst.0 as usize].slots);
        let set = slots[index].map_or(all, |slot| Some(slot.bit()));
        let phase = order.iter().rposition(|slot| set.is_some_and(|set| set & slot.bit() != 0));
        if risky && phase.is_some_and(|phase| phase > first) && !cannot_fail(table, entry) {
            let store = &known.store_info(order[first].store).name;
            let warning = Diagnostic::warning("W0104", entry.step.span, "this may fail too late")
                .here(format!("`{store}` is committed before this is computed"))
                .note("a transaction that fails after a commit is reported as incomplete");
            diagnostics.push(match overflows {
                true => warning
                    .note("integers do not wrap: what does not fit into 64 bits is an error")
                    .help("bound the operands: `min(n, 1000000)`"),
                false => warning
                    .help("say what holds in that case: `.or(…)`, `.get(…)`, or test it first"),
            });
        }
    }
}

/// Whether a step cannot fail for what is around it: the element of a turn of `for`, or what a `match` found
/// to be there.
fn cannot_fail(table: &Table, entry: &Entry) -> bool {
    let made_by = |var: Var, builtins: &[Builtin]| {
        let mut writes = table.writes[var.0 as usize].iter();
        writes.any(|other| match &table.entries[*other].step.kind {
            StepKind::Set(_, Compute::Builtin(builtin, _)) => builtins.contains(builtin),
            _ => false,
        })
    };
    match &entry.step.kind {
        StepKind::Set(_, Compute::Builtin(Builtin::Index, args)) => {
            made_by(args[0], &[Builtin::Elements]) && !entry.loops.is_empty()
        }
        StepKind::Set(_, Compute::Builtin(Builtin::OrFail, _)) => {
            let tests = [Builtin::IsSome, Builtin::IsNone];
            entry.conditions.iter().any(|condition| made_by(*condition, &tests))
        }
        _ => false,
    }
}

/// Whether a step may leave the 64 bits of an `int`. What a program only counts by itself does not get there
/// in any time, and neither does a count of what is in memory, so at least one operand must be given; for `+`
/// and `-` both: a given value that one more would take over the edge is too rare to warn of.
fn overflows(entry: &Entry, given: &[bool], checkable: &Checkable) -> bool {
    let StepKind::Set(dst, Compute::Binary(op, a, b)) = &entry.step.kind else { return false };
    let is_given = |var: &Var| given[var.0 as usize];
    let is_int = checkable.body.vars[dst.0 as usize].ty == Type::Int;
    is_int
        && match op {
            BinaryOp::Add | BinaryOp::Subtract => is_given(a) && is_given(b),
            BinaryOp::Multiply => is_given(a) || is_given(b),
            _ => false,
        }
}

/// By variable, whether its value comes from a parameter or a store, so that an integer in it may be of any
/// size. Sizes are not, and what `min` and `max` have bounded is not either.
fn given(table: &Table, checkable: &Checkable) -> Vec<bool> {
    let mut given = vec![false; checkable.body.vars.len()];
    given[..checkable.body.params].fill(true);
    loop {
        let before = given.clone();
        for entry in &table.entries {
            let Some(dst) = entry.step.dst() else { continue };
            let is_given = |var: Var| given[var.0 as usize];
            given[dst.0 as usize] |= match &entry.step.kind {
                StepKind::Remote(remote) => remote.op != ObjectOp::Size,
                StepKind::Custom(_) => true,
                StepKind::Set(_, Compute::Builtin(Builtin::Len, _)) => false,
                StepKind::Set(_, Compute::Builtin(Builtin::Min | Builtin::Max, args)) => {
                    args.iter().all(|arg| is_given(*arg))
                }
                _ => entry.step.inputs().into_iter().any(is_given),
            };
        }
        if given == before {
            return given;
        }
    }
}
