//! Assigns steps to phases, and determines the values that phases pass on.

use std::collections::BTreeSet;

use solera_program::span::Span;
use solera_program::types::StoreId;

use crate::check::{Checkable, Declarations};
use crate::flat::{Failing, Step, StepKind, Var};
use crate::flow::{Entry, Flows, Slot, Table};

use super::Split;

/// Plan of a phase.
#[derive(Clone, Debug)]
pub struct PhasePlan {
    /// Store that it uses; `None` if it only computes.
    pub store: Option<StoreId>,
    /// Whether it reads values for endorsement.
    pub endorsing: bool,
    /// Whether it may change its store.
    pub mutates: bool,
    /// Whether it writes witnesses for its changes.
    pub witnesses: bool,
    /// Tapes that it reads, in ascending order.
    pub takes: Vec<u32>,
    /// Tapes that it writes, in ascending order.
    pub gives: Vec<u32>,
    /// Its steps.
    pub steps: Vec<Planned>,
}

/// A step of a phase.
#[derive(Clone, Debug)]
pub enum Planned {
    /// Runs a step. The tape, if any, keeps the assigned value for later phases.
    Do(Step, Option<u32>),
    /// Takes the next value of a variable from its tape.
    Advance(Var, u32, Span),
    /// `if condition { … } else { … }`
    If(Var, Vec<Planned>, Vec<Planned>, Span),
    /// `loop { before; if !condition { leave } body }`
    Loop {
        /// Steps that compute the condition.
        before: Vec<Planned>,
        /// Variable that decides about another iteration.
        condition: Var,
        /// Steps of an iteration.
        body: Vec<Planned>,
        /// Span of the source.
        span: Span,
    },
}

/// Splits a transaction into one phase per slot.
pub(super) fn split(checkable: &Checkable, flows: &Flows, known: &Declarations) -> Split {
    let body = &checkable.body;
    let mut phases: Vec<usize> =
        (0..body.vars.len() as u32).map(|var| flows.phase_of(Var(var))).collect();
    // Computations that must wait for the last store get their own phase.
    let count = phases.iter().copied().max().unwrap_or(0).max(flows.order.len()).max(1);
    let failing = Failing::of(body, &known.failing);
    let table = Table::of(body);
    let mut slots = flows.slots.iter();
    let number = |entry| {
        let Entry { step, conditions, .. } = entry;
        let mut next = |_| *slots.next().expect("every operation has a slot");
        let can_fail = failing.step(step);
        Numbered {
            step,
            conditions,
            slot: step.store().map(&mut next),
            can_fail,
            phase: 0,
            first: 1,
        }
    };
    let mut steps: Vec<Numbered> = table.entries.into_iter().map(number).collect();
    for numbered in &mut steps {
        let slot_phase = |slot: Slot| {
            let found = flows.order.iter().position(|other| *other == slot);
            found.expect("every slot is in the order") + 1
        };
        let known_after =
            |vars: &[Var]| vars.iter().map(|var| phases[var.0 as usize]).max().unwrap_or(0).max(1);
        numbered.first = known_after(&numbered.conditions);
        numbered.phase = match (&numbered.step.kind, numbered.slot) {
            (_, Some(slot)) => slot_phase(slot),
            // A new name is generated once, so phases do not recompute it.
            (StepKind::Fresh(dst, _), _) => phases[dst.0 as usize].max(numbered.first),
            (StepKind::Abort(src), _) => numbered.first.max(known_after(&[*src])),
            _ => phases[numbered.step.dst().expect("other steps write").0 as usize],
        };
        if let StepKind::Fresh(dst, _) = numbered.step.kind {
            phases[dst.0 as usize] = numbered.phase;
        }
    }
    let result_phase = body.result.map_or(1, |var| phases[var.0 as usize].max(1));
    // A loop runs in at least one phase, the first that can run it, even if its result is unused:
    // it may not terminate.
    let mut roots: Vec<(Var, usize)> = table
        .loops
        .iter()
        .map(|conditions| {
            let after = conditions.iter().map(|var| phases[var.0 as usize]).max();
            (*conditions.last().expect("each loop has one"), after.unwrap_or(0).max(1))
        })
        .collect();
    roots.extend(body.result.map(|result| (result, result_phase)));
    let (needs, carried) = needs(&steps, &phases, count, &roots);
    let tapes: Vec<Var> = carried.iter().copied().collect();
    let due = witnesses_due(&steps, known);
    let planner = Planner { steps: &steps, phases: &phases, needs: &needs, tapes: &tapes };
    let plans = (1..=count).map(|phase| {
        let slot = flows.order.get(phase - 1);
        let mutates = steps.iter().any(|one| one.phase == phase && one.step.mutates());
        let atomic = slot.is_some_and(|slot| known.store_info(slot.store).atomic);
        PhasePlan {
            store: slot.map(|slot| slot.store),
            endorsing: slot.is_some_and(|slot| slot.endorsing),
            mutates,
            witnesses: due && mutates && atomic,
            takes: planner
                .tapes_where(|of, var| of > 0 && of < phase && needs[phase - 1].takes(var)),
            gives: planner.tapes_where(|of, _| of == phase),
            steps: planner.plan(&body.steps, phase, &mut 0),
        }
    });
    let phases = plans.collect();
    Split { phases, tapes, result_phase: result_phase - 1 }
}

/// Plans a single phase for the whole transaction.
pub(super) fn whole(checkable: &Checkable) -> Split {
    let plan = PhasePlan {
        store: None,
        endorsing: false,
        mutates: true,
        witnesses: false,
        takes: Vec::new(),
        gives: Vec::new(),
        steps: as_it_is(&checkable.body.steps),
    };
    Split { phases: vec![plan], tapes: Vec::new(), result_phase: 0 }
}

/// Converts the steps of a function, or of a transaction that is not split.
pub(super) fn as_it_is(steps: &[Step]) -> Vec<Planned> {
    let one = |step: &Step| match &step.kind {
        StepKind::If(condition, then, other) => {
            Planned::If(*condition, as_it_is(then), as_it_is(other), step.span)
        }
        StepKind::Loop { before, condition, body } => Planned::Loop {
            before: as_it_is(before),
            condition: *condition,
            body: as_it_is(body),
            span: step.span,
        },
        _ => Planned::Do(step.clone(), None),
    };
    steps.iter().map(one).collect()
}

/// A step other than a branch or loop, with the number of its phase. The number is 0 if every phase
/// that needs the step runs it.
struct Numbered<'a> {
    step: &'a Step,
    conditions: Vec<Var>,
    slot: Option<Slot>,
    /// Whether it is a computation that may fail.
    can_fail: bool,
    phase: usize,
    /// First phase in which its conditions are known.
    first: usize,
}

/// Returns whether witnesses are needed: the transaction writes several stores with atomic
/// transactions (MixT §4.5).
fn witnesses_due(steps: &[Numbered], known: &Declarations) -> bool {
    let written = steps.iter().filter(|one| one.step.mutates()).filter_map(|one| one.slot);
    let atomic = written.filter(|slot| known.store_info(slot.store).atomic);
    atomic.map(|slot| slot.store).collect::<BTreeSet<_>>().len() > 1
}

/// Role of a step in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Do,
    Advance,
}

/// Variables that a phase needs.
#[derive(Default)]
struct Needs {
    all: BTreeSet<Var>,
    /// Variables of earlier phases that it recomputes from other variables that it needs anyway.
    recomputed: BTreeSet<Var>,
}

impl Needs {
    /// Returns whether the phase takes a variable of an earlier phase from its tape.
    fn takes(&self, var: Var) -> bool {
        self.all.contains(&var) && !self.recomputed.contains(&var)
    }
}

/// Returns, for each phase, the variables that it needs, and the variables that are passed on.
/// `roots` are variables that a given phase needs in any case.
fn needs(
    steps: &[Numbered],
    phases: &[usize],
    count: usize,
    roots: &[(Var, usize)],
) -> (Vec<Needs>, BTreeSet<Var>) {
    let mut all: Vec<Needs> = (0..count).map(|_| Needs::default()).collect();
    let mut carried: BTreeSet<Var> = BTreeSet::new();
    // From the last phase to the first, because a phase's needs depend on those of later ones.
    for phase in (1..=count).rev() {
        let mut needed: BTreeSet<Var> =
            carried.iter().copied().filter(|var| phases[var.0 as usize] == phase).collect();
        needed.extend(roots.iter().filter(|(_, at)| *at == phase).map(|(var, _)| *var));
        loop {
            let before = needed.len();
            for step in steps {
                match part(step, phase, |var| needed.contains(&var)) {
                    Part::Nothing => continue,
                    Part::Do => needed.extend(step.step.inputs()),
                    Part::Advance => {}
                }
                needed.extend(&step.conditions);
            }
            if needed.len() == before {
                break;
            }
        }
        let earlier: BTreeSet<Var> = needed
            .iter()
            .copied()
            .filter(|var| (1..phase).contains(&phases[var.0 as usize]))
            .collect();
        let recomputed = recomputed(steps, &earlier, &needed);
        carried.extend(earlier.difference(&recomputed));
        all[phase - 1] = Needs { all: needed, recomputed };
    }
    (all, carried)
}

/// Returns the variables of earlier phases that a phase needs and can recompute cheaply from others
/// that it needs. Every step that assigns such a variable must be cheap: a tape must be read at all
/// assignments or at none, because each read takes the next value.
fn recomputed(
    steps: &[Numbered],
    earlier: &BTreeSet<Var>,
    needed: &BTreeSet<Var>,
) -> BTreeSet<Var> {
    let mut recomputed = earlier.clone();
    for step in steps {
        let Some(dst) = step.step.dst() else { continue };
        let cheap = match &step.step.kind {
            StepKind::Set(_, compute) => {
                compute.is_cheap() && compute.inputs().iter().all(|var| needed.contains(var))
            }
            _ => false,
        };
        if !cheap {
            recomputed.remove(&dst);
        }
    }
    recomputed
}

fn part(step: &Numbered, phase: usize, needed: impl Fn(Var) -> bool) -> Part {
    let wanted = step.step.dst().is_some_and(needed);
    let must = match &step.step.kind {
        StepKind::Set(..) => step.can_fail,
        StepKind::Endorse(..) | StepKind::Fresh(..) => false,
        _ => true,
    };
    match step.phase {
        // Every phase computes for itself what depends on no store. The first possible phase also
        // runs unused computations that may fail.
        0 if phase >= step.first && (wanted || must && phase == step.first) => Part::Do,
        own if own == phase && (wanted || must) => Part::Do,
        own if own > 0 && own < phase && wanted => Part::Advance,
        _ => Part::Nothing,
    }
}

struct Planner<'a> {
    steps: &'a [Numbered<'a>],
    phases: &'a [usize],
    needs: &'a [Needs],
    tapes: &'a [Var],
}

impl Planner<'_> {
    fn tapes_where(&self, holds: impl Fn(usize, Var) -> bool) -> Vec<u32> {
        let tapes = self.tapes.iter().enumerate();
        let found = tapes.filter(|(_, var)| holds(self.phases[var.0 as usize], **var));
        found.map(|(tape, _)| tape as u32).collect()
    }

    fn tape(&self, var: Var) -> Option<u32> {
        self.tapes.iter().position(|other| *other == var).map(|tape| tape as u32)
    }

    /// Plans the steps of a phase. `next` counts the steps other than branches and loops.
    fn plan(&self, steps: &[Step], phase: usize, next: &mut usize) -> Vec<Planned> {
        let mut planned = Vec::new();
        for step in steps {
            match &step.kind {
                StepKind::If(condition, then, other) => {
                    let then = self.plan(then, phase, next);
                    let other = self.plan(other, phase, next);
                    if !then.is_empty() || !other.is_empty() {
                        planned.push(Planned::If(*condition, then, other, step.span));
                    }
                }
                StepKind::Loop { before, condition, body } => {
                    let before = self.plan(before, phase, next);
                    let body = self.plan(body, phase, next);
                    if !before.is_empty() || !body.is_empty() {
                        let (condition, span) = (*condition, step.span);
                        planned.push(Planned::Loop { before, condition, body, span });
                    }
                }
                _ => {
                    let numbered = &self.steps[*next];
                    *next += 1;
                    let dst = step.dst();
                    let needs = &self.needs[phase - 1];
                    match part(numbered, phase, |var| needs.all.contains(&var)) {
                        Part::Nothing => {}
                        Part::Do => {
                            let own = |var: &Var| self.phases[var.0 as usize] == phase;
                            let tape = dst.filter(own).and_then(|var| self.tape(var));
                            planned.push(Planned::Do(step.clone(), tape));
                        }
                        Part::Advance if dst.is_some_and(|var| needs.recomputed.contains(&var)) => {
                            planned.push(Planned::Do(step.clone(), None));
                        }
                        Part::Advance => {
                            let var = dst.expect("only assigned variables are on tapes");
                            let tape = self.tape(var).expect("taken variables have a tape");
                            planned.push(Planned::Advance(var, tape, step.span));
                        }
                    }
                }
            }
        }
        planned
    }
}
