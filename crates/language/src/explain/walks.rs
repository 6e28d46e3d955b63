//! Finds what `for` became.

use std::collections::{BTreeMap, BTreeSet};

use solera_program::builtin::Builtin;

use super::each_planned;
use crate::flat::{Body, Compute, Step, StepKind, Var};
use crate::split::Planned;
use crate::syntax::ast::BinaryOp;

/// What `for` was made of: it is shown as `for` again where all of it is there.
pub(super) struct Walks {
    /// The variables that count the elements, and those that hold them.
    pub(super) hidden: BTreeSet<Var>,
    /// By the variable with the number of elements, the one with the elements.
    all: BTreeMap<Var, Var>,
}

impl Walks {
    /// Those of a phase.
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
        // A program's own `while` may look like a `for`, but its variables have names. What later
        // phases need is shown.
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

    /// The parts of a `for` that was neither left early nor taken apart by splitting.
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
    /// The variable that holds the element of the turn, and whether it is kept.
    pub(super) element: Option<(Var, bool)>,
    /// How many steps of the body belong to the walk.
    pub(super) skip: usize,
}
