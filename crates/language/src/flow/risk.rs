//! Finds what is likely to fail on bad data.

use std::collections::BTreeSet;

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};

use super::table::{Entry, Table};
use crate::flat::{Body, Compute, Failing, Remote, Step, StepKind, Var, or_calls};
use crate::risk::{Risk, Why};
use crate::syntax::ast::BinaryOp;

/// By function, what in it is likely to fail, whatever it is given.
pub fn functions(bodies: &[&Body], failing: &[bool]) -> Vec<Option<Risk>> {
    let mut risks = vec![None; bodies.len()];
    let own = |body: &&Body| {
        let table = Table::of(body);
        let risks = Risks::of(&table, body, failing, &[]);
        let first = table.entries.iter().find_map(|entry| risks.entry(entry));
        first.or_else(|| risks.loops().into_iter().next().map(|(risk, _)| risk))
    };
    let own: Vec<_> = bodies.iter().map(own).collect();
    let holds = or_calls(bodies, &own.iter().map(Option::is_some).collect::<Vec<_>>());
    // Who has none of its own has that of what it calls, or calls itself.
    for start in (0..bodies.len()).filter(|one| holds[*one]) {
        let (mut at, mut seen) = (start, BTreeSet::new());
        let mut path = Vec::new();
        risks[start] = loop {
            if let Some(known) =
                risks[at].or(own[at].map(|risk| Risk { function: Some(at as u32), ..risk }))
            {
                break Some(known);
            }
            if !seen.insert(at) {
                break path.last().map(|span| Risk {
                    span: *span,
                    why: Why::Depth,
                    function: Some(at as u32),
                });
            }
            let mut next = None;
            bodies[at].each_step(&mut |step| {
                if let StepKind::Set(_, Compute::Call(callee, _)) = &step.kind
                    && holds[*callee as usize]
                {
                    next = next.or(Some((*callee as usize, step.span)));
                }
            });
            let Some((callee, span)) = next else { break None };
            path.push(span);
            at = callee;
        };
    }
    risks
}

/// Tells what in a body is likely to fail.
pub(super) struct Risks<'a> {
    table: &'a Table<'a>,
    body: &'a Body,
    failing: Failing<'a>,
    given: Vec<bool>,
    functions: &'a [Option<Risk>],
}

impl<'a> Risks<'a> {
    /// `failing`: by function, whether it may fail. `functions`: what is likely to fail in it.
    pub(super) fn of(
        table: &'a Table<'a>,
        body: &'a Body,
        failing: &'a [bool],
        functions: &'a [Option<Risk>],
    ) -> Risks<'a> {
        let failing = Failing::of(body, failing);
        Risks { table, body, given: given(table, body, &failing), failing, functions }
    }

    /// Why a step may fail, unless what is around it makes sure that it does not.
    pub(super) fn entry(&self, entry: &Entry) -> Option<Risk> {
        let why = match &entry.step.kind {
            StepKind::Set(_, Compute::Call(function, args)) => {
                let risk = (*self.functions.get(*function as usize)?)?;
                let large = args.iter().any(|arg| self.is_given(*arg));
                return (large || !risk.why.of_large_ones()).then_some(risk);
            }
            StepKind::Set(_, compute) if self.failing.step(entry.step) => {
                self.computation(compute)?
            }
            StepKind::Remote(remote) => self.operation(remote)?,
            _ => return None,
        };
        let span = entry.step.span;
        (!self.is_tested(entry, why)).then_some(Risk { span, why, function: None })
    }

    /// Why a computation that can fail is likely to. What a program only counts by itself leaves 64
    /// bits in no time, and neither does a count of what is in memory, so at least one operand must
    /// be given; for `+` and `-` both: a given value that one more would take over the edge is too
    /// rare to warn of.
    fn computation(&self, compute: &Compute) -> Option<Why> {
        Some(match compute {
            Compute::Binary(BinaryOp::Divide | BinaryOp::Remainder, ..) => Why::Division,
            Compute::Binary(BinaryOp::Multiply, a, b) => {
                (self.is_given(*a) || self.is_given(*b)).then_some(Why::Overflow)?
            }
            Compute::Binary(_, a, b) => {
                (self.is_given(*a) && self.is_given(*b)).then_some(Why::Overflow)?
            }
            Compute::Builtin(Builtin::OrFail, _) => Why::Nothing,
            Compute::Builtin(Builtin::Index, args)
                if matches!(self.body.vars[args[0].0 as usize].ty, Type::Map(..)) =>
            {
                Why::Key
            }
            Compute::Builtin(Builtin::Index | Builtin::SetAt | Builtin::RemoveAt, _) => Why::Place,
            Compute::Builtin(Builtin::ToInt, _) => Why::Float,
            Compute::Builtin(Builtin::Split, _) => Why::Separator,
            // Only the smallest integer has no negative and no absolute value.
            _ => return None,
        })
    }

    fn operation(&self, remote: &Remote) -> Option<Why> {
        match remote.op {
            // `for` has looked whether the cell is there.
            ObjectOp::Field(_) if self.body.vars[remote.handle.0 as usize].purpose == "cell" => {
                None
            }
            ObjectOp::Field(_) => Some(Why::Object),
            ObjectOp::Load if matches!(remote.object, Object::Register(_)) => Some(Why::Register),
            _ => None,
        }
    }

    /// Loops that may have too many turns, each with its condition.
    pub(super) fn loops(&self) -> Vec<(Risk, Var)> {
        let mut found = Vec::new();
        self.body.each_step(&mut |step| {
            let StepKind::Loop { before, condition, .. } = &step.kind else { return };
            let walks = self.body.vars[condition.0 as usize].purpose == "turn"
                && before.iter().any(|step| self.asks_for_cell(step));
            if self.body.may_not_end(step) && !walks && self.is_unbounded(before, *condition) {
                let span = before.last().map_or(step.span, |last| last.span);
                found.push((Risk { span, why: Why::Turns, function: None }, *condition));
            }
        });
        found
    }

    /// Whether a step looks if there is another cell for `for`.
    fn asks_for_cell(&self, step: &Step) -> bool {
        match &step.kind {
            StepKind::Remote(remote) => self.body.vars[remote.handle.0 as usize].purpose == "cell",
            StepKind::If(_, then, _) => then.iter().any(|step| self.asks_for_cell(step)),
            _ => false,
        }
    }

    /// Whether nothing but what is given bounds the turns of a loop. Of `a && b` one of both is
    /// enough.
    fn is_unbounded(&self, steps: &[Step], condition: Var) -> bool {
        let mut unbounded = None;
        for (index, step) in steps.iter().enumerate() {
            let asked = |step: &Step| matches!(step.kind, StepKind::If(on, ..) if on == condition);
            match &step.kind {
                StepKind::If(_, then, other) if asked(step) => {
                    let before = unbounded.unwrap_or(true);
                    unbounded = Some(match other.is_empty() {
                        true => before && self.is_unbounded(then, condition),
                        false => before || self.is_unbounded(other, condition),
                    });
                }
                // Whether the loop was left bounds nothing.
                _ if step.dst() == Some(condition)
                    && self.body.vars[condition.0 as usize].purpose == "turn"
                    && steps[index + 1..].iter().any(asked) => {}
                StepKind::Set(dst, Compute::Copy(of)) if *dst == condition => {
                    unbounded = Some(self.is_unbounded(&steps[..index], *of));
                }
                _ if step.dst() == Some(condition) => {
                    let reads = matches!(step.kind, StepKind::Remote(_) | StepKind::Custom(_));
                    let given = step.inputs().into_iter().any(|var| self.is_given(var));
                    unbounded = Some(reads || given);
                }
                _ => {}
            }
        }
        unbounded.unwrap_or_else(|| self.is_given(condition))
    }

    fn is_given(&self, var: Var) -> bool {
        self.given[var.0 as usize]
    }

    /// Whether a condition that a step depends on looks at what makes it fail.
    fn is_tested(&self, entry: &Entry, why: Why) -> bool {
        let mut tests = Vec::new();
        for condition in &entry.conditions {
            self.tests(*condition, &mut BTreeSet::new(), &mut tests);
        }
        let compares = |var: Var| {
            tests.iter().any(|test| match &test.kind {
                StepKind::Set(_, Compute::Binary(op, a, b)) => {
                    op.compares() && (self.same(*a, var) || self.same(*b, var))
                }
                _ => false,
            })
        };
        let asks = |builtins: &[Builtin], of: &[Var]| {
            tests.iter().any(|test| match &test.kind {
                StepKind::Set(_, Compute::Builtin(builtin, args)) => {
                    builtins.contains(builtin)
                        && args.iter().zip(of).all(|(one, other)| self.same(*one, *other))
                }
                _ => false,
            })
        };
        match (&entry.step.kind, why) {
            (StepKind::Set(_, Compute::Binary(_, _, by)), Why::Division) => compares(*by),
            (StepKind::Set(_, Compute::Binary(_, a, b)), _) => {
                [a, b].into_iter().filter(|var| self.is_given(**var)).all(|var| compares(*var))
            }
            (StepKind::Set(_, Compute::Builtin(_, args)), Why::Nothing) => {
                asks(&[Builtin::IsSome, Builtin::IsNone], args)
            }
            (StepKind::Set(_, Compute::Builtin(_, args)), Why::Key) => {
                asks(&[Builtin::Contains], args)
            }
            (StepKind::Set(_, Compute::Builtin(_, args)), Why::Place) => {
                let len = |var: Var| match self.only_write(var) {
                    Some(StepKind::Set(_, Compute::Builtin(Builtin::Len, of))) => {
                        self.same(of[0], args[0])
                    }
                    _ => false,
                };
                tests.iter().any(|test| match &test.kind {
                    StepKind::Set(_, Compute::Binary(_, a, b)) => len(*a) || len(*b),
                    _ => false,
                })
            }
            (StepKind::Set(_, Compute::Builtin(_, args)), _) => compares(args[args.len() - 1]),
            (StepKind::Remote(remote), _) => {
                let same = |other: &Remote| self.same(other.handle, remote.handle);
                let asked = tests.iter().any(|test| match &test.kind {
                    StepKind::Remote(other) => other.op == ObjectOp::Exists && same(other),
                    _ => false,
                });
                // What was written before is there; and if it was read, that has failed in its
                // place.
                let before =
                    self.table.entries.iter().take_while(|one| !std::ptr::eq(one.step, entry.step));
                asked
                    || before.into_iter().any(|one| match &one.step.kind {
                        StepKind::Remote(other) => {
                            use ObjectOp::{Create, Field, Load, Put};
                            matches!(other.op, Create | Put | Field(_) | Load)
                                && same(other)
                                && one.conditions.iter().all(|on| entry.conditions.contains(on))
                        }
                        _ => false,
                    })
            }
            _ => false,
        }
    }

    /// The steps that a condition is computed by, through `!`, `&&` and `||`.
    fn tests(&self, condition: Var, seen: &mut BTreeSet<Var>, found: &mut Vec<&'a Step>) {
        if !seen.insert(condition) {
            return;
        }
        for index in &self.table.writes[condition.0 as usize] {
            let step = self.table.entries[*index].step;
            match &step.kind {
                StepKind::Set(_, Compute::Copy(of) | Compute::Unary(_, of)) => {
                    self.tests(*of, seen, found);
                }
                _ => found.push(step),
            }
        }
    }

    fn only_write(&self, var: Var) -> Option<&'a StepKind> {
        match self.table.writes[var.0 as usize][..] {
            [index] => Some(&self.table.entries[index].step.kind),
            _ => None,
        }
    }

    /// What a variable is a copy of.
    fn original(&self, mut var: Var) -> Var {
        while let Some(StepKind::Set(_, Compute::Copy(of))) = self.only_write(var) {
            var = *of;
        }
        var
    }

    /// Whether two variables stand for the same value: they are one, the same constant, or the same
    /// field.
    fn same(&self, one: Var, other: Var) -> bool {
        let [one, other] = [one, other].map(|var| self.original(var));
        if one == other {
            return true;
        }
        if let (Some(one), Some(other)) = (self.failing.constant(one), self.failing.constant(other))
        {
            return one == other;
        }
        match (self.only_write(one), self.only_write(other)) {
            (
                Some(StepKind::Set(_, Compute::Field(one, field))),
                Some(StepKind::Set(_, Compute::Field(other, same))),
            ) => field == same && self.same(*one, *other),
            _ => false,
        }
    }
}

/// By variable, whether its value comes from a parameter or a store, so that an integer in it may
/// be of any size. Sizes are not, and what `min`, `max` and `%` have bounded is not either.
fn given(table: &Table, body: &Body, failing: &Failing) -> Vec<bool> {
    let mut given = vec![false; body.vars.len()];
    let mut uses = vec![Vec::new(); body.vars.len()];
    for (index, entry) in table.entries.iter().enumerate() {
        entry.step.inputs().iter().for_each(|var| uses[var.0 as usize].push(index));
    }
    given[..body.params].fill(true);
    let mut due: Vec<usize> = (0..table.entries.len()).collect();
    while let Some(index) = due.pop() {
        let step = table.entries[index].step;
        let Some(dst) = step.dst().filter(|dst| !given[dst.0 as usize]) else { continue };
        let is_given = |var: Var| given[var.0 as usize];
        let now = match &step.kind {
            StepKind::Remote(remote) => remote.op != ObjectOp::Size,
            StepKind::Custom(_) => true,
            StepKind::Set(_, Compute::Builtin(Builtin::Len, _)) => false,
            StepKind::Set(_, Compute::Binary(BinaryOp::Remainder, _, by))
                if failing.constant(*by).is_some() =>
            {
                false
            }
            StepKind::Set(_, Compute::Builtin(Builtin::Min | Builtin::Max, args)) => {
                args.iter().all(|arg| is_given(*arg))
            }
            _ => step.inputs().into_iter().any(is_given),
        };
        if now {
            given[dst.0 as usize] = true;
            due.extend(&uses[dst.0 as usize]);
        }
    }
    given
}
