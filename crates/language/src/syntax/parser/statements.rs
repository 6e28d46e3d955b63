//! Parses statements.

use solera_program::span::Span;

use super::{LOOK_AHEAD, Parse, Parser, Reported};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{BinaryOp, Block, Expr, ExprKind, Literal, Stmt, StmtKind};
use crate::syntax::token::TokenKind;
use crate::syntax::{MAX_CHAIN, codes};

/// Keywords for variables in other languages.
const FOREIGN_VAR: [&str; 4] = ["let", "const", "val", "auto"];

/// Keywords of statements in other languages, with replacements.
const FOREIGN_STATEMENTS: [(&str, &str); 8] = [
    ("loop", "write `while true { … }`"),
    ("do", "write `while CONDITION { … }`"),
    ("switch", "write `match VALUE { … }`"),
    ("try", "an error ends the transaction, which then has no effect"),
    ("throw", "write `abort \"why\";`"),
    ("function", "declare it outside of transactions, with `fn`"),
    ("def", "declare it outside of transactions, with `fn`"),
    ("raise", "write `abort \"why\";`"),
];

impl Parser<'_> {
    /// Parses `{ statement … }`.
    pub(super) fn block(&mut self) -> Parse<Block> {
        if !self.at(TokenKind::OpenBrace) {
            return Err(self.unexpected("`{`"));
        }
        self.nested(|parser| {
            let condition = std::mem::replace(&mut parser.in_condition, false);
            let block = parser.block_within();
            parser.in_condition = condition;
            Ok(block)
        })
    }

    fn block_within(&mut self) -> Block {
        let open = self.bump().span;
        let mut statements = Vec::new();
        loop {
            match self.kind() {
                TokenKind::CloseBrace => break,
                TokenKind::Semicolon => {
                    self.bump();
                }
                kind if kind == TokenKind::End || kind.begins_item() || self.at_next_arm() => {
                    self.not_closed(open);
                    return Block { statements, span: self.since(open) };
                }
                _ => {
                    let before = self.at;
                    match self.statement() {
                        Ok(statement) => statements.push(statement),
                        Err(Reported) => self.skip_statement(before),
                    }
                }
            }
        }
        self.bump();
        Block { statements, span: self.since(open) }
    }

    /// Returns whether the next arm of the enclosing `match` begins here.
    fn at_next_arm(&self) -> bool {
        let arrow = |ahead| self.nth(ahead).kind == TokenKind::FatArrow;
        let some = self.at_word("some") && self.nth(1).kind == TokenKind::OpenParen;
        self.arms > 0 && (arrow(1) || (some && arrow(4)))
    }

    pub(super) fn not_closed(&mut self, open: Span) {
        let message = format!("expected `}}`, found {}", self.found());
        let error = Diagnostic::error(codes::NOT_CLOSED, self.after_previous(), message)
            .here("`}` is missing")
            .mark(open, "opened here");
        self.report(error);
    }

    /// Skips the rest of an invalid statement that began at the token `began`.
    fn skip_statement(&mut self, began: usize) {
        loop {
            match self.kind() {
                TokenKind::Semicolon => {
                    self.bump();
                    return;
                }
                TokenKind::CloseBrace | TokenKind::End => return,
                kind if kind.begins_item() => return,
                kind if kind.begins_statement() && self.at > began => return,
                TokenKind::OpenBrace => {
                    self.skip_block();
                    // The tokens after a block belong to the next statement, with these exceptions.
                    if !matches!(
                        self.kind(),
                        TokenKind::Else
                            | TokenKind::Semicolon
                            | TokenKind::CloseParen
                            | TokenKind::CloseBracket
                            | TokenKind::Comma
                    ) {
                        return;
                    }
                }
                _ => {}
            }
            if !self.at(TokenKind::Semicolon) {
                self.bump();
            }
        }
    }

    fn statement(&mut self) -> Parse<Stmt> {
        let start = self.span();
        let kind = match self.kind() {
            TokenKind::Var => self.var()?,
            TokenKind::If => self.if_statement()?,
            TokenKind::While => self.while_statement()?,
            TokenKind::For => self.for_statement()?,
            TokenKind::Match => self.match_statement()?,
            TokenKind::OpenBrace => StmtKind::Block(self.block()?),
            TokenKind::Return => self.return_statement()?,
            TokenKind::Break => self.word(StmtKind::Break)?,
            TokenKind::Continue => self.word(StmtKind::Continue)?,
            TokenKind::Abort => self.abort()?,
            TokenKind::Ident => self.words()?,
            TokenKind::CloseParen | TokenKind::CloseBracket => return Err(self.closes_nothing()),
            TokenKind::Else => return Err(self.stray_else()),
            _ => self.simple()?,
        };
        Ok(Stmt { kind, span: self.since(start) })
    }

    fn closes_nothing(&mut self) -> Reported {
        let message = format!("`{}` closes nothing", self.text());
        let error = Diagnostic::error(codes::NOT_OPENED, self.span(), message);
        let reported = self.report(error.here("nothing is open here"));
        self.bump();
        reported
    }

    fn stray_else(&mut self) -> Reported {
        let error = self.unexpected_error("a statement");
        self.report(error.help("`else` follows the `}` of an `if` directly"))
    }

    /// Parses the `;` after a statement. Reports a missing `;` and keeps the statement.
    fn end_statement(&mut self) -> Parse<()> {
        if self.eat(TokenKind::Semicolon) {
            return Ok(());
        }
        let next = self.nth(0);
        if next.kind == TokenKind::Comma {
            let error = Diagnostic::error(
                codes::COMMA_BETWEEN_STATEMENTS,
                next.span,
                "a statement ends with `;`",
            );
            self.report(error.here("expected `;`, found `,`").help("write `;` instead"));
            self.bump();
            return Ok(());
        }
        let ends = matches!(next.kind, TokenKind::CloseBrace | TokenKind::End);
        if ends || next.first || next.kind.begins_statement() || next.kind.begins_item() {
            self.missing_semicolon();
            return Ok(());
        }
        Err(self.unexpected("`;` after the statement"))
    }

    pub(super) fn missing_semicolon(&mut self) {
        let message = format!("expected `;`, found {}", self.found());
        let error = Diagnostic::error(codes::MISSING_SEMICOLON, self.after_previous(), message);
        let error = error.here("`;` is missing");
        self.report(if self.at(TokenKind::CloseBrace) {
            error.help("a block has no value: to return one, write `return …;`")
        } else {
            error
        });
    }

    /// Parses `break;` or `continue;`.
    fn word(&mut self, kind: StmtKind) -> Parse<StmtKind> {
        self.bump();
        self.end_statement()?;
        Ok(kind)
    }

    /// Parses `var name: type = value;`.
    fn var(&mut self) -> Parse<StmtKind> {
        self.bump();
        if self.at_word("mut") && self.nth(1).kind == TokenKind::Ident {
            self.foreign("mut", "remove it: every variable can be changed");
            self.bump();
        }
        let name = self.name("the name of a variable")?;
        let ty = if self.eat(TokenKind::Colon) { Some(self.type_expr()?) } else { None };
        if !self.at(TokenKind::Eq) {
            let error = self.unexpected_error("`=` and a value");
            return Err(self.report(error.note("a variable needs an initial value")));
        }
        self.bump();
        let value = self.expr()?;
        self.end_statement()?;
        Ok(StmtKind::Var(name, ty, value))
    }

    fn return_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let ends = matches!(self.kind(), TokenKind::Semicolon | TokenKind::CloseBrace);
        let value = if ends { None } else { Some(self.expr()?) };
        self.end_statement()?;
        Ok(StmtKind::Return(value))
    }

    fn abort(&mut self) -> Parse<StmtKind> {
        self.bump();
        if self.at(TokenKind::Semicolon) {
            let error = self.unexpected_error("a text");
            return Err(self.report(error.help("state the reason: `abort \"out of stock\";`")));
        }
        let why = self.expr()?;
        self.end_statement()?;
        Ok(StmtKind::Abort(why))
    }

    /// Parses a statement that begins with a name, or with a keyword of another language.
    fn words(&mut self) -> Parse<StmtKind> {
        let word = self.text();
        let next = self.nth(1);
        if FOREIGN_VAR.contains(&word) && next.kind == TokenKind::Ident && !next.first {
            self.foreign(word, "write `var`");
            return self.var();
        }
        let statement = FOREIGN_STATEMENTS.iter().find(|(foreign, _)| *foreign == word);
        if let Some((_, help)) = statement
            && self.statement_follows()
        {
            let reported = self.foreign(word, help);
            self.bump();
            if self.at(TokenKind::OpenBrace) {
                self.skip_block();
                // `do { … } while (…);` and `try { … } catch (…) { … }` continue after the block.
                if !self.eat(TokenKind::While) && !self.at_word("catch") {
                    return Ok(StmtKind::Block(Block::default()));
                }
            }
            return Err(reported);
        }
        // `int x = 3;`
        let then = self.nth(2).kind;
        if next.kind == TokenKind::Ident && !next.first && then == TokenKind::Eq {
            let name = self.text_of(next.span);
            self.report(
                Diagnostic::error(codes::FOREIGN_WORD, self.span(), "a variable begins with `var`")
                    .here("this looks like a type")
                    .help(format!("write `var {name}: {word} = …;`, or `var {name} = …;`")),
            );
            return self.var();
        }
        self.simple()
    }

    /// Returns whether the tokens after a name only make sense if the name is a keyword: `loop {`,
    /// `throw e`, `switch (x) {`.
    fn statement_follows(&self) -> bool {
        let mut ahead = 1;
        if self.nth(ahead).kind != TokenKind::OpenParen {
            return matches!(
                self.nth(ahead).kind,
                TokenKind::OpenBrace | TokenKind::Ident | TokenKind::String
            ) && !self.nth(ahead).first;
        }
        let mut open = 0_usize;
        while ahead < LOOK_AHEAD {
            match self.nth(ahead).kind {
                TokenKind::OpenParen => open += 1,
                TokenKind::CloseParen => open -= 1,
                _ => {}
            }
            ahead += 1;
            if open == 0 {
                break;
            }
        }
        self.nth(ahead).kind == TokenKind::OpenBrace
    }

    pub(super) fn foreign(&mut self, word: &str, help: &str) -> Reported {
        let message = format!("`{word}` is not a keyword of this language");
        let error = Diagnostic::error(codes::FOREIGN_WORD, self.span(), message);
        self.report(error.help(help))
    }

    /// Parses an assignment or an expression statement.
    fn simple(&mut self) -> Parse<StmtKind> {
        let start = self.span();
        if self.at(TokenKind::PlusPlus) || self.at_decrement_before() {
            return self.step_before();
        }
        let place = self.expr()?;
        let op = match self.kind() {
            TokenKind::Eq => None,
            TokenKind::PlusEq => Some(BinaryOp::Add),
            TokenKind::MinusEq => Some(BinaryOp::Subtract),
            TokenKind::StarEq => Some(BinaryOp::Multiply),
            TokenKind::SlashEq => Some(BinaryOp::Divide),
            TokenKind::PercentEq => Some(BinaryOp::Remainder),
            TokenKind::PlusPlus => return self.step_after(place, BinaryOp::Add),
            _ if self.at_decrement() => return self.step_after(place, BinaryOp::Subtract),
            _ => {
                self.end_statement()?;
                return Ok(StmtKind::Expr(place));
            }
        };
        let sign = self.bump().span;
        if !is_place(&place) {
            let error = Diagnostic::error(
                codes::NOT_A_PLACE,
                self.since(start),
                "this cannot be assigned to",
            );
            let span = place.span;
            let error =
                Diagnostic { primary: crate::diagnostic::Mark { span, ..error.primary }, ..error };
            self.report(error.here("this cannot hold a value").mark(sign, "assigned here").note(
                "only variables, fields, elements and objects of handles can be assigned to",
            ));
        }
        let value = self.expr()?;
        if self.at(TokenKind::Eq) {
            let error = self.unexpected_error("`;` after the statement");
            return Err(
                self.report(error.help("an assignment has no value: write two assignments"))
            );
        }
        self.end_statement()?;
        Ok(StmtKind::Assign(place, op, value))
    }

    /// Returns whether `--x;` is a decrement: as an expression it would have no effect.
    fn at_decrement_before(&self) -> bool {
        let (first, second) = (self.nth(0), self.nth(1));
        first.kind == TokenKind::Minus
            && second.kind == TokenKind::Minus
            && first.span.end == second.span.start
    }

    /// Parses `++x;` or `--x;`, which are reported.
    fn step_before(&mut self) -> Parse<StmtKind> {
        let op = if self.at(TokenKind::PlusPlus) { BinaryOp::Add } else { BinaryOp::Subtract };
        let sign = self.step_sign(op);
        let place = self.expr()?;
        self.end_statement()?;
        Ok(step(place, op, sign))
    }

    /// Parses `x++;` or `x--;`, which are reported.
    fn step_after(&mut self, place: Expr, op: BinaryOp) -> Parse<StmtKind> {
        let sign = self.step_sign(op);
        self.end_statement()?;
        Ok(step(place, op, sign))
    }

    fn step_sign(&mut self, op: BinaryOp) -> Span {
        let start = self.span();
        let span = if op == BinaryOp::Add { start } else { start.to(self.nth(1).span) };
        let sign = op.symbol();
        let message = format!("there is no operator `{sign}{sign}`");
        let error = Diagnostic::error(codes::FOREIGN_OPERATOR, span, message);
        self.report(error.help(format!("write `x {sign}= 1;`")));
        self.bump();
        if op == BinaryOp::Subtract {
            self.bump();
        }
        span
    }

    /// Parses the condition of an `if` or `while`. If it is invalid but a block follows, parsing
    /// continues with the block.
    fn condition(&mut self) -> Parse<Expr> {
        let start = self.span();
        if self.at_word("let") && self.nth(1).kind == TokenKind::Ident {
            self.foreign(
                "let",
                "match on an optional value: `match e { some(x) => { … } none => { … } }`",
            );
            return self.skip_to_block(start);
        }
        match self.head(Self::compared) {
            Ok(condition) => Ok(condition),
            Err(Reported) => self.skip_to_block(start),
        }
    }

    /// Parses an expression that is followed by a block.
    pub(super) fn head(&mut self, read: fn(&mut Self) -> Parse<Expr>) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.in_condition, true);
        let head = read(self);
        self.in_condition = outer;
        head
    }

    pub(super) fn skip_to_block(&mut self, start: Span) -> Parse<Expr> {
        loop {
            match self.kind() {
                TokenKind::OpenBrace => {
                    return Ok(Expr { kind: ExprKind::Error, span: self.since(start) });
                }
                TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End => {
                    return Err(Reported);
                }
                kind if kind.begins_item() || kind.begins_statement() => return Err(Reported),
                _ => self.bump(),
            };
        }
    }

    /// Parses the block of a statement; its braces are required.
    fn body(&mut self) -> Parse<Block> {
        if self.at(TokenKind::OpenBrace) {
            return self.block();
        }
        let start = self.span();
        let kind = self.kind();
        let plausible = kind.begins_statement()
            || kind == TokenKind::Semicolon
            || (kind.begins_expression()
                && (self.nth(0).first
                    || self.previous().kind == TokenKind::CloseParen
                    || self.previous().kind == TokenKind::Else));
        if !plausible {
            return Err(self.unexpected("`{`"));
        }
        let message = format!("expected `{{`, found {}", self.found());
        let error = Diagnostic::error(codes::MISSING_BRACES, start, message)
            .here("this needs braces around it")
            .help("write `{ … }`, also around a single statement");
        self.report(error);
        if self.eat(TokenKind::Semicolon) {
            return Ok(Block { statements: Vec::new(), span: start });
        }
        let statement = self.nested(Self::statement)?;
        let span = statement.span;
        Ok(Block { statements: vec![statement], span })
    }

    fn while_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        let condition = self.condition()?;
        Ok(StmtKind::While(condition, self.body()?))
    }

    /// Parses `if … { … } else if … { … } else { … }`. The links of the chain are parsed in a loop,
    /// so that long chains do not nest in the parser.
    fn if_statement(&mut self) -> Parse<StmtKind> {
        let links = self.links;
        let read = self.if_links();
        self.links = links;
        read
    }

    fn if_links(&mut self) -> Parse<StmtKind> {
        let mut links = Vec::new();
        let mut last = None;
        loop {
            let start = self.bump().span;
            let condition = self.condition()?;
            links.push((start, condition, self.body()?));
            if !self.at_else_if() {
                break;
            }
            self.link(
                "too many `else if` in a row",
                "keep the values in a map, or decide in several functions",
            )?;
        }
        if self.eat(TokenKind::Else) {
            last = Some(self.body()?);
        }
        let end = self.previous().span;
        let (mut kind, mut then) = (None, last);
        for (start, condition, body) in links.into_iter().rev() {
            if let Some(inner) = kind.take() {
                let (inner, span): (StmtKind, Span) = inner;
                then = Some(Block { statements: vec![Stmt { kind: inner, span }], span });
            }
            kind = Some((StmtKind::If(condition, body, then.take()), start.to(end)));
        }
        let (kind, _) = kind.expect("a chain has at least the `if` it begins with");
        Ok(kind)
    }

    /// Counts a link of a chain: an `else if` or an arm of a `match`. All links before the current
    /// token count, because each is nested in the branch of the previous one.
    pub(super) fn link(&mut self, error: &str, help: &str) -> Parse<()> {
        self.links += 1;
        if self.links <= MAX_CHAIN {
            return Ok(());
        }
        let error = Diagnostic::error(codes::TOO_DEEP, self.span(), error)
            .here(format!("{MAX_CHAIN} arms or `else if` come before this"))
            .help(help);
        Err(self.give_up(error))
    }

    /// Returns whether an `else if` follows, possibly in the spelling of another language. If so,
    /// skips the `else`.
    fn at_else_if(&mut self) -> bool {
        let word = self.text();
        if self.at(TokenKind::Ident) && matches!(word, "elif" | "elseif" | "elsif") {
            self.foreign(word, "write `else if`");
            return true;
        }
        let chained = self.at(TokenKind::Else) && self.nth(1).kind == TokenKind::If;
        if chained {
            self.bump();
        }
        chained
    }

    /// Parses `for name in e { … }`.
    fn for_statement(&mut self) -> Parse<StmtKind> {
        self.bump();
        if self.at(TokenKind::OpenParen) || self.at(TokenKind::Var) || self.at_word("let") {
            return Err(self.foreign_for());
        }
        let name = self.binding("the name of a variable")?;
        if !self.eat(TokenKind::In) {
            let error = self.unexpected_error("`in`");
            return Err(self.report(error.help("write `for x in list { … }`")));
        }
        let start = self.span();
        let over = match self.head(Self::expr) {
            Ok(over) => over,
            Err(Reported) => self.skip_to_block(start)?,
        };
        Ok(StmtKind::For(name, over, self.body()?))
    }

    /// Reports `for (…) { … }`, and skips to its block.
    fn foreign_for(&mut self) -> Reported {
        let error = self.unexpected_error("the name of a variable");
        let reported =
            self.report(error.help("write `for x in list { … }`, or count in a `while` loop"));
        let mut open = 0_usize;
        loop {
            match self.kind() {
                TokenKind::OpenParen => open += 1,
                TokenKind::CloseParen => open = open.saturating_sub(1),
                TokenKind::OpenBrace | TokenKind::CloseBrace | TokenKind::End => return reported,
                TokenKind::Semicolon if open == 0 => return reported,
                kind if kind.begins_item() => return reported,
                _ => {}
            }
            self.bump();
        }
    }
}

/// Builds `x += 1`, with the span of the operator that was written instead.
fn step(place: Expr, op: BinaryOp, sign: Span) -> StmtKind {
    let one = Expr { kind: ExprKind::Literal(Literal::Int(1)), span: sign };
    StmtKind::Assign(place, Some(op), one)
}

/// Returns whether an expression can be assigned to. Invalid expressions are accepted.
fn is_place(expr: &Expr) -> bool {
    use ExprKind::{Deref, Error, Field, Index, Name};
    matches!(expr.kind, Name(_) | Field(..) | Deref(_) | Index(..) | Error)
}
