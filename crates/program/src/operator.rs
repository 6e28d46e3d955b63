//! Operators of expressions.

use serde::{Deserialize, Serialize};

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnaryOp {
    /// `-`
    Negate,
    /// `!`
    Not,
}

/// An operator between its operands.
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
    /// `&&`: the right side is evaluated only if it matters.
    And,
    /// `||`: the right side is evaluated only if it matters.
    Or,
}

impl BinaryOp {
    /// As it is written.
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

    /// How strongly it binds: the stronger, the more.
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

    /// Whether it compares: such operators do not follow one another.
    pub fn compares(self) -> bool {
        self.power() == BinaryOp::Equal.power()
    }
}
