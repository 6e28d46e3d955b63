//! Parses `match`, its arms and their patterns.

use super::{LOOK_AHEAD, Parse, Parser, Reported};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Arm, Pattern, PatternKind, StmtKind};
use crate::syntax::codes;
use crate::syntax::token::TokenKind;

impl Parser<'_> {
    /// Parses `match e { pattern => { … } … }`.
    pub(super) fn match_statement(&mut self) -> Parse<StmtKind> {
        let links = self.links;
        let read = self.match_arms();
        self.links = links;
        read
    }

    /// Parses the arms. They are links of a chain, like `else if`: each is taken only if those
    /// before it were not.
    fn match_arms(&mut self) -> Parse<StmtKind> {
        self.bump();
        let start = self.span();
        let value = match self.head(Self::expr) {
            Ok(value) => value,
            Err(Reported) => self.skip_to_block(start)?,
        };
        if !self.at(TokenKind::OpenBrace) {
            return Err(self.unexpected("`{` and the arms of the match"));
        }
        let open = self.bump().span;
        let mut arms = Vec::new();
        loop {
            match self.kind() {
                TokenKind::CloseBrace => break,
                TokenKind::Comma => {
                    self.bump();
                }
                _ if !self.arm_follows() => {
                    self.not_closed(open);
                    return Ok(StmtKind::Match(value, arms));
                }
                _ => {
                    self.link(
                        "too many arms",
                        "keep the values in a map, or match in several functions",
                    )?;
                    let before = self.at;
                    match self.nested(Self::arm) {
                        Ok(arm) => arms.push(arm),
                        Err(Reported) => self.skip_arm(before),
                    }
                }
            }
        }
        self.bump();
        Ok(StmtKind::Match(value, arms))
    }

    /// Returns whether the current token may begin an arm, even an invalid one, rather than a
    /// statement or declaration after an unclosed `match`.
    fn arm_follows(&self) -> bool {
        let kind = self.kind();
        if kind == TokenKind::End || kind.begins_item() || kind.begins_statement() {
            return false;
        }
        let sign = (0..LOOK_AHEAD).find(|ahead| {
            use TokenKind::{CloseBrace, End, Eq, FatArrow, OpenBrace, Semicolon};
            let kind = self.nth(*ahead).kind;
            matches!(kind, FatArrow | OpenBrace | CloseBrace | Eq | Semicolon | End)
        });
        let [sign, next] = [0, 1].map(|more| self.nth(sign.unwrap_or(0) + more).kind);
        match sign {
            TokenKind::Eq => next == TokenKind::OpenBrace,
            sign => !matches!(sign, TokenKind::Semicolon | TokenKind::End),
        }
    }

    /// Skips the rest of an invalid arm that began at the token `began`.
    fn skip_arm(&mut self, began: usize) {
        loop {
            match self.kind() {
                TokenKind::Comma | TokenKind::CloseBrace | TokenKind::End => return,
                TokenKind::OpenBrace => return self.skip_block(),
                kind if kind.begins_item() => return,
                TokenKind::Semicolon if self.at > began => {
                    self.bump();
                    return;
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn arm(&mut self) -> Parse<Arm> {
        if self.at_word("case") || self.at_word("default") {
            let help = if self.at_word("case") { "remove it" } else { "write `_`" };
            let reported = self.foreign(self.text(), help);
            if self.at_word("default") {
                return Err(reported);
            }
            self.bump();
        }
        let pattern = self.pattern()?;
        if self.at(TokenKind::Pipe) {
            let error = self.unexpected_error("`=>`");
            return Err(
                self.report(error.help("an arm has one pattern: write an arm for each pattern"))
            );
        }
        self.expect(TokenKind::FatArrow, "after the pattern")?;
        if self.at(TokenKind::OpenBrace) {
            self.arms += 1;
            let body = self.block();
            self.arms -= 1;
            return Ok(Arm { pattern, body: body? });
        }
        let message = format!("expected `{{`, found {}", self.found());
        let error = Diagnostic::error(codes::MISSING_BRACES, self.span(), message)
            .here("this needs braces around it")
            .help("write `PATTERN => { … }`");
        let reported = self.report(error);
        self.skip_bare_arm();
        Err(reported)
    }

    /// Skips the body of an arm that has no opening brace, and its closing brace if there is one.
    fn skip_bare_arm(&mut self) {
        let mut statements = false;
        let mut open = 0_usize;
        loop {
            match self.kind() {
                TokenKind::Comma if !statements && open == 0 => return,
                TokenKind::End => return,
                TokenKind::CloseBrace => {
                    if statements && (1..6).any(|ahead| self.nth(ahead).kind == TokenKind::FatArrow)
                    {
                        self.bump();
                    }
                    return;
                }
                kind if kind.begins_item() => return,
                TokenKind::OpenBrace => {
                    self.skip_block();
                    continue;
                }
                TokenKind::OpenParen | TokenKind::OpenBracket => open += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket => open = open.saturating_sub(1),
                kind => statements |= kind == TokenKind::Semicolon,
            }
            self.bump();
        }
    }

    fn pattern(&mut self) -> Parse<Pattern> {
        let start = self.span();
        let kind = match self.kind() {
            TokenKind::Underscore => {
                self.bump();
                PatternKind::Any
            }
            TokenKind::Ident => self.named_pattern()?,
            TokenKind::Minus if self.nth(1).kind == TokenKind::Int => {
                self.bump();
                self.number_pattern(true)?
            }
            TokenKind::Int => self.number_pattern(false)?,
            TokenKind::String | TokenKind::Bytes | TokenKind::True | TokenKind::False => {
                PatternKind::Literal(self.literal())
            }
            _ => return Err(self.no_pattern()),
        };
        Ok(Pattern { kind, span: self.since(start) })
    }

    fn number_pattern(&mut self, negative: bool) -> Parse<PatternKind> {
        self.number(negative).map(PatternKind::Literal).ok_or(Reported)
    }

    fn named_pattern(&mut self) -> Parse<PatternKind> {
        let word = self.text();
        let ours = match word {
            "None" | "null" | "nil" => "none",
            "Some" => "some",
            word => word,
        };
        if ours == "none" || (ours == "some" && self.nth(1).kind == TokenKind::OpenParen) {
            if ours != word {
                self.foreign_word(word, ours);
            }
            self.bump();
            if ours == "none" {
                return Ok(PatternKind::None);
            }
            self.bump();
            let name = self.binding("a name for the value")?;
            self.expect(TokenKind::CloseParen, "after the name")?;
            return Ok(PatternKind::Some(name));
        }
        Err(self.no_pattern())
    }

    fn no_pattern(&mut self) -> Reported {
        let message = format!("expected a pattern, found {}", self.found());
        let mut error = Diagnostic::error(codes::NO_PATTERN, self.span(), message)
            .here("this is not a pattern")
            .note(
                "patterns are `some(x)`, `none`, integers, strings, bytes, `true`, `false` and `_`",
            );
        if self.at(TokenKind::Ident) {
            error = error.help("write `_` for all other values");
        }
        self.report(error)
    }
}
