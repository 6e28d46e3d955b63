//! Lowers operators.

use solera_program::span::Span;
use solera_program::types::{Object, Type};

use super::lower::{Lower, is_assignable, is_known};
use crate::diagnostic::Diagnostic;
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{BinaryOp, Expr};

impl Lower<'_> {
    /// Lowers `&&` and `||`, which evaluate the right side only if the left one does not decide.
    pub(super) fn shortcut(&mut self, op: BinaryOp, left: &Expr, right: &Expr, span: Span) -> Var {
        let first = self.expression(left, Some(&Type::Bool));
        self.require_type(first, &Type::Bool, left.span);
        let all = self.compute(span, Type::Bool, Compute::Copy(first));
        let second = self.capture(|this| {
            let second = this.expression(right, Some(&Type::Bool));
            this.require_type(second, &Type::Bool, right.span);
            this.step(span, StepKind::Set(all, Compute::Copy(second)));
        });
        match op {
            BinaryOp::And => self.step(span, StepKind::If(all, second, Vec::new())),
            _ => self.step(span, StepKind::If(all, Vec::new(), second)),
        }
        all
    }

    /// Lowers an operator that evaluates both sides.
    pub(super) fn binary(&mut self, op: BinaryOp, left: Var, right: Var, span: Span) -> Var {
        let (one, other) = (self.type_of(left), self.type_of(right));
        let unknown = one == Type::Unknown || other == Type::Unknown;
        let fine = is_assignable(&one, &other)
            && match op {
                BinaryOp::Equal | BinaryOp::Unequal => true,
                BinaryOp::Less
                | BinaryOp::LessEqual
                | BinaryOp::Greater
                | BinaryOp::GreaterEqual => {
                    matches!(one, Type::Int | Type::Float | Type::String | Type::Bytes)
                }
                BinaryOp::Add => matches!(
                    one,
                    Type::Int | Type::Float | Type::String | Type::Bytes | Type::List(_)
                ),
                _ => matches!(one, Type::Int | Type::Float),
            };
        if !fine && !unknown {
            self.no_operator(op, [left, right], span);
        }
        let ty = match (op.compares(), one) {
            (true, _) => Type::Bool,
            (false, Type::List(of)) if !is_known(&of) => other,
            (false, one) if fine => one,
            _ => Type::Unknown,
        };
        self.compute(span, ty, Compute::Binary(op, left, right))
    }

    fn no_operator(&mut self, op: BinaryOp, sides: [Var; 2], span: Span) {
        let types = sides.map(|side| self.type_of(side));
        let [one, other] = types.each_ref().map(|ty| self.known.show(ty));
        let spans = sides.map(|side| self.body.vars[side.0 as usize].span);
        let message = format!("`{}` does not take {one} and {other}", op.symbol());
        let mut error = Diagnostic::error("E0212", span, message);
        if one != other && spans.iter().all(|at| span.start <= at.start && at.end <= span.end) {
            error = error.mark(spans[0], one).mark(spans[1], other);
        }
        if let Some(levels) = self.levels_of_stores(&types[0], &types[1]) {
            error = error.note(levels);
        }
        self.diagnostics.push(error.help(instead(op, &types)));
    }
}

/// Suggests an alternative where an operator does not accept the types of its sides.
fn instead(op: BinaryOp, sides: &[Type; 2]) -> &'static str {
    let has = |test: fn(&Type) -> bool| sides.iter().any(test);
    let arithmetic = !op.compares() && op != BinaryOp::Add;
    let register =
        |ty: &Type| matches!(ty, Type::Handle(at, _) if matches!(**at, Object::Register(_)));
    let counter = |ty: &Type| matches!(ty, Type::Handle(at, _) if **at == Object::Counter);
    match sides {
        _ if has(|ty| matches!(ty, Type::Option(_))) => "give a value for `none`: `….or(…)`",
        [Type::Int, Type::Float] | [Type::Float, Type::Int] => "convert the integer: `float(…)`",
        [Type::String, Type::Int] | [Type::Int, Type::String] if arithmetic => {
            "convert the string: `….parse_int().or(…)`"
        }
        [Type::String, Type::Float] | [Type::Float, Type::String] if arithmetic => {
            "convert the string: `….parse_float().or(…)`"
        }
        [Type::String, Type::Int | Type::Float | Type::Bool]
        | [Type::Int | Type::Float | Type::Bool, Type::String]
            if !arithmetic =>
        {
            "convert the other operand: `string(…)`"
        }
        _ if has(register) => "read it first: `*…`",
        _ if has(counter) => "read it first: `….value()`",
        [Type::Set(_), Type::Set(_)] => match op {
            BinaryOp::Add => "write `….union(…)`",
            BinaryOp::Subtract => "write `….difference(…)`",
            _ => "compare their lengths, `….len()`, or look for elements, `….contains(…)`",
        },
        _ => match op {
            BinaryOp::Equal | BinaryOp::Unequal => "it takes two values of one type",
            BinaryOp::Add => "it takes two integers, floats, strings, bytes or lists of one type",
            _ if op.compares() => "it takes two integers, floats, strings or bytes",
            _ => "it takes two integers or two floats",
        },
    }
}
