//! Parses declarations.

use super::{Parse, Parser, Reported};
use crate::diagnostic::Diagnostic;
use crate::nearest::nearest;
use crate::syntax::ast::{
    FunctionDecl, Item, LevelDecl, Module, Name, OperationDecl, OperationParam, Param, StoreDecl,
    StructDecl, TypeExpr,
};
use crate::syntax::codes;
use crate::syntax::token::TokenKind;

/// Keywords of declarations in other languages, with replacements.
const FOREIGN_ITEMS: [(&str, &str, Option<TokenKind>); 9] = [
    ("function", "fn", Some(TokenKind::Fn)),
    ("func", "fn", Some(TokenKind::Fn)),
    ("def", "fn", Some(TokenKind::Fn)),
    ("class", "struct", Some(TokenKind::Struct)),
    ("interface", "struct", Some(TokenKind::Struct)),
    ("pub", "", None),
    ("public", "", None),
    ("export", "", None),
    ("async", "", None),
];

/// Keywords of declarations.
const ITEMS: [(&str, TokenKind); 5] = [
    ("level", TokenKind::Level),
    ("store", TokenKind::Store),
    ("struct", TokenKind::Struct),
    ("fn", TokenKind::Fn),
    ("transaction", TokenKind::Transaction),
];

/// Names of the value types.
const VALUE_TYPES: [&str; 9] =
    ["int", "float", "bool", "string", "bytes", "option", "list", "set", "map"];

impl Parser<'_> {
    /// Parses the whole source.
    pub(super) fn module(&mut self) -> Module {
        let mut items = Vec::new();
        while !self.at(TokenKind::End) {
            let known = self.diagnostics.len();
            match self.item() {
                Ok(item) => items.push(item),
                Err(Reported) => self.skip_to_item(),
            }
            // After an error, the following tokens may belong to the same declaration.
            if self.diagnostics.len() > known && self.kind().begins_statement() {
                self.skip_to_item();
            }
        }
        Module { items }
    }

    /// Skips to the next declaration, from the current token, which is not parsed yet or has the
    /// error.
    fn skip_to_item(&mut self) {
        while !self.at(TokenKind::End) && !self.kind().begins_item() {
            self.bump();
        }
    }

    fn item(&mut self) -> Parse<Item> {
        let kind = self.item_kind();
        match kind {
            TokenKind::Level => self.level().map(Item::Level),
            TokenKind::Store => self.store().map(Item::Store),
            TokenKind::Struct => self.struct_decl().map(Item::Struct),
            TokenKind::Fn => self.function().map(Item::Function),
            TokenKind::Transaction => self.function().map(Item::Transaction),
            _ => Err(self.no_item()),
        }
    }

    /// Returns the keyword of the declaration that begins here; reports and skips invalid tokens
    /// before it.
    fn item_kind(&mut self) -> TokenKind {
        loop {
            let foreign = FOREIGN_ITEMS.iter().find(|(word, ..)| self.at_word(word));
            let Some((word, ours, kind)) = foreign else { return self.misspelt_item() };
            let message = format!("`{word}` is not a keyword of this language");
            let error = Diagnostic::error(codes::FOREIGN_WORD, self.span(), message);
            let help = match kind {
                Some(_) => format!("write `{ours}`"),
                None => "remove it: every declaration is public".to_owned(),
            };
            self.report(error.help(help));
            match kind {
                Some(kind) => return *kind,
                None => self.bump(),
            };
        }
    }

    /// Returns the keyword of the declaration that begins here. A misspelt keyword is reported, and
    /// counts as the keyword.
    fn misspelt_item(&mut self) -> TokenKind {
        let meant = self.misspelt(&ITEMS.map(|(word, _)| word));
        let found = ITEMS.iter().find(|(word, _)| Some(*word) == meant);
        found.map_or(self.kind(), |(_, kind)| *kind)
    }

    /// Returns the one of `words` of which the current token is a misspelling, and reports it. A
    /// name must follow, as after each of the words.
    fn misspelt(&mut self, words: &[&'static str]) -> Option<&'static str> {
        if !self.at(TokenKind::Ident) || self.nth(1).kind != TokenKind::Ident {
            return None;
        }
        let meant = words.iter().copied().find(|word| nearest(self.text(), [*word]).is_some())?;
        let message = format!("`{}` is not a keyword of this language", self.text());
        let error = Diagnostic::error(codes::FOREIGN_WORD, self.span(), message);
        self.report(error.help(format!("did you mean `{meant}`?")));
        Some(meant)
    }

    fn no_item(&mut self) -> Reported {
        if matches!(self.kind(), TokenKind::CloseBrace | TokenKind::CloseParen) {
            let message = format!("`{}` closes nothing", self.text());
            let error = Diagnostic::error(codes::NOT_OPENED, self.span(), message)
                .here("nothing is open here")
                .help("remove it, or a superfluous one above");
            self.report(error);
            self.bump();
            return Reported;
        }
        let mut error = self.unexpected_error("a declaration").note(
            "a module consists of `level`, `store`, `struct`, `fn` and `transaction` declarations",
        );
        if self.at(TokenKind::Semicolon) {
            error = error.help("remove this `;`: declarations in braces need none");
        } else if self.at_word("import") || self.at_word("use") {
            error = error.help("a module is self-contained: there are no imports");
        } else if self.kind().begins_statement() || self.kind() == TokenKind::Ident {
            error = error.help("statements belong in `transaction NAME() { … }`");
        }
        self.report(error)
    }

    /// Parses `level NAME below L, … above L, …;`.
    fn level(&mut self) -> Parse<LevelDecl> {
        let start = self.bump().span;
        let name = self.name("the name of a level")?;
        let (mut below, mut above) = (Vec::new(), Vec::new());
        while self.at_relation() {
            let names = if self.bump_is("below") { &mut below } else { &mut above };
            loop {
                names.push(self.name("the name of a level")?);
                if !self.eat(TokenKind::Comma) || !self.at(TokenKind::Ident) || self.at_relation() {
                    break;
                }
            }
        }
        if below.is_empty() && above.is_empty() {
            let error = self.unexpected_error("`below` or `above` after the name of the level");
            return Err(self.report(error.help("state its position: `level audit below causal;`")));
        }
        self.end_item("after the level");
        Ok(LevelDecl { name, below, above, span: self.since(start) })
    }

    /// Returns whether `below` or `above` follows; no level has such a name.
    fn at_relation(&self) -> bool {
        self.at_word("below") || self.at_word("above")
    }

    /// Skips the current token, and returns whether it was `word`.
    fn bump_is(&mut self, word: &str) -> bool {
        let span = self.bump().span;
        self.text_of(span) == word
    }

    /// Parses the `;` after a declaration.
    fn end_item(&mut self, after: &str) {
        if self.eat(TokenKind::Semicolon) {
            return;
        }
        if self.nth(0).first || self.at(TokenKind::End) || self.at(TokenKind::CloseBrace) {
            self.missing_semicolon();
        } else {
            self.unexpected(&format!("`;` {after}"));
            while !matches!(self.kind(), TokenKind::Semicolon | TokenKind::CloseBrace)
                && !self.nth(0).first
                && !self.at(TokenKind::End)
            {
                self.bump();
            }
            self.eat(TokenKind::Semicolon);
        }
    }

    /// Parses `store NAME : LEVEL;`, or a store with operations in braces.
    fn store(&mut self) -> Parse<StoreDecl> {
        let start = self.bump().span;
        let name = self.name("the name of a store")?;
        self.expect(TokenKind::Colon, "and a level after the name of the store")?;
        let level = self.name("a level")?;
        let mut operations = Vec::new();
        if self.at(TokenKind::OpenBrace) {
            let open = self.bump().span;
            while !matches!(self.kind(), TokenKind::CloseBrace | TokenKind::End)
                && (!self.at_item() || self.at(TokenKind::Fn))
            {
                match self.operation() {
                    Ok(operation) => operations.push(operation),
                    Err(Reported) if self.skip_to_operation() => {}
                    Err(Reported) => break,
                }
            }
            if !self.eat(TokenKind::CloseBrace) {
                self.not_closed(open);
            }
        } else {
            self.end_item("or `{` after the level of the store");
        }
        Ok(StoreDecl { name, level, operations, span: self.since(start) })
    }

    /// Skips to the next operation. Returns whether the store continues.
    fn skip_to_operation(&mut self) -> bool {
        loop {
            match self.kind() {
                TokenKind::Semicolon => {
                    self.bump();
                    return true;
                }
                TokenKind::CloseBrace => return true,
                TokenKind::End => return false,
                TokenKind::OpenBrace => self.skip_block(),
                kind if kind.begins_item() && kind != TokenKind::Fn => return false,
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// Parses `query NAME(…) -> type;` or `operation NAME(…) -> type;`.
    fn operation(&mut self) -> Parse<OperationDecl> {
        let start = self.span();
        let exact = ["query", "operation"].into_iter().find(|word| self.at_word(word));
        let Some(word) = exact.or_else(|| self.misspelt(&["query", "operation"])) else {
            let error = self.unexpected_error("`query` or `operation`");
            return Err(
                self.report(error.help("a `query` only reads, and an `operation` may write"))
            );
        };
        let mutates = word == "operation";
        self.bump();
        let name = self.name("the name of the operation")?;
        let params = self.params(|parser, name| {
            let dereferenced = parser.eat(TokenKind::Star);
            Ok(OperationParam { name, ty: parser.type_expr()?, dereferenced })
        })?;
        let result = self.result()?;
        self.end_item("after the operation");
        Ok(OperationDecl { name, params, result, mutates, span: self.since(start) })
    }

    /// Parses `struct NAME { field: type, … }`.
    fn struct_decl(&mut self) -> Parse<StructDecl> {
        let start = self.bump().span;
        let name = self.name("the name of a struct")?;
        if !self.at(TokenKind::OpenBrace) {
            return Err(self.unexpected("`{` after the name of the struct"));
        }
        let (fields, _) = self.delimited(TokenKind::CloseBrace, "field", |parser| {
            parser.param("the name of a field", |parser, name| {
                Ok(Param { name, ty: parser.type_expr()? })
            })
        })?;
        Ok(StructDecl { name, fields, span: self.since(start) })
    }

    /// Parses `fn NAME(…) -> type { … }`, or a transaction.
    fn function(&mut self) -> Parse<FunctionDecl> {
        let start = self.bump().span;
        let name = self.name("a name")?;
        let params = self.params(|parser, name| Ok(Param { name, ty: parser.type_expr()? }))?;
        let result = self.result()?;
        let head = self.since(start);
        if !self.at(TokenKind::OpenBrace) {
            return Err(self.unexpected("`{` and the body"));
        }
        let body = self.block()?;
        Ok(FunctionDecl { name, params, result, body, head })
    }

    fn params<T>(&mut self, mut param: impl FnMut(&mut Self, Name) -> Parse<T>) -> Parse<Vec<T>> {
        if !self.at(TokenKind::OpenParen) {
            return Err(self.unexpected("`(` after the name"));
        }
        let (params, _) = self.delimited(TokenKind::CloseParen, "parameter", |parser| {
            parser.param("the name of a parameter", &mut param)
        })?;
        Ok(params)
    }

    /// Parses `NAME: `, followed by what `rest` parses.
    fn param<T>(&mut self, what: &str, rest: impl FnOnce(&mut Self, Name) -> Parse<T>) -> Parse<T> {
        let name = self.name(what)?;
        if self.eat(TokenKind::Colon) {
            return rest(self, name);
        }
        let mut error = self.unexpected_error(&format!("`:` and a type after `{}`", name.text));
        if self.at(TokenKind::Ident) {
            let is_type = |word: &str| {
                let handle = word == "handle" && self.nth(1).kind == TokenKind::Less;
                handle || VALUE_TYPES.contains(&word)
            };
            let open = if self.nth(1).kind == TokenKind::Less { "<…>" } else { "" };
            error = error.help(match is_type(self.text()) || !is_type(&name.text) {
                true => format!("write `{}: {}{open}`", name.text, self.text()),
                false => format!("write the name first: `{}: {}`", self.text(), name.text),
            });
        }
        Err(self.report(error))
    }

    /// Parses `-> type`, if there is one.
    fn result(&mut self) -> Parse<Option<TypeExpr>> {
        if self.eat(TokenKind::Arrow) {
            return self.type_expr().map(Some);
        }
        if matches!(self.kind(), TokenKind::Colon | TokenKind::FatArrow | TokenKind::Ident) {
            let span = self.span();
            let error = Diagnostic::error(
                codes::RESULT_WITHOUT_ARROW,
                span,
                "expected `->` before the type of the result",
            )
            .here(format!("found {}", self.found()))
            .help("write `-> TYPE`");
            self.report(error);
            if !self.at(TokenKind::Ident) {
                self.bump();
            }
            return self.type_expr().map(Some);
        }
        Ok(None)
    }
}
