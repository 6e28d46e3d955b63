//! `return`, `break` and `continue` become branches: what follows them is done only if nothing was
//! left. So the rules for branches hold for them, and a transaction can be split along them.

use solera_program::span::Span;
use solera_program::types::Type;
use solera_program::value::Value;

use super::exits::{Leaves, LoopExits, first_exit, leaves, leaves_block};
use super::lower::Lower;
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{Block, Stmt, UnaryOp};

impl Lower<'_> {
    /// At the beginning of a transaction: the flag that says whether it has returned, if it needs
    /// one.
    pub(super) fn make_exit_flag(&mut self, span: Span) {
        if self.exits.early_return {
            let flag = self.constant(span, Type::Bool, Value::Bool(false));
            self.exits.returned = Some(self.purpose(flag, "returned"));
        }
    }

    /// After a statement that may leave something, if that needs flags: whether nothing was left.
    pub(super) fn go_on_after(&mut self, statement: &Stmt) -> Option<Var> {
        let span = first_exit(statement)?;
        self.go_on(leaves(statement), span)
    }

    /// Whether nothing was left of what may have been.
    fn go_on(&mut self, left: Leaves, span: Span) -> Option<Var> {
        let flags = [
            self.exits.returned.filter(|_| left.function),
            self.exits.loops.last().and_then(|one| one.broken).filter(|_| left.the_loop),
            self.exits.loops.last().and_then(|one| one.skipped).filter(|_| left.turn),
        ];
        let mut go_on: Option<Var> = None;
        for flag in flags.into_iter().flatten() {
            let unset = self.compute(span, Type::Bool, Compute::Unary(UnaryOp::Not, flag));
            self.purpose(unset, "go_on");
            go_on = Some(match go_on {
                None => unset,
                Some(so_far) => self.both(so_far, unset, span),
            });
        }
        go_on
    }

    fn both(&mut self, one: Var, other: Var, span: Span) -> Var {
        let all = self.compute(span, Type::Bool, Compute::Copy(one));
        self.purpose(all, "go_on");
        let then = self.capture(|this| {
            this.step(span, StepKind::Set(all, Compute::Copy(other)));
        });
        self.step(span, StepKind::If(all, then, Vec::new()));
        all
    }

    /// Opens a loop, before its steps are written.
    pub(super) fn enter_loop(&mut self, body: &Block, span: Span) {
        let left = leaves_block(body);
        let mut flag = |needed: bool, purpose| {
            needed.then(|| {
                let flag = self.constant(span, Type::Bool, Value::Bool(false));
                self.purpose(flag, purpose)
            })
        };
        let broken = flag(left.the_loop, "broken");
        let exits = LoopExits { broken, skipped: flag(left.turn, "skipped") };
        self.exits.loops.push(exits);
    }

    /// Closes a loop.
    pub(super) fn leave_loop(&mut self) {
        self.exits.loops.pop();
    }

    /// At the beginning of a turn.
    pub(super) fn begin_turn(&mut self, span: Span) {
        if let Some(skipped) = self.exits.loops.last().and_then(|one| one.skipped) {
            self.step(span, StepKind::Set(skipped, Compute::Const(Value::Bool(false))));
        }
    }

    /// Whether a loop with this body may have another turn, as far as `break` and `return` are
    /// concerned.
    pub(super) fn another_turn(&mut self, body: &Block, span: Span) -> Option<Var> {
        let left = Leaves { turn: false, ..leaves_block(body) };
        let exit = body.statements.iter().find_map(first_exit);
        self.go_on(left, exit.unwrap_or(span))
    }

    /// `return`, in a transaction.
    pub(super) fn mark_returned(&mut self, span: Span) {
        if let Some(returned) = self.exits.returned {
            self.step(span, StepKind::Set(returned, Compute::Const(Value::Bool(true))));
        }
    }

    /// `break` or `continue`, in a loop.
    pub(super) fn mark_left(&mut self, turn_only: bool, span: Span) {
        let exits = self.exits.loops.last();
        let flag = exits.and_then(|one| if turn_only { one.skipped } else { one.broken });
        if let Some(flag) = flag {
            self.step(span, StepKind::Set(flag, Compute::Const(Value::Bool(true))));
        }
    }
}
