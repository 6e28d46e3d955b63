//! Parses binary and unary operators.

use solera_program::span::Span;

use super::{Parse, Parser};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{BinaryOp, Expr, ExprKind, Literal, UnaryOp};
use crate::syntax::codes;
use crate::syntax::lexer::shown;
use crate::syntax::token::{Token, TokenKind};

/// A left operand with its operator, pending the right operand.
struct Pending {
    left: Expr,
    /// Nesting depth of the operand.
    height: usize,
    op: BinaryOp,
    span: Span,
}

/// Returns the binary operator of a token.
fn binary_op(kind: TokenKind) -> Option<BinaryOp> {
    use TokenKind::*;
    Some(match kind {
        Plus => BinaryOp::Add,
        Minus => BinaryOp::Subtract,
        Star => BinaryOp::Multiply,
        Slash => BinaryOp::Divide,
        Percent => BinaryOp::Remainder,
        EqEq => BinaryOp::Equal,
        NotEq => BinaryOp::Unequal,
        Less => BinaryOp::Less,
        LessEq => BinaryOp::LessEqual,
        Greater => BinaryOp::Greater,
        GreaterEq => BinaryOp::GreaterEqual,
        AndAnd | Amp => BinaryOp::And,
        OrOr | Pipe => BinaryOp::Or,
        _ => return None,
    })
}

impl Parser<'_> {
    /// Parses operands with binary operators. Pending operands are in a list instead of on the call
    /// stack, so that expressions in parentheses use little of it.
    pub(super) fn binary(&mut self) -> Parse<Expr> {
        let mut pending: Vec<Pending> = Vec::new();
        loop {
            let mut operand = self.unary()?;
            let next = self.peek_operator();
            let least = next.map_or(0, BinaryOp::power);
            while let Some(left) = pending.pop_if(|left| left.op.power() >= least) {
                let chained = next.filter(|next| next.compares() && left.op.compares());
                operand = self.joined(left, operand, chained)?;
            }
            let Some(op) = next else { return Ok(operand) };
            let height = self.height;
            let span = self.operator_sign(op);
            pending.push(Pending { left: operand, height, op, span });
        }
    }

    /// Combines two operands; the second is the expression that was parsed last. `chained` is the
    /// operator that follows, if it must not follow this one.
    fn joined(&mut self, pending: Pending, right: Expr, chained: Option<BinaryOp>) -> Parse<Expr> {
        let Pending { left, height, op, span } = pending;
        self.height = self.height.max(height);
        self.raise(span)?;
        let whole = left.span.to(right.span);
        let kind = match chained {
            Some(next) => {
                self.chained(span, whole, right.span, next);
                ExprKind::Error
            }
            // The rest of a chain has no meaning, either; its type would cause further errors.
            None if op.compares() && matches!(left.kind, ExprKind::Error) => ExprKind::Error,
            None => ExprKind::Binary(op, Box::new(left), Box::new(right)),
        };
        Ok(Expr { kind, span: whole })
    }

    /// Returns the operator at the current token, including the spellings of other languages.
    fn peek_operator(&self) -> Option<BinaryOp> {
        if self.at_decrement() {
            return None;
        }
        // `and` at the beginning of a line is more likely a statement.
        if self.nth(0).kind == TokenKind::Ident && !self.nth(0).first {
            return match self.text() {
                "and" => Some(BinaryOp::And),
                "or" => Some(BinaryOp::Or),
                _ => None,
            };
        }
        binary_op(self.kind())
    }

    /// Parses the operator at the current token.
    fn operator_sign(&mut self, op: BinaryOp) -> Span {
        if matches!(self.kind(), TokenKind::Amp | TokenKind::Pipe | TokenKind::Ident) {
            let message = format!("there is no operator `{}`", self.text());
            let error = Diagnostic::error(codes::FOREIGN_OPERATOR, self.span(), message)
                .help(format!("write `{}`", op.symbol()));
            self.report(error);
        }
        self.bump().span
    }

    /// Returns whether the current token is a `--` that can only be a decrement: no operand follows
    /// it.
    pub(super) fn at_decrement(&self) -> bool {
        let (first, second) = (self.nth(0), self.nth(1));
        first.kind == TokenKind::Minus
            && second.kind == TokenKind::Minus
            && first.span.end == second.span.start
            && !self.nth(2).kind.begins_expression()
    }

    /// Reports that another comparison, at the current token, follows one.
    fn chained(&mut self, first: Span, comparison: Span, middle: Span, next: BinaryOp) {
        let [comparison, middle] = [comparison, middle].map(|span| self.text_of(span));
        let help = if comparison.len() <= 30 {
            let sign = next.symbol();
            format!("write `{} && {} {sign} …`", shown(comparison), shown(middle))
        } else {
            "write two comparisons, joined by `&&`".to_owned()
        };
        let error = Diagnostic::error(
            codes::CHAINED_COMPARISON,
            self.span(),
            "comparisons cannot be chained",
        );
        self.report(error.here("the second one").mark(first, "the first one").help(help));
    }

    /// Parses an operand with its unary operators.
    fn unary(&mut self) -> Parse<Expr> {
        let Token { kind, span, .. } = self.nth(0);
        match kind {
            TokenKind::Minus => self.nested(Self::negative),
            TokenKind::Bang => self.nested(|parser| {
                parser.bump();
                parser.prefixed(span, |e| ExprKind::Unary(UnaryOp::Not, e))
            }),
            TokenKind::Star => self.nested(|parser| {
                parser.bump();
                parser.prefixed(span, ExprKind::Deref)
            }),
            TokenKind::Amp => {
                let error =
                    Diagnostic::error(codes::FOREIGN_OPERATOR, span, "there are no references");
                self.report(error.help("remove the `&`"));
                self.bump();
                self.nested(Self::unary)
            }
            TokenKind::Ident if self.at_not() => {
                let error =
                    Diagnostic::error(codes::FOREIGN_OPERATOR, span, "there is no operator `not`");
                self.report(error.help("write `!`"));
                self.nested(|parser| {
                    parser.bump();
                    parser.prefixed(span, |e| ExprKind::Unary(UnaryOp::Not, e))
                })
            }
            TokenKind::New => self.new_object(),
            TokenKind::Ident if self.at_handle_of_key() => self.handle_of_key(),
            _ => self.postfix(),
        }
    }

    /// Returns whether `not` precedes an operand. Before `(` it is the name of a function.
    fn at_not(&self) -> bool {
        let next = self.nth(1);
        let operand = matches!(next.kind, TokenKind::Ident | TokenKind::True | TokenKind::False);
        self.at_word("not") && operand && !next.first
    }

    fn prefixed(&mut self, sign: Span, kind: fn(Box<Expr>) -> ExprKind) -> Parse<Expr> {
        let operand = self.unary()?;
        self.raise(sign)?;
        let span = sign.to(operand.span);
        Ok(Expr { kind: kind(Box::new(operand)), span })
    }

    /// Parses `-` and an operand. Before a number alone it is part of the literal, so that the
    /// smallest integer can be written.
    fn negative(&mut self) -> Parse<Expr> {
        let sign = self.bump().span;
        if !matches!(self.kind(), TokenKind::Int | TokenKind::Float) || self.number_goes_on() {
            return self.prefixed(sign, |e| ExprKind::Unary(UnaryOp::Negate, e));
        }
        let span = sign.to(self.span());
        let literal = self.number(true);
        self.height = 1;
        Ok(Expr { kind: literal.map_or(ExprKind::Error, ExprKind::Literal), span })
    }

    /// Returns whether a suffix after the number at the current token binds more strongly than a
    /// sign before it.
    fn number_goes_on(&self) -> bool {
        use TokenKind::{Arrow, Dot, OpenBracket, OpenParen};
        matches!(self.nth(1).kind, Dot | Arrow | OpenBracket | OpenParen)
    }

    /// Parses the number at the current token. Reports a number that is too large, and returns
    /// `None`.
    pub(super) fn number(&mut self, negative: bool) -> Option<Literal> {
        let token = self.nth(0);
        let digits = self.text().replace('_', "");
        let (literal, most) = if token.kind == TokenKind::Float {
            let number = digits.parse::<f64>().ok().filter(|number| number.is_finite());
            let number = number.map(|number| if negative { -number } else { number });
            (number.map(Literal::Float), "a float is at most 1.7976931348623157e308")
        } else {
            let magnitude = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => digits.parse::<u64>().ok(),
            };
            let number = magnitude.map(i128::from).map(|n| if negative { -n } else { n });
            let number = number.and_then(|number| i64::try_from(number).ok());
            (
                number.map(Literal::Int),
                "an integer is at most 9223372036854775807 (64 bits with a sign)",
            )
        };
        if literal.is_none() {
            let error =
                Diagnostic::error(codes::BAD_NUMBER, token.span, "this number is too large");
            self.report(error.here(most));
        }
        self.bump();
        literal
    }
}
