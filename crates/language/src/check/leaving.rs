//! Lowers `return`, `break` and `continue` to branches: the statements that follow run only if no
//! exit was taken. The rules for branches therefore apply to exits, and a transaction can be split
//! along them.

use solera_program::span::Span;
use solera_program::types::Type;
use solera_program::value::Value;

use super::exits::{Leaves, LoopExits, first_exit, leaves, leaves_block};
use super::lower::Lower;
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{Block, Stmt, UnaryOp};

impl Lower<'_> {
    /// Creates, at the beginning of a transaction, the flag that records whether it has returned,
    /// if it needs one.
    pub(super) fn make_exit_flag(&mut self, span: Span) {
        if self.exits.early_return {
            let flag = self.constant(span, Type::Bool, Value::Bool(false));
            self.exits.returned = Some(self.purpose(flag, "returned"));
        }
    }

    /// Computes, after a statement that may exit, whether no exit was taken; `None` if that needs
    /// no flags.
    pub(super) fn go_on_after(&mut self, statement: &Stmt) -> Option<Var> {
        let span = first_exit(statement)?;
        self.go_on(leaves(statement), span)
    }

    /// Computes whether none of the constructs `left` was left.
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

    /// Opens a loop, before its steps are emitted.
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

    /// Resets the loop's flags at the beginning of an iteration.
    pub(super) fn begin_iteration(&mut self, span: Span) {
        if let Some(skipped) = self.exits.loops.last().and_then(|one| one.skipped) {
            self.step(span, StepKind::Set(skipped, Compute::Const(Value::Bool(false))));
        }
    }

    /// Computes whether `break` and `return` permit another iteration of a loop with this body.
    pub(super) fn may_iterate(&mut self, body: &Block, span: Span) -> Option<Var> {
        let left = Leaves { turn: false, ..leaves_block(body) };
        let exit = body.statements.iter().find_map(first_exit);
        self.go_on(left, exit.unwrap_or(span))
    }

    /// Lowers `return` in a transaction: sets its flag.
    pub(super) fn mark_returned(&mut self, span: Span) {
        if let Some(returned) = self.exits.returned {
            self.step(span, StepKind::Set(returned, Compute::Const(Value::Bool(true))));
        }
    }

    /// Lowers `break` or `continue` in a loop: sets its flag.
    pub(super) fn mark_left(&mut self, iteration_only: bool, span: Span) {
        let exits = self.exits.loops.last();
        let flag = exits.and_then(|one| if iteration_only { one.skipped } else { one.broken });
        if let Some(flag) = flag {
            self.step(span, StepKind::Set(flag, Compute::Const(Value::Bool(true))));
        }
    }
}
