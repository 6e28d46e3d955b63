//! Finds steps that are likely to fail on bad data.

use std::collections::BTreeSet;

use solera_program::builtin::Builtin;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, Type};

use super::table::{Entry, Table};
use crate::flat::{Body, Compute, Failing, Remote, Step, StepKind, Var, or_calls};
use crate::risk::{Risk, Why};
use crate::syntax::ast::BinaryOp;

/// Returns, for each function, the step that is likely to fail for some arguments, if any.
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
    // A function without a risk of its own inherits that of a function that it calls, or is
    // recursive.
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

/// Analysis of which steps of a body are likely to fail.
pub(super) struct Risks<'a> {
    table: &'a Table<'a>,
    body: &'a Body,
    failing: Failing<'a>,
    given: Vec<bool>,
    functions: &'a [Option<Risk>],
}

impl<'a> Risks<'a> {
    /// Analyses a body. `failing` is, for each function, whether it may fail, and `functions` the
    /// risk in each function.
    pub(super) fn of(
        table: &'a Table<'a>,
        body: &'a Body,
        failing: &'a [bool],
        functions: &'a [Option<Risk>],
    ) -> Risks<'a> {
        let failing = Failing::of(body, failing);
        Risks { table, body, given: given(table, body, &failing), failing, functions }
    }

    /// Returns why a step may fail, unless its conditions prevent the failure.
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

    /// Returns why a computation is likely to fail. A count that the program itself maintains, or a
    /// count of values in memory, never exceeds 64 bits. A computation is therefore reported only
    /// if an operand comes from a parameter or a store. For `+` and `-` both operands must, because
    /// an input that overflows by adding one is too rare for a warning.
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
            Compute::Handle(..) => Why::InvalidKey,
            // Only the smallest integer overflows when negated, which is too rare for a warning.
            _ => return None,
        })
    }

    fn operation(&self, remote: &Remote) -> Option<Why> {
        match remote.op {
            // `for` has tested that the cell exists.
            ObjectOp::Field(_) if self.body.vars[remote.handle.0 as usize].purpose == "cell" => {
                None
            }
            ObjectOp::Field(_) => Some(Why::Object),
            ObjectOp::Load if matches!(remote.object, Object::Register(_)) => Some(Why::Register),
            _ => None,
        }
    }

    /// Returns the loops that may have too many iterations, each with its condition.
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

    /// Returns whether a step tests the existence of the next cell for a `for`.
    fn asks_for_cell(&self, step: &Step) -> bool {
        match &step.kind {
            StepKind::Remote(remote) => self.body.vars[remote.handle.0 as usize].purpose == "cell",
            StepKind::If(_, then, _) => then.iter().any(|step| self.asks_for_cell(step)),
            _ => false,
        }
    }

    /// Returns whether only outside input bounds the iterations of a loop. For `a && b`, one
    /// bounded side is enough.
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
                // The exit flag of the loop is not a bound.
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

    /// Returns whether a condition of the step tests for the cause of its failure.
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
                // An object that was written before exists; and if it was read before, that read
                // would have failed first.
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

    /// Collects the steps that compute a condition, through `!`, `&&` and `||`.
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

    /// Returns the variable that `var` is a copy of.
    fn original(&self, mut var: Var) -> Var {
        while let Some(StepKind::Set(_, Compute::Copy(of))) = self.only_write(var) {
            var = *of;
        }
        var
    }

    /// Returns whether two variables have the same value: they are the same variable, constant or
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

/// Returns, for each variable, whether its value comes from a parameter or a store, so that an
/// integer in it may have any value. Sizes are excluded, and so are results of `min`, `max` and
/// `%`.
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
