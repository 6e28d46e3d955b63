//! `return`, `break` and `continue` become branches: what follows them is done only if nothing was left. So
//! the rules for branches hold for them, and a transaction can be split along them.

use solera_program::span::Span;
use solera_program::types::Type;
use solera_program::value::Value;

use super::lower::Lower;
use crate::flat::{Compute, StepKind, Var};
use crate::syntax::ast::{Block, ExprKind, Literal, Stmt, StmtKind, UnaryOp};

/// The flags that say what was left.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// How many statements that may leave come before the one that is lowered.
    pub(super) depth: usize,
    /// Whether some `return` is followed by something.
    early_return: bool,
    returned: Option<Var>,
    loops: Vec<LoopExits>,
}

#[derive(Debug, Default)]
struct LoopExits {
    broken: Option<Var>,
    skipped: Option<Var>,
}

/// What a statement may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaves {
    pub(super) function: bool,
    pub(super) the_loop: bool,
    pub(super) turn: bool,
}

impl Leaves {
    fn or(self, other: Leaves) -> Leaves {
        Leaves {
            function: self.function || other.function,
            the_loop: self.the_loop || other.the_loop,
            turn: self.turn || other.turn,
        }
    }
}

/// What the statements of a block may leave.
pub(super) fn leaves_block(block: &Block) -> Leaves {
    block.statements.iter().map(leaves).fold(Leaves::default(), Leaves::or)
}

/// What a statement may leave.
pub(super) fn leaves(statement: &Stmt) -> Leaves {
    match &statement.kind {
        StmtKind::Return(_) => Leaves { function: true, ..Leaves::default() },
        StmtKind::Break => Leaves { the_loop: true, ..Leaves::default() },
        StmtKind::Continue => Leaves { turn: true, ..Leaves::default() },
        StmtKind::If(_, then, other) => {
            let other = other.as_ref().map(leaves_block).unwrap_or_default();
            leaves_block(then).or(other)
        }
        StmtKind::Match(_, arms) => {
            arms.iter().map(|arm| leaves_block(&arm.body)).fold(Leaves::default(), Leaves::or)
        }
        StmtKind::Block(block) => leaves_block(block),
        StmtKind::While(_, body) | StmtKind::For(_, _, body) => {
            Leaves { function: leaves_block(body).function, ..Leaves::default() }
        }
        _ => Leaves::default(),
    }
}

/// The first `return`, `break` or `continue` of a statement that may leave what is around it.
fn first_exit(statement: &Stmt) -> Option<Span> {
    let in_block = |block: &Block| block.statements.iter().find_map(first_exit);
    if leaves(statement) == Leaves::default() {
        return None;
    }
    match &statement.kind {
        StmtKind::If(_, then, other) => {
            in_block(then).or_else(|| other.as_ref().and_then(in_block))
        }
        StmtKind::Match(_, arms) => arms.iter().find_map(|arm| in_block(&arm.body)),
        StmtKind::Block(block) => in_block(block),
        StmtKind::While(_, body) | StmtKind::For(_, _, body) => in_block(body),
        _ => Some(statement.span),
    }
}

/// Whether the end of a block cannot be reached.
pub(super) fn always_returns(block: &Block) -> bool {
    block.statements.iter().any(|statement| match &statement.kind {
        StmtKind::Return(_) | StmtKind::Abort(_) => true,
        StmtKind::If(_, then, Some(other)) => always_returns(then) && always_returns(other),
        StmtKind::Match(_, arms) => arms.iter().all(|arm| always_returns(&arm.body)),
        StmtKind::Block(block) => always_returns(block),
        // It ends by a `return`, or not at all.
        StmtKind::While(condition, body) => {
            condition.kind == ExprKind::Literal(Literal::Bool(true)) && !leaves_block(body).the_loop
        }
        _ => false,
    })
}

/// Whether a block has a `return` that is followed by something, or is in a loop.
fn returns_early(statements: &[Stmt], tail: bool) -> bool {
    let last = statements.len().saturating_sub(1);
    statements.iter().enumerate().any(|(index, statement)| {
        let tail = tail && index == last;
        match &statement.kind {
            StmtKind::Return(_) => !tail,
            StmtKind::If(_, then, other) => {
                returns_early(&then.statements, tail)
                    || other.as_ref().is_some_and(|other| returns_early(&other.statements, tail))
            }
            StmtKind::Match(_, arms) => {
                arms.iter().any(|arm| returns_early(&arm.body.statements, tail))
            }
            StmtKind::Block(block) => returns_early(&block.statements, tail),
            StmtKind::While(_, body) | StmtKind::For(_, _, body) => leaves_block(body).function,
            _ => false,
        }
    })
}

impl Exits {
    /// Looks at a transaction's body before it is lowered.
    pub(super) fn begin(&mut self, body: &Block) {
        self.early_return = returns_early(&body.statements, true);
    }

    /// Whether there is a loop around.
    pub(super) fn in_loop(&self) -> bool {
        !self.loops.is_empty()
    }
}

impl Lower<'_> {
    /// At the beginning of a transaction: the flag that says whether it has returned, if it needs one.
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

    /// Whether a loop with this body may have another turn, as far as `break` and `return` are concerned.
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
