//! Formats expressions with the minimal parentheses.

use crate::syntax::ast::BinaryOp;

/// An expression as text, and its precedence.
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
    /// Needs parentheses beside any operator.
    Whole,
}

impl Term {
    pub(super) fn atom(text: impl Into<String>) -> Term {
        Term { text: text.into(), binds: Binds::Atom }
    }

    /// Formats it as an operand, with parentheses unless it binds at least this strongly.
    pub(super) fn within(&self, most: Binds) -> String {
        if self.binds <= most { self.text.clone() } else { format!("({})", self.text) }
    }

    /// Formats it before a dot, an arrow or a bracket.
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
