//! Recognises the steps that `for` loops were lowered to.

use std::collections::{BTreeMap, BTreeSet};

use solera_program::builtin::Builtin;

use super::each_planned;
use crate::flat::{Body, Compute, Step, StepKind, Var};
use crate::split::Planned;
use crate::syntax::ast::BinaryOp;

/// Steps of lowered `for` loops. They are displayed as `for` again where a phase contains all of
/// them.
pub(super) struct Walks {
    /// Variables that count the elements, and those that hold them.
    pub(super) hidden: BTreeSet<Var>,
    /// For each variable with a number of elements, the variable with the elements.
    all: BTreeMap<Var, Var>,
}

impl Walks {
    /// Finds the `for` loops of a phase.
    pub(super) fn of(steps: &[Planned], body: &Body) -> Walks {
        let mut all = BTreeMap::new();
        let mut kept = BTreeSet::new();
        each_planned(steps, &mut |planned| match planned {
            Planned::Do(
                Step { kind: StepKind::Set(dst, Compute::Builtin(Builtin::Len, of)), .. },
                None,
            ) => {
                all.insert(*dst, of[0]);
            }
            Planned::Do(step, Some(_)) => kept.extend(step.dst()),
            _ => {}
        });
        // A program's own `while` may look like a `for`, but its variables have names. Variables
        // that later phases need are displayed.
        all.retain(|_, all| body.vars[all.0 as usize].purpose == "all" && !kept.contains(all));
        let mut walks = Walks { hidden: BTreeSet::new(), all };
        let mut hidden = BTreeSet::new();
        each_planned(steps, &mut |planned| {
            if let Planned::Loop { before, body, .. } = planned
                && let Some(walk) = walks.walk(before, body)
            {
                hidden.extend([walk.next, walk.all]);
            }
        });
        walks.hidden = hidden;
        walks
    }

    /// Returns the parts of a `for` that has no early exit and that splitting left intact.
    pub(super) fn walk(&self, before: &[Planned], body: &[Planned]) -> Option<Walk> {
        let [Planned::Do(Step { kind: StepKind::Set(_, compare), .. }, _)] = before else {
            return None;
        };
        let Compute::Binary(BinaryOp::Less, next, count) = compare else { return None };
        let all = *self.all.get(count)?;
        let onward = |planned: &Planned| match planned {
            Planned::Do(
                Step { kind: StepKind::Set(dst, Compute::Binary(BinaryOp::Add, ..)), .. },
                None,
            ) => dst == next,
            _ => false,
        };
        let element = |planned: &Planned| match planned {
            Planned::Do(
                Step { kind: StepKind::Set(dst, Compute::Builtin(Builtin::Index, args)), .. },
                tape,
            ) => (*args == [all, *next]).then_some((*dst, tape.is_some())),
            _ => None,
        };
        let at = body.iter().take(2).position(onward)?;
        let element = match at {
            0 => None,
            _ => Some(element(&body[0])?),
        };
        Some(Walk { next: *next, all, element, skip: at + 1 })
    }
}

/// A `for`.
pub(super) struct Walk {
    next: Var,
    pub(super) all: Var,
    /// Variable of the current element, and whether it is kept for later phases.
    pub(super) element: Option<(Var, bool)>,
    /// Number of steps of the body that belong to the `for` itself.
    pub(super) skip: usize,
}
