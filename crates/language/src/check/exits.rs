//! Finds the blocks and loops that `return`, `break` and `continue` may leave, and manages the
//! flags that record an exit.

use solera_program::span::Span;

use crate::flat::Var;
use crate::syntax::ast::{Block, ExprKind, Literal, Stmt, StmtKind};

/// Flags that record which constructs were left.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// Number of statements that may exit before the one being lowered.
    pub(super) depth: usize,
    /// Whether statements follow some `return`.
    pub(super) early_return: bool,
    pub(super) returned: Option<Var>,
    pub(super) loops: Vec<LoopExits>,
}

#[derive(Debug, Default)]
pub(super) struct LoopExits {
    pub(super) broken: Option<Var>,
    pub(super) skipped: Option<Var>,
}

/// Constructs that a statement may leave.
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

/// Returns the constructs that the statements of a block may leave.
pub(super) fn leaves_block(block: &Block) -> Leaves {
    block.statements.iter().map(leaves).fold(Leaves::default(), Leaves::or)
}

/// Returns the constructs that a statement may leave.
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

/// Returns the first `return`, `break` or `continue` in a statement that may leave the enclosing
/// construct.
pub(super) fn first_exit(statement: &Stmt) -> Option<Span> {
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

/// Returns whether the end of a block cannot be reached.
pub(super) fn always_returns(block: &Block) -> bool {
    block.statements.iter().any(|statement| match &statement.kind {
        StmtKind::Return(_) | StmtKind::Abort(_) => true,
        StmtKind::If(_, then, Some(other)) => always_returns(then) && always_returns(other),
        StmtKind::Match(_, arms) => arms.iter().all(|arm| always_returns(&arm.body)),
        StmtKind::Block(block) => always_returns(block),
        // Such a loop ends by a `return`, or never.
        StmtKind::While(condition, body) => {
            condition.kind == ExprKind::Literal(Literal::Bool(true)) && !leaves_block(body).the_loop
        }
        _ => false,
    })
}

/// Returns whether a block has a `return` that is inside a loop or that statements follow.
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
    /// Analyses a transaction's body before it is lowered.
    pub(super) fn begin(&mut self, body: &Block) {
        self.early_return = returns_early(&body.statements, true);
    }

    /// Returns whether the current statement is inside a loop.
    pub(super) fn in_loop(&self) -> bool {
        !self.loops.is_empty()
    }
}
