//! Parses types.

use solera_program::span::Span;

use super::{Parse, Parser};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Name, TypeExpr, TypeKind};
use crate::syntax::codes;
use crate::syntax::token::{Token, TokenKind};

impl Parser<'_> {
    /// Parses `int`, `map<string, int>` or `handle<User> in mail`, each with an optional `@ level`.
    pub(super) fn type_expr(&mut self) -> Parse<TypeExpr> {
        let mut ty = self.type_of_new()?;
        if self.at(TokenKind::In) && self.nth(1).kind == TokenKind::Ident {
            ty.kind = self.stored_value(ty.span)?;
        }
        Ok(ty)
    }

    /// Parses the type of a new object, which the name of a store may follow.
    pub(super) fn type_of_new(&mut self) -> Parse<TypeExpr> {
        self.nested(Self::type_within)
    }

    fn type_within(&mut self) -> Parse<TypeExpr> {
        let start = self.span();
        if matches!(self.kind(), TokenKind::Amp | TokenKind::Star | TokenKind::OpenBracket) {
            return Err(self.foreign_type());
        }
        let name = self.name("a type")?;
        let arguments = if self.at(TokenKind::Less) { self.type_arguments()? } else { Vec::new() };
        let kind = if name.text == "handle" {
            self.handle(name, arguments, start)?
        } else {
            TypeKind::Named(name, arguments)
        };
        let level = if self.eat(TokenKind::At) { Some(self.name("a level")?) } else { None };
        if self.at(TokenKind::OpenBracket) && self.nth(1).kind == TokenKind::CloseBracket {
            return Err(self.foreign_type());
        }
        Ok(TypeExpr { kind, level, span: self.since(start) })
    }

    /// Parses `<type, …>`.
    pub(super) fn type_arguments(&mut self) -> Parse<Vec<TypeExpr>> {
        let (arguments, _) = self.delimited(TokenKind::Greater, "type", |parser| {
            let argument = parser.type_expr()?;
            parser.split_greater();
            Ok(argument)
        })?;
        Ok(arguments)
    }

    /// Splits `>=` where `>` ends a type: `var x: list<int>= …`
    fn split_greater(&mut self) {
        let Token { kind, span, first } = self.nth(0);
        if kind == TokenKind::GreaterEq {
            let middle = span.start + 1;
            let greater = Span { start: span.start, end: middle };
            let eq = Span { start: middle, end: span.end };
            self.tokens[self.at] = Token { kind: TokenKind::Eq, span: eq, first: false };
            // The previous token is the end of a parsed type, so its slot can be reused.
            self.at -= 1;
            self.tokens[self.at] = Token { kind: TokenKind::Greater, span: greater, first };
        }
    }

    /// Reports a value type with a store, such as `set<int> in mail`. The author probably means a
    /// handle.
    fn stored_value(&mut self, ty: Span) -> Parse<TypeKind> {
        self.bump();
        let store = self.name("the name of a store")?;
        let error = Diagnostic::error(codes::UNEXPECTED, self.since(ty), "a value has no store")
            .here("only a handle has a store")
            .help(format!("write `handle<{}> in {}`", self.text_of(ty), store.text));
        self.report(error);
        Ok(TypeKind::Stored(store))
    }

    /// Parses the rest of a type after `handle<…>`.
    fn handle(&mut self, name: Name, arguments: Vec<TypeExpr>, start: Span) -> Parse<TypeKind> {
        let shape = "a handle is written `handle<TYPE> in STORE`";
        let mut arguments = arguments.into_iter();
        let (Some(inner), None) = (arguments.next(), arguments.next()) else {
            let span = self.since(start);
            let error = Diagnostic::error(codes::UNEXPECTED, span, "expected `handle<TYPE>`")
                .here(if span == name.span {
                    "the type is missing"
                } else {
                    "exactly one type is needed"
                })
                .help(shape);
            self.report(error);
            if self.eat(TokenKind::In) {
                self.name("a store")?;
            }
            return Ok(TypeKind::Error);
        };
        if self.eat(TokenKind::In) {
            return Ok(TypeKind::Handle(Box::new(inner), self.name("the name of a store")?));
        }
        let span = self.since(start);
        let error = Diagnostic::error(codes::UNEXPECTED, span, "a handle needs its store")
            .here("the store is missing")
            .help(shape);
        self.report(error);
        Ok(TypeKind::Error)
    }

    /// Reports types in the syntax of other languages.
    fn foreign_type(&mut self) -> super::Reported {
        let help = match self.kind() {
            TokenKind::OpenBracket => "a list is written `list<TYPE>`",
            TokenKind::Amp => "there are no references: write the type alone",
            _ => "only operations of a store take `*TYPE`; a handle is `handle<TYPE> in STORE`",
        };
        let error = self.unexpected_error("a type").help(help);
        self.report(error)
    }
}
