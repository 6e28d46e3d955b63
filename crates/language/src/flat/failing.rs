//! Finds computations that may fail. Ignores values that grow too large, and fuel or memory that
//! runs out without a loop.

use solera_program::builtin::Builtin;
use solera_program::span::Span;
use solera_program::types::Type;
use solera_program::value::{RESERVED, Value, is_usable_key};

use super::{Body, Compute, Step, StepKind, Var, each};
use crate::syntax::ast::{BinaryOp, UnaryOp};

/// Analysis of which computations of a body may fail.
#[derive(Debug)]
pub struct Failing<'a> {
    body: &'a Body,
    /// For each variable, its constant value, if it has one.
    constants: Vec<Option<&'a Value>>,
    /// For each variable, a text that its value begins with, if one is known.
    begins: Vec<Option<&'a str>>,
    /// For each function, whether it may fail.
    functions: &'a [bool],
}

impl<'a> Failing<'a> {
    /// Analyses a body. `functions` gives, for each function, whether it may fail.
    pub fn of(body: &'a Body, functions: &'a [bool]) -> Failing<'a> {
        let mut constants = vec![None; body.vars.len()];
        let mut begins: Vec<Option<&str>> = vec![None; body.vars.len()];
        let once = body.written_once();
        // A variable that is written once is written before its uses.
        body.each_step(&mut |step| {
            let StepKind::Set(dst, compute) = &step.kind else { return };
            let index = dst.0 as usize;
            if !once[index] {
                return;
            }
            if let Compute::Const(value) = compute {
                constants[index] = Some(value);
            }
            begins[index] = match compute {
                Compute::Const(Value::String(text)) => Some(text),
                Compute::Copy(of) | Compute::Binary(BinaryOp::Add, of, _) => begins[of.0 as usize],
                _ => None,
            };
        });
        Failing { body, constants, begins, functions }
    }

    /// Returns the constant value of a variable.
    pub fn constant(&self, var: Var) -> Option<&'a Value> {
        self.constants[var.0 as usize]
    }

    /// Returns whether a step is a computation that may fail, so that it must run even if its value
    /// is unused.
    pub fn step(&self, step: &Step) -> bool {
        match &step.kind {
            StepKind::Set(dst, compute) => self.compute(*dst, compute, step.span),
            _ => false,
        }
    }

    fn compute(&self, dst: Var, compute: &Compute, at: Span) -> bool {
        let purpose = |var: Var| self.body.vars[var.0 as usize].purpose;
        let is_int = || self.body.vars[dst.0 as usize].ty == Type::Int;
        match compute {
            Compute::Const(_)
            | Compute::Copy(_)
            | Compute::Field(..)
            | Compute::WithField(..)
            | Compute::Struct(..)
            | Compute::List(_)
            | Compute::Set(_)
            | Compute::Map(_)
            | Compute::Unary(UnaryOp::Not, _) => false,
            Compute::Unary(UnaryOp::Negate, _) => is_int(),
            Compute::Binary(BinaryOp::Divide | BinaryOp::Remainder, _, by) => {
                let fine = |by: &Value| !matches!(by, Value::Int(0 | -1));
                is_int() && !self.constant(*by).is_some_and(fine)
            }
            // The index of an element is at most the number of elements.
            Compute::Binary(op, ..) => !op.compares() && is_int() && purpose(dst) != "next",
            Compute::Builtin(Builtin::Abs, _) => is_int(),
            Compute::Builtin(Builtin::Index, args) => purpose(args[0]) != "all",
            // The pattern matched, so the value exists here; later assignments to the variable are
            // other steps.
            Compute::Builtin(Builtin::OrFail, _) => {
                purpose(dst) != "matched" || self.body.vars[dst.0 as usize].span != at
            }
            Compute::Builtin(Builtin::Split, args) => match self.constant(args[1]) {
                Some(Value::String(by)) => by.is_empty(),
                _ => true,
            },
            Compute::Builtin(builtin, _) => builtin.can_fail(),
            Compute::Call(function, _) => self.functions[*function as usize],
            Compute::Handle(_, key) => self.key_may_be_invalid(*key),
        }
    }

    /// Returns whether programs may be unable to use a key, as far as the text that it begins with
    /// is known.
    fn key_may_be_invalid(&self, key: Var) -> bool {
        let begin = self.begins[key.0 as usize].unwrap_or_default();
        // An empty beginning, or a part of the reserved one, leaves it to the rest of the key.
        let undecided = RESERVED.starts_with(begin) && self.constant(key).is_none();
        undecided || !is_usable_key(begin)
    }

    /// Returns the first step that may fail, or the first loop that may not terminate.
    pub fn first(&self) -> Option<&'a Step> {
        let mut found = None;
        self.body.each_step(&mut |step| {
            if found.is_none() && (self.step(step) || self.body.may_not_end(step)) {
                found = Some(step);
            }
        });
        found
    }
}

impl Body {
    /// Returns whether a step is a loop that may not terminate: any loop except a `for` over a
    /// value.
    pub fn may_not_end(&self, step: &Step) -> bool {
        let StepKind::Loop { before, .. } = &step.kind else { return false };
        let mut counts = false;
        each(before, &mut |step| {
            if let StepKind::Set(_, Compute::Binary(BinaryOp::Less, next, _)) = &step.kind {
                counts |= self.vars[next.0 as usize].purpose == "next";
            }
        });
        !counts
    }
}

/// Returns, for each function, whether it may fail. A function that calls itself, directly or
/// indirectly, may exceed the maximum depth.
pub fn functions(bodies: &[&Body]) -> Vec<bool> {
    let none = vec![false; bodies.len()];
    let own = |body: &&Body| Failing::of(body, &none).first().is_some();
    or_calls(bodies, &bodies.iter().map(own).collect::<Vec<_>>())
}

/// Returns, for each function, whether a property holds for it or for a function that it calls,
/// directly or indirectly. Recursive functions are assumed to have the property.
pub fn or_calls(bodies: &[&Body], own: &[bool]) -> Vec<bool> {
    let mut calls = vec![0; bodies.len()];
    let mut callers = vec![Vec::new(); bodies.len()];
    for (caller, body) in bodies.iter().enumerate() {
        body.each_step(&mut |step| {
            if let StepKind::Set(_, Compute::Call(callee, _)) = &step.kind {
                calls[caller] += 1;
                callers[*callee as usize].push(caller);
            }
        });
    }
    // Repeatedly clears the functions that call none that may have the property.
    let mut holds = vec![true; bodies.len()];
    let mut free: Vec<usize> =
        (0..bodies.len()).filter(|one| calls[*one] == 0 && !own[*one]).collect();
    while let Some(one) = free.pop() {
        holds[one] = false;
        for caller in &callers[one] {
            calls[*caller] -= 1;
            if calls[*caller] == 0 && !own[*caller] {
                free.push(*caller);
            }
        }
    }
    holds
}
