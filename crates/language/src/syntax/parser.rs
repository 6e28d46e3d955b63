//! Parses tokens to a tree.
//!
//! A function that finds invalid input reports an error and returns [`Reported`]; its caller
//! resumes at the next token that begins a known construct. After an error, further errors at the
//! same token are suppressed.

mod expressions;
mod items;
mod matches;
mod operators;
mod statements;
mod types;

use solera_program::span::Span;

use super::ast::{Module, Name};
use super::lexer::shown;
use super::token::{Token, TokenKind};
use super::{MAX_CHAIN, MAX_NESTING, codes};
use crate::diagnostic::Diagnostic;

/// Parses a module from the tokens of a source, the last of which is its end.
pub(super) fn parse(source: &str, tokens: Vec<Token>) -> (Module, Vec<Diagnostic>) {
    let mut parser = Parser {
        source,
        tokens,
        at: 0,
        diagnostics: Vec::new(),
        reported: None,
        depth: 0,
        links: 0,
        arms: 0,
        height: 0,
        in_condition: false,
        gave_up: false,
    };
    let module = parser.module();
    (module, parser.diagnostics)
}

/// Maximum number of tokens to look ahead after an error.
const LOOK_AHEAD: usize = 64;

/// Invalid input was found and reported.
#[derive(Debug)]
struct Reported;

type Parse<T> = Result<T, Reported>;

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    /// Index of the current token.
    at: usize,
    diagnostics: Vec<Diagnostic>,
    /// Index of the token of the last error.
    reported: Option<usize>,
    /// Number of blocks, expressions and types around the current token.
    depth: usize,
    /// Number of `else if` and `match` arms before the current token.
    links: usize,
    /// Number of `match` arms around the current token.
    arms: usize,
    /// Nesting depth of the last parsed expression.
    height: usize,
    /// Whether a `{` after a name begins the block after a condition, not a struct literal.
    in_condition: bool,
    /// Whether the parser has abandoned the rest of the source.
    gave_up: bool,
}

impl<'s> Parser<'s> {
    fn nth(&self, ahead: usize) -> Token {
        // The last token is the end, which is never skipped.
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    fn kind(&self) -> TokenKind {
        self.nth(0).kind
    }

    fn span(&self) -> Span {
        self.nth(0).span
    }

    fn text_of(&self, span: Span) -> &'s str {
        self.source.get(span.range()).unwrap_or_default()
    }

    /// Returns the source text of the current token.
    fn text(&self) -> &'s str {
        self.text_of(self.span())
    }

    /// Returns the previous token.
    fn previous(&self) -> Token {
        self.tokens[self.at.saturating_sub(1)]
    }

    /// Returns the empty span after the previous token.
    fn after_previous(&self) -> Span {
        if self.at == 0 {
            return Span::default();
        }
        let end = self.previous().span.end;
        Span { start: end, end }
    }

    /// Returns the span from `start` to the end of the previous token.
    fn since(&self, start: Span) -> Span {
        Span { start: start.start, end: self.previous().span.end.max(start.start) }
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    fn at_word(&self, word: &str) -> bool {
        self.at(TokenKind::Ident) && self.text() == word
    }

    fn bump(&mut self) -> Token {
        let token = self.nth(0);
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind, after: &str) -> Parse<Span> {
        if self.at(kind) {
            return Ok(self.bump().span);
        }
        let sign = kind.text().unwrap_or_default();
        Err(self.unexpected(&format!("`{sign}` {after}")))
    }

    /// Parses a name. `what` describes it in errors.
    fn name(&mut self, what: &str) -> Parse<Name> {
        let token = self.nth(0);
        if token.kind == TokenKind::Ident {
            self.bump();
            return Ok(Name { text: self.text_of(token.span).to_owned(), span: token.span });
        }
        if token.kind.is_keyword() && self.nth(1).kind != TokenKind::Ident {
            let word = self.text();
            let error = Diagnostic::error(
                codes::KEYWORD_AS_NAME,
                token.span,
                format!("expected {what}, found the keyword `{word}`"),
            );
            let error = error.here("a keyword cannot be a name");
            self.report(error.help(format!("call it `{word}_`, for instance")));
            self.bump();
            return Ok(Name { text: word.to_owned(), span: token.span });
        }
        Err(self.unexpected(what))
    }

    /// Parses a name to which a value is bound, or `_`.
    fn binding(&mut self, what: &str) -> Parse<Name> {
        if self.at(TokenKind::Underscore) {
            return Ok(Name { text: "_".to_owned(), span: self.bump().span });
        }
        self.name(what)
    }

    /// Reports that something else was expected here.
    fn unexpected(&mut self, expected: &str) -> Reported {
        let mut error = self.unexpected_error(expected);
        if let Some(help) = self.habit() {
            error = error.help(help);
        }
        self.report(error)
    }

    fn unexpected_error(&self, expected: &str) -> Diagnostic {
        let message = format!("expected {expected}, found {}", self.found());
        // At the end of the text, the error points at the end of the previous token.
        let span = if self.at(TokenKind::End) { self.after_previous() } else { self.span() };
        Diagnostic::error(codes::UNEXPECTED, span, message).here(format!("expected {expected}"))
    }

    /// Describes the current token for errors.
    fn found(&self) -> String {
        match self.kind() {
            TokenKind::End => "the end of the source".to_owned(),
            kind if kind.is_keyword() => format!("the keyword `{}`", self.text()),
            _ => format!("`{}`", shown(self.text())),
        }
    }

    /// Suggests a replacement for an operator of other languages.
    fn habit(&self) -> Option<&'static str> {
        match self.kind() {
            TokenKind::PlusPlus => Some("there is no `++`: write `x += 1;`"),
            TokenKind::DotDot => Some("there are no ranges: count in a `while` loop"),
            TokenKind::ColonColon => Some("names have no paths: write `.`"),
            TokenKind::Question => Some("there is no operator `?`"),
            TokenKind::Amp | TokenKind::Pipe => {
                Some("there are no references, closures or bitwise operators")
            }
            _ => None,
        }
    }

    /// Reports an error, unless one at the same token was reported.
    fn report(&mut self, error: Diagnostic) -> Reported {
        let known = self.reported == Some(self.at)
            || self.at(TokenKind::Unknown)
            || (self.at > 0 && self.previous().kind == TokenKind::Unknown);
        if !known && !self.gave_up {
            self.diagnostics.push(error);
        }
        self.reported = Some(self.at);
        Reported
    }

    /// Reports an error and abandons the rest of the source.
    fn give_up(&mut self, error: Diagnostic) -> Reported {
        self.report(error);
        self.gave_up = true;
        self.at = self.tokens.len() - 1;
        Reported
    }

    /// Parses a nested construct; reports an error if the nesting is too deep.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth == MAX_NESTING {
            let error = Diagnostic::error(codes::TOO_DEEP, self.span(), "nested too deeply")
                .here(format!("this would be level {}", MAX_NESTING + 1))
                .help("give inner parts a name, with `var` or a `fn`");
            return Err(self.give_up(error));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Increases the nesting depth of the last parsed expression by one.
    fn raise(&mut self, operator: Span) -> Parse<()> {
        self.height += 1;
        if self.height <= MAX_CHAIN + MAX_NESTING {
            return Ok(());
        }
        let error = Diagnostic::error(codes::TOO_DEEP, operator, "this expression is too long")
            .here(format!("more than {MAX_CHAIN} operators come before this one"))
            .help("give parts of it a name with `var`");
        Err(self.give_up(error))
    }

    /// Parses `item, item, …` from the opening delimiter, which is the current token, to the
    /// closing one. Returns the valid items, and the span of the list with its delimiters.
    fn delimited<T>(
        &mut self,
        close: TokenKind,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<(Vec<T>, Span)> {
        let condition = std::mem::replace(&mut self.in_condition, false);
        let open = self.bump().span;
        let mut items = Vec::new();
        let mut height = 0;
        while !self.at(close) {
            let before = self.at;
            if self.at(TokenKind::End) || self.at_item() {
                self.list_not_closed(close, open);
                break;
            }
            self.height = 0;
            match item(self) {
                Ok(item) => items.push(item),
                Err(Reported) => {
                    self.skip_item(close);
                    if ends_list(self.kind()) {
                        // Errors at this token follow from the first one.
                        self.reported = Some(self.at);
                    }
                }
            }
            height = height.max(self.height);
            if !self.separator(close, open, what) || self.at == before {
                break;
            }
        }
        self.eat(close);
        self.height = height;
        self.in_condition = condition;
        Ok((items, self.since(open)))
    }

    /// Parses the separator after an item of a list. Returns whether another item may follow.
    fn separator(&mut self, close: TokenKind, open: Span, what: &str) -> bool {
        if self.at(close) || self.eat(TokenKind::Comma) {
            return true;
        }
        let sign = close.text().unwrap_or_default();
        let kind = self.kind();
        // Other languages end the fields of a struct with other separators.
        let next = self.nth(1).kind;
        let goes_on =
            next == close || (next == TokenKind::Ident && self.nth(2).kind == TokenKind::Colon);
        if kind == TokenKind::Semicolon && close == TokenKind::CloseBrace && goes_on {
            let error = self.unexpected_error("`,`");
            self.report(error.help(format!("{what}s are separated by `,`")));
            self.bump();
            return true;
        }
        if ends_list(kind) || !self.closes(close) {
            self.list_not_closed(close, open);
            return false;
        }
        if kind.begins_expression() {
            let message = format!("expected `,` or `{sign}`, found {}", self.found());
            let error = Diagnostic::error(codes::UNEXPECTED, self.after_previous(), message);
            self.report(error.here(format!("`,` is missing after this {what}")));
            return true;
        }
        self.unexpected(&format!("`,` or `{sign}` after the {what}"));
        self.skip_item(close);
        self.at(close) || self.eat(TokenKind::Comma)
    }

    fn list_not_closed(&mut self, close: TokenKind, open: Span) {
        let sign = close.text().unwrap_or_default();
        let message = format!("expected `,` or `{sign}`, found {}", self.found());
        let error = Diagnostic::error(codes::NOT_CLOSED, self.after_previous(), message)
            .here(format!("`{sign}` is missing"))
            .mark(open, "opened here");
        self.report(error);
    }

    /// Returns whether a declaration begins here, rather than a name that equals its keyword.
    fn at_item(&self) -> bool {
        self.kind().begins_item() && self.nth(1).kind == TokenKind::Ident
    }

    /// Returns whether a closing delimiter of the list follows.
    fn closes(&self, close: TokenKind) -> bool {
        let mut open = 0_usize;
        for ahead in 0..LOOK_AHEAD {
            let kind = self.nth(ahead).kind;
            match kind {
                TokenKind::OpenParen | TokenKind::OpenBracket => open += 1,
                _ if open == 0 && kind == close => return true,
                TokenKind::CloseParen | TokenKind::CloseBracket if open > 0 => open -= 1,
                _ if ends_list(kind) => return false,
                _ => {}
            }
        }
        true
    }

    /// Skips the rest of an invalid item of a list.
    fn skip_item(&mut self, close: TokenKind) {
        let mut open = 0_usize;
        loop {
            let kind = self.kind();
            match kind {
                TokenKind::Comma if open == 0 => return,
                _ if open == 0 && kind == close => return,
                TokenKind::OpenParen | TokenKind::OpenBracket => open += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket => {
                    open = match open.checked_sub(1) {
                        Some(open) => open,
                        None => return,
                    }
                }
                _ if ends_list(kind) => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// Skips a balanced `{ … }` from the opening brace, which is the current token. Stops before a
    /// declaration.
    fn skip_block(&mut self) {
        let mut open = 0_usize;
        loop {
            match self.kind() {
                TokenKind::OpenBrace => open += 1,
                TokenKind::CloseBrace => open -= 1,
                TokenKind::End => return,
                kind if kind.begins_item() => return,
                _ => {}
            }
            self.bump();
            if open == 0 {
                return;
            }
        }
    }
}

/// Returns whether a token cannot occur in an open list in parentheses or brackets.
fn ends_list(kind: TokenKind) -> bool {
    let sign = matches!(
        kind,
        TokenKind::Semicolon
            | TokenKind::OpenBrace
            | TokenKind::CloseBrace
            | TokenKind::CloseParen
            | TokenKind::CloseBracket
            | TokenKind::End
    );
    sign || kind.begins_item() || kind.begins_statement()
}
