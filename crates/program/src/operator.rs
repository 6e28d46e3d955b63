//! Operators of expressions.

use serde::{Deserialize, Serialize};

/// A unary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`
    Not,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BinaryOp {
    /// `+`: numbers, texts, bytes, lists
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `&&`: evaluates the right side only if the left one is `true`.
    And,
    /// `||`: evaluates the right side only if the left one is `false`.
    Or,
}

impl BinaryOp {
    /// Returns its spelling.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Remainder => "%",
            BinaryOp::Equal => "==",
            BinaryOp::Unequal => "!=",
            BinaryOp::Less => "<",
            BinaryOp::LessEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterEqual => ">=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }

    /// Returns its binding power; higher binds more strongly.
    pub fn power(self) -> u8 {
        use BinaryOp::*;
        match self {
            Or => 1,
            And => 2,
            Equal | Unequal | Less | LessEqual | Greater | GreaterEqual => 3,
            Add | Subtract => 4,
            Multiply | Divide | Remainder => 5,
        }
    }

    /// Returns whether it is a comparison. Comparisons cannot be chained.
    pub fn compares(self) -> bool {
        self.power() == BinaryOp::Equal.power()
    }
}
