//! Parses expressions.

use super::{Parse, Parser};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Expr, ExprKind, Literal, Name, NewObject};
use crate::syntax::escape::unescape;
use crate::syntax::token::{Token, TokenKind};
use crate::syntax::{MAX_NESTING, codes};

impl Parser<'_> {
    /// Parses an expression.
    pub(super) fn expr(&mut self) -> Parse<Expr> {
        let expr = self.binary()?;
        if self.at(TokenKind::Question) {
            return self.ternary(expr);
        }
        Ok(expr)
    }

    /// Reports `condition ? a : b` of other languages.
    fn ternary(&mut self, condition: Expr) -> Parse<Expr> {
        let error =
            Diagnostic::error(codes::FOREIGN_OPERATOR, self.span(), "there is no operator `?`");
        let error = if self.nth(1).kind.begins_expression() && !self.nth(1).first {
            error.help("use a statement: `if CONDITION { x = A; } else { x = B; }`")
        } else {
            error.help("remove it: an operation that fails ends the transaction")
        };
        self.report(error);
        self.bump();
        if self.kind().begins_expression() {
            self.nested(Self::expr)?;
            if self.eat(TokenKind::Colon) {
                self.nested(Self::expr)?;
            }
        }
        self.height = 1;
        Ok(Expr { kind: ExprKind::Error, span: self.since(condition.span) })
    }

    /// Parses an operand with its suffixes: `.name`, `->name`, `[index]`, calls.
    pub(super) fn postfix(&mut self) -> Parse<Expr> {
        let mut expr = self.primary()?;
        loop {
            let sign = self.span();
            let (kind, height) = match self.kind() {
                TokenKind::Dot | TokenKind::Arrow | TokenKind::ColonColon => {
                    self.member(expr_of(&mut expr))?
                }
                TokenKind::OpenBracket => self.index(expr_of(&mut expr))?,
                TokenKind::OpenParen => return Err(self.no_function(&expr)),
                _ => return Ok(expr),
            };
            self.height = height;
            self.raise(sign)?;
            expr = Expr { kind, span: self.since(expr.span) };
        }
    }

    /// Parses `.name` or `->name`, with or without arguments. Also returns the nesting depth of its
    /// parts.
    fn member(&mut self, object: Expr) -> Parse<(ExprKind, usize)> {
        let height = self.height;
        if self.at(TokenKind::ColonColon) {
            let error = Diagnostic::error(
                codes::FOREIGN_OPERATOR,
                self.span(),
                "there is no operator `::`",
            );
            self.report(error.help("write `.`"));
        }
        self.bump();
        let name = self.name("the name of a field or operation")?;
        if !self.at(TokenKind::OpenParen) {
            return Ok((ExprKind::Field(Box::new(object), name), height));
        }
        let arguments = self.arguments()?;
        let height = height.max(self.height);
        Ok((ExprKind::Method(Box::new(object), name, arguments), height))
    }

    fn index(&mut self, object: Expr) -> Parse<(ExprKind, usize)> {
        let height = self.height;
        let open = self.span();
        let (index, _) =
            self.nested(|parser| parser.delimited(TokenKind::CloseBracket, "index", Self::expr))?;
        let mut index = index.into_iter();
        let (Some(index), None) = (index.next(), index.next()) else {
            let span = self.since(open);
            let error = Diagnostic::error(codes::UNEXPECTED, span, "expected one index");
            self.report(error.here("between these brackets"));
            return Ok((ExprKind::Error, 1));
        };
        Ok((ExprKind::Index(Box::new(object), Box::new(index)), height.max(self.height)))
    }

    fn no_function(&mut self, expr: &Expr) -> super::Reported {
        let error = Diagnostic::error(codes::UNEXPECTED, self.span(), "this cannot be called")
            .mark(expr.span, "not the name of a function")
            .help("functions are called by their name; they are not values");
        self.report(error)
    }

    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let (arguments, _) =
            self.nested(|parser| parser.delimited(TokenKind::CloseParen, "argument", Self::expr))?;
        Ok(arguments)
    }

    fn primary(&mut self) -> Parse<Expr> {
        let Token { kind, span, .. } = self.nth(0);
        self.height = 1;
        let kind = match kind {
            TokenKind::Int | TokenKind::Float => {
                self.number(false).map_or(ExprKind::Error, ExprKind::Literal)
            }
            TokenKind::String | TokenKind::Bytes | TokenKind::True | TokenKind::False => {
                ExprKind::Literal(self.literal())
            }
            TokenKind::Ident if self.at_handle_of_key() => return self.handle_of_key(),
            TokenKind::Ident => self.named()?,
            TokenKind::OpenParen => return self.parenthesized(),
            TokenKind::OpenBracket => ExprKind::List(self.elements()?),
            TokenKind::Endorse => self.endorse()?,
            TokenKind::New => return self.new_object(),
            TokenKind::Unknown => {
                self.bump();
                ExprKind::Error
            }
            _ => return Err(self.no_expression()),
        };
        Ok(Expr { kind, span: self.since(span) })
    }

    fn no_expression(&mut self) -> super::Reported {
        let mut error = self.unexpected_error("an expression");
        let kind = self.kind();
        if kind == TokenKind::Underscore {
            error = error.help("`_` is not a variable: use a name");
        } else if kind == TokenKind::PlusPlus {
            error = error.help("there is no `++`: write `x += 1;`");
        } else if kind.begins_statement() {
            let word = self.text();
            error = error.help(format!(
                "`{word}` is a statement and has no value: assign to a variable within it"
            ));
            let reported = self.report(error);
            // Skips the token, so that it is not parsed as the next statement, which would report
            // other errors.
            self.bump();
            return reported;
        }
        self.report(error)
    }

    /// Parses a string, bytes or `bool` literal.
    pub(super) fn literal(&mut self) -> Literal {
        let token = self.bump();
        let text = self.text_of(token.span);
        let between = |from: usize| text.get(from..text.len() - 1).unwrap_or_default();
        // The lexer has reported errors in the literal.
        match token.kind {
            TokenKind::True => Literal::Bool(true),
            TokenKind::False => Literal::Bool(false),
            TokenKind::Bytes => Literal::Bytes(unescape(between(2), true, |_, _| {})),
            _ => {
                let bytes = unescape(between(1), false, |_, _| {});
                Literal::String(String::from_utf8_lossy(&bytes).into_owned())
            }
        }
    }

    fn parenthesized(&mut self) -> Parse<Expr> {
        let open = self.span();
        let (inner, span) = self.nested(|parser| {
            parser.delimited(TokenKind::CloseParen, "expression", Self::compared)
        })?;
        let mut inner = inner.into_iter();
        match (inner.next(), inner.next()) {
            (Some(expr), None) => Ok(Expr { kind: expr.kind, span }),
            (first, _) => {
                let message = match first {
                    Some(_) => "there are no tuples",
                    None => "expected an expression between these parentheses",
                };
                let error = Diagnostic::error(codes::UNEXPECTED, span, message);
                self.report(match first {
                    Some(_) => error.help("declare a `struct`, or use a list: `[a, b]`"),
                    None => error.mark(open, "opened here"),
                });
                self.height = 1;
                Ok(Expr { kind: ExprKind::Error, span })
            }
        }
    }

    /// Parses an expression. Accepts and reports a single `=` as a comparison.
    pub(super) fn compared(&mut self) -> Parse<Expr> {
        let left = self.expr()?;
        if !self.at(TokenKind::Eq) {
            return Ok(left);
        }
        let error = Diagnostic::error(
            codes::ASSIGNMENT_AS_VALUE,
            self.span(),
            "an assignment has no value",
        );
        self.report(error.here("this is an assignment").help("write `==` to compare"));
        self.bump();
        let right = self.expr()?;
        self.height = 1;
        Ok(Expr { kind: ExprKind::Error, span: left.span.to(right.span) })
    }

    /// Parses `[e, …]`.
    fn elements(&mut self) -> Parse<Vec<Expr>> {
        let (elements, _) =
            self.nested(|parser| parser.delimited(TokenKind::CloseBracket, "element", Self::expr))?;
        self.raise(self.previous().span)?;
        Ok(elements)
    }

    /// Parses `[k: v, …]`.
    fn entries(&mut self) -> Parse<Vec<(Expr, Expr)>> {
        let (entries, _) = self.nested(|parser| {
            parser.delimited(TokenKind::CloseBracket, "entry", |parser| {
                let key = parser.expr()?;
                let height = parser.height;
                parser.expect(TokenKind::Colon, "and a value after the key")?;
                let value = parser.expr()?;
                parser.height = parser.height.max(height);
                Ok((key, value))
            })
        })?;
        self.raise(self.previous().span)?;
        Ok(entries)
    }

    /// Parses `endorse(level, e)`.
    fn endorse(&mut self) -> Parse<ExprKind> {
        let keyword = self.bump().span;
        if !self.at(TokenKind::OpenParen) {
            return Err(self.unexpected("`(level, expression)` after `endorse`"));
        }
        let mut level = None;
        let (mut values, span) = self.nested(|parser| {
            parser.delimited(TokenKind::CloseParen, "expression", |parser| {
                if level.is_none() {
                    level = Some(parser.name("a level")?);
                    return Ok(None);
                }
                parser.expr().map(Some)
            })
        })?;
        self.raise(keyword)?;
        let value = (values.len() == 2).then(|| values.pop().flatten()).flatten();
        if let (Some(level), Some(value)) = (level, value) {
            return Ok(ExprKind::Endorse(level, Box::new(value)));
        }
        let error =
            Diagnostic::error(codes::UNEXPECTED, span, "expected a level and an expression")
                .help("an endorsement is written `endorse(LEVEL, EXPRESSION)`");
        self.report(error);
        Ok(ExprKind::Error)
    }

    /// Parses an expression that begins with a name.
    fn named(&mut self) -> Parse<ExprKind> {
        let next = self.nth(1).kind;
        match (self.text(), next) {
            ("set", TokenKind::OpenBracket) => {
                self.bump();
                return Ok(ExprKind::Set(self.elements()?));
            }
            ("map", TokenKind::OpenBracket) => {
                self.bump();
                return Ok(ExprKind::Map(self.entries()?));
            }
            _ => {}
        }
        if next == TokenKind::OpenBrace && self.struct_here() {
            let name = self.name("a struct")?;
            return Ok(ExprKind::Struct(name, self.fields()?));
        }
        if let Some(known) = self.foreign_value() {
            return Ok(known);
        }
        let name = self.name("a name")?;
        if self.at(TokenKind::OpenParen) {
            let arguments = self.arguments()?;
            self.raise(name.span)?;
            return Ok(ExprKind::Call(name, arguments));
        }
        Ok(ExprKind::Name(name.text))
    }

    /// Reports keywords for values in other languages.
    fn foreign_value(&mut self) -> Option<ExprKind> {
        let word = self.text();
        let (ours, kind) = match word {
            "null" | "nil" | "nullptr" | "undefined" | "None" => {
                ("none", ExprKind::Name("none".to_owned()))
            }
            "True" => ("true", ExprKind::Literal(Literal::Bool(true))),
            "False" => ("false", ExprKind::Literal(Literal::Bool(false))),
            "Some" if self.nth(1).kind == TokenKind::OpenParen => ("some(…)", ExprKind::Error),
            _ => return None,
        };
        self.foreign_word(word, ours);
        self.bump();
        if ours == "some(…)" {
            // Parses the argument to report its errors.
            self.arguments().ok()?;
            self.height = 1;
        }
        Some(kind)
    }

    /// Reports the current token, a keyword of another language, with its replacement.
    pub(super) fn foreign_word(&mut self, word: &str, ours: &str) {
        let message = format!("`{word}` is not a keyword of this language");
        let error = Diagnostic::error(codes::FOREIGN_WORD, self.span(), message);
        self.report(error.help(format!("write `{ours}`")));
    }

    /// Returns whether `Name {` at the current token begins a struct literal. In a condition the
    /// brace begins the block, and an unambiguous struct literal is an error.
    fn struct_here(&mut self) -> bool {
        if !self.in_condition {
            return true;
        }
        if !self.must_be_struct() {
            return false;
        }
        let error = Diagnostic::error(
            codes::STRUCT_IN_CONDITION,
            self.span().to(self.nth(1).span),
            "a struct cannot be made here",
        );
        self.report(
            error
                .here("this brace would begin the block")
                .help("put parentheses around it: `(Name { … })`"),
        );
        true
    }

    /// Returns whether the input must be a struct literal: `Name { field:`, or fields followed by a
    /// token that cannot follow a block.
    fn must_be_struct(&self) -> bool {
        let inner = self.nth(2).kind == TokenKind::Ident;
        match self.nth(3).kind {
            TokenKind::Colon => inner,
            TokenKind::CloseBrace => {
                use TokenKind::{Dot, EqEq, NotEq, OpenBrace};
                inner && matches!(self.nth(4).kind, EqEq | NotEq | Dot | OpenBrace)
            }
            _ => false,
        }
    }

    /// Parses `{ name: e, name, … }`.
    fn fields(&mut self) -> Parse<Vec<(Name, Expr)>> {
        let (fields, span) = self.nested(|parser| {
            parser.delimited(TokenKind::CloseBrace, "field", |parser| {
                let name = parser.name("the name of a field")?;
                if parser.eat(TokenKind::Colon) {
                    return Ok((name, parser.expr()?));
                }
                if parser.at(TokenKind::Eq) {
                    return Err(parser.unexpected("`:` and a value after the name of the field"));
                }
                parser.height = 1;
                let kind = ExprKind::Name(name.text.clone());
                let value = Expr { kind, span: name.span };
                Ok((name, value))
            })
        })?;
        self.raise(span)?;
        Ok(fields)
    }

    /// Parses `new type in store` or `new Name { … } in store`.
    pub(super) fn new_object(&mut self) -> Parse<Expr> {
        let start = self.bump().span;
        self.height = 1;
        let named = self.at(TokenKind::Ident) && self.nth(1).kind == TokenKind::OpenBrace;
        let object = if named && self.struct_here() {
            let name = self.name("a struct")?;
            NewObject::Struct(name, self.fields()?)
        } else {
            NewObject::Empty(self.type_of_new()?)
        };
        self.expect(TokenKind::In, "and a store after the new object")?;
        let store = self.name("the name of a store")?;
        self.raise(start)?;
        Ok(Expr { kind: ExprKind::New(object, store), span: self.since(start) })
    }

    /// Returns whether `handle<type>(` or `handle<type> in` begins here, rather than a comparison
    /// with a variable `handle`.
    pub(super) fn at_handle_of_key(&self) -> bool {
        use TokenKind::{At, Comma, Greater, Ident, In, Less, OpenParen};
        if !self.at_word("handle") || self.nth(1).kind != Less {
            return false;
        }
        let mut open = 0_usize;
        for ahead in 1.. {
            match self.nth(ahead).kind {
                Less if open < MAX_NESTING => open += 1,
                Greater if open == 1 => {
                    return matches!(self.nth(ahead + 1).kind, OpenParen | In);
                }
                Greater => open -= 1,
                // Two comparisons: `f(handle < a, b > (c))`.
                Comma if open == 1 => break,
                Ident | Comma | In | At => {}
                _ => break,
            }
        }
        false
    }

    /// Parses `handle<type>(key) in store`.
    pub(super) fn handle_of_key(&mut self) -> Parse<Expr> {
        let start = self.bump().span;
        let ty = self.nested(Self::type_arguments)?;
        if !self.at(TokenKind::OpenParen) {
            let mut error = self.unexpected_error("`(` and a key after the type of the object");
            error = error.help("a handle of a key is written `handle<TYPE>(KEY) in STORE`");
            return Err(self.report(error));
        }
        let keys = self.arguments()?;
        self.raise(start)?;
        let inside = self.since(start);
        self.expect(TokenKind::In, "and a store after the key")?;
        let store = self.name("the name of a store")?;
        let span = self.since(start);
        let mut parts = (ty.into_iter(), keys.into_iter());
        let (Some(ty), None, Some(key), None) =
            (parts.0.next(), parts.0.next(), parts.1.next(), parts.1.next())
        else {
            let error =
                Diagnostic::error(codes::UNEXPECTED, inside, "expected one type and one key")
                    .help("a handle of a key is written `handle<TYPE>(KEY) in STORE`");
            self.report(error);
            self.height = 1;
            return Ok(Expr { kind: ExprKind::Error, span });
        };
        Ok(Expr { kind: ExprKind::Handle(ty, Box::new(key), store), span })
    }
}

/// Moves an expression out of a place, which the caller fills again immediately.
fn expr_of(place: &mut Expr) -> Expr {
    let span = place.span;
    std::mem::replace(place, Expr { kind: ExprKind::Error, span })
}
