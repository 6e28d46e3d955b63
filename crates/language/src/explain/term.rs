//! Expressions as text, with as few brackets as they need.

use crate::syntax::ast::BinaryOp;

/// An expression, and how strongly its parts hold together.
#[derive(Clone)]
pub(super) struct Term {
    pub(super) text: String,
    pub(super) binds: Binds,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binds {
    Atom,
    Prefix,
    Arithmetic,
    Comparison,
    And,
    Or,
    /// Nothing stands beside it without brackets.
    Whole,
}

impl Term {
    pub(super) fn atom(text: impl Into<String>) -> Term {
        Term { text: text.into(), binds: Binds::Atom }
    }

    /// As a part of something, with brackets unless it holds together at least so strongly.
    pub(super) fn within(&self, most: Binds) -> String {
        if self.binds <= most { self.text.clone() } else { format!("({})", self.text) }
    }

    /// Before a dot, an arrow or a bracket.
    pub(super) fn receiver(&self) -> String {
        self.within(Binds::Atom)
    }

    pub(super) fn binary(&self, operator: BinaryOp, other: &Term) -> Term {
        let (binds, most) = match operator {
            BinaryOp::And => (Binds::And, Binds::And),
            BinaryOp::Or => (Binds::Or, Binds::Or),
            _ if operator.compares() => (Binds::Comparison, Binds::Arithmetic),
            _ => (Binds::Arithmetic, Binds::Prefix),
        };
        let (one, other) = (self.within(most), other.within(most));
        Term { text: format!("{one} {} {other}", operator.symbol()), binds }
    }
}
