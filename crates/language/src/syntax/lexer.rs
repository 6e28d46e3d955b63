//! Splits a source text into tokens.

use solera_program::span::Span;

use super::codes;
use super::escape::unescape;
use super::token::{Token, TokenKind};
use crate::diagnostic::Diagnostic;

/// Tokens of a text, the last one being its end, and lexical errors.
#[derive(Debug)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Splits a text into tokens. Invalid input becomes [`TokenKind::Unknown`] and is reported.
pub(crate) fn lex(source: &str) -> Lexed {
    let lexed = Lexed { tokens: Vec::with_capacity(source.len() / 4), diagnostics: Vec::new() };
    let mut lexer = Lexer { source, at: 0, first: true, lexed };
    // Some editors begin every file with a byte order mark.
    if source.starts_with('\u{feff}') {
        lexer.at = '\u{feff}'.len_utf8();
    }
    while lexer.at < source.len() {
        lexer.word();
    }
    lexer.push(TokenKind::End, source.len());
    lexer.lexed
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    /// Whether only white space precedes it on its line.
    first: bool,
    lexed: Lexed,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        let span = Span::new(start, self.at);
        self.lexed.tokens.push(Token { kind, span, first: self.first });
        self.first = false;
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.lexed.diagnostics.push(diagnostic);
    }

    /// Reads one token, or white space or a comment.
    fn word(&mut self) {
        match self.byte(0) {
            b'\n' => {
                self.at += 1;
                self.first = true;
            }
            b' ' | b'\t' | b'\r' => self.at += 1,
            b'/' if self.byte(1) == b'/' => {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            }
            b'/' if self.byte(1) == b'*' => self.comment(),
            b'b' if self.byte(1) == b'"' => self.quoted(b'"', TokenKind::Bytes),
            b'"' => self.quoted(b'"', TokenKind::String),
            quote @ (b'\'' | b'`') => self.quoted(quote, TokenKind::String),
            b'0'..=b'9' => self.number(),
            byte if byte.is_ascii_alphabetic() || byte == b'_' => self.name(),
            _ => self.mark(),
        }
    }

    /// Skips a `/* … */` comment, which may be nested.
    fn comment(&mut self) {
        let start = self.at;
        let mut open = 0_usize;
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => (open, self.at) = (open + 1, self.at + 2),
                (b'*', b'/') => (open, self.at) = (open - 1, self.at + 2),
                _ => {
                    self.first |= self.byte(0) == b'\n';
                    self.at += 1;
                }
            }
            if open == 0 {
                return;
            }
            if self.at >= self.source.len() {
                break;
            }
        }
        self.at = self.source.len();
        let span = Span::new(start, start + 2);
        let error = Diagnostic::error(codes::OPEN_COMMENT, span, "this comment has no end")
            .here("begins here")
            .help("end it with `*/`; a comment within it needs an end of its own");
        self.report(error);
    }

    fn quoted(&mut self, quote: u8, kind: TokenKind) {
        let start = self.at;
        self.at += if kind == TokenKind::Bytes { 2 } else { 1 };
        let body = self.at;
        let closed = loop {
            match self.byte(0) {
                byte if byte == quote => break true,
                b'\n' => break false,
                _ if self.at >= self.source.len() => break false,
                b'\\' if self.byte(1) == quote || self.byte(1) == b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        };
        let text = &self.source[body..self.at];
        if !closed {
            return self.open_string(start, quote);
        }
        self.at += 1;
        let span = Span::new(start, self.at);
        if quote == b'"' {
            let mut wrong = Vec::new();
            unescape(text, kind == TokenKind::Bytes, |place, why| {
                let span = Span::new(body + place.start, body + place.end);
                wrong.push(Diagnostic::error(codes::BAD_ESCAPE, span, "unknown escape").here(why));
            });
            self.lexed.diagnostics.append(&mut wrong);
        } else {
            let error = Diagnostic::error(
                codes::UNKNOWN_CHARACTER,
                span,
                "a string is written in double quotes",
            );
            self.report(
                error
                    .here(format!(
                        "with {} here",
                        if quote == b'`' { "backquotes" } else { "single quotes" }
                    ))
                    .help(format!("write `\"{}\"`", if text.len() <= 30 { text } else { "…" })),
            );
        }
        self.push(kind, start);
    }

    /// Reports a quote that is not closed on its line.
    fn open_string(&mut self, start: usize, quote: u8) {
        if quote == b'"' {
            let span = Span::new(start, self.at);
            let error = Diagnostic::error(codes::OPEN_STRING, span, "this string has no end")
                .here("there is no `\"` after it on this line")
                .help("end it with `\"`; a line break within a string is written `\\n`");
            self.report(error);
        } else {
            self.at = start + 1;
            let message = format!("`{}` has no meaning here", char::from(quote));
            let error =
                Diagnostic::error(codes::UNKNOWN_CHARACTER, Span::new(start, self.at), message)
                    .help("a string is written in double quotes: `\"text\"`");
            self.report(error);
        }
        self.push(TokenKind::Unknown, start);
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while wanted(self.byte(0)) {
            self.at += 1;
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let mut kind = TokenKind::Int;
        if self.byte(0) == b'0' && matches!(self.byte(1), b'x' | b'X') {
            self.at += 2;
            let digits = self.at;
            self.skip_while(|byte| byte.is_ascii_hexdigit() || byte == b'_');
            if self.source[digits..self.at].bytes().all(|byte| byte == b'_') {
                return self.bad_number(start, "there are no digits after `0x`");
            }
        } else {
            let digit = |byte: u8| byte.is_ascii_digit() || byte == b'_';
            self.skip_while(digit);
            if self.byte(0) == b'.' && self.byte(1).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1;
                self.skip_while(digit);
            }
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit() {
                kind = TokenKind::Float;
                self.at += 1 + sign;
                self.skip_while(digit);
            }
        }
        if self.byte(0).is_ascii_alphanumeric() || self.byte(0) == b'_' {
            return self.bad_number(start, "letters cannot follow a number");
        }
        self.push(kind, start);
    }

    fn bad_number(&mut self, start: usize, why: &str) {
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let span = Span::new(start, self.at);
        let message = format!("`{}` is not a number", &self.source[span.range()]);
        let error = Diagnostic::error(codes::BAD_NUMBER, span, message).here(why);
        self.report(error.note("numbers look like `42`, `1_000`, `0xff`, `4.2` and `1e-9`"));
        self.push(TokenKind::Unknown, start);
    }

    fn name(&mut self) {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !self.byte(0).is_ascii() && self.rest().starts_with(char::is_alphanumeric) {
            return self.foreign_name(start);
        }
        let kind = match &self.source[start..self.at] {
            "_" => TokenKind::Underscore,
            word => TokenKind::keyword(word).unwrap_or(TokenKind::Ident),
        };
        self.push(kind, start);
    }

    /// Reports a name with non-ASCII letters, and emits a name token.
    fn foreign_name(&mut self, start: usize) {
        let rest = &self.source[start..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at = start + end;
        let span = Span::new(start, self.at);
        let message = format!("`{}` cannot be a name", shown(&rest[..end]));
        let error = Diagnostic::error(codes::UNKNOWN_CHARACTER, span, message)
            .here("a letter that is not one of a–z or A–Z")
            .help("names are made of the letters a–z and A–Z, digits and `_`");
        self.report(error);
        self.push(TokenKind::Ident, start);
    }

    fn mark(&mut self) {
        let start = self.at;
        let rest = self.rest();
        for (foreign, meant, kind) in
            [("===", "==", TokenKind::EqEq), ("!==", "!=", TokenKind::NotEq)]
        {
            if rest.starts_with(foreign) {
                self.at += foreign.len();
                let span = Span::new(start, self.at);
                let message = format!("there is no operator `{foreign}`");
                let error = Diagnostic::error(codes::FOREIGN_OPERATOR, span, message);
                self.report(error.help(format!("write `{meant}`")));
                return self.push(kind, start);
            }
        }
        let known = TokenKind::MARKS.iter().find(|(sign, _)| rest.starts_with(sign));
        if let Some((sign, kind)) = known {
            self.at += sign.len();
            return self.push(*kind, start);
        }
        self.unknown(start);
    }

    fn unknown(&mut self, start: usize) {
        let rest = self.rest();
        let Some(character) = rest.chars().next() else { return };
        if character.is_alphabetic() {
            return self.foreign_name(start);
        }
        // Consecutive invalid characters are one error.
        let length =
            rest.chars().take_while(|c| *c == character).map(char::len_utf8).sum::<usize>();
        self.at += length;
        let span = Span::new(start, self.at);
        let message = format!("`{}` has no meaning here", shown(&rest[..length]));
        let error = Diagnostic::error(codes::UNKNOWN_CHARACTER, span, message);
        if character.is_whitespace() {
            // The character is treated as a space, so parsing can continue.
            return self.report(error.here("looks like a space").help("write a plain space"));
        }
        if character == '#' {
            // Skips attributes and comments in the syntax of other languages, so that they are not
            // parsed as code.
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
        let help = match character {
            '“' | '”' | '„' | '«' | '»' => {
                Some("a string is written in plain double quotes: `\"`")
            }
            '#' => Some("comments begin with `//`"),
            '^' | '~' => Some("there are no bitwise operators"),
            '≤' => Some("write `<=`"),
            '≥' => Some("write `>=`"),
            '≠' => Some("write `!=`"),
            _ => None,
        };
        self.report(match help {
            Some(help) => error.help(help),
            None => error,
        });
        self.push(TokenKind::Unknown, start);
    }
}

/// Formats a piece of the source for a message: shortened, and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(40).map(visible).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

fn visible(character: char) -> String {
    let plain = !character.is_control() && (!character.is_whitespace() || character == ' ');
    if plain { character.to_string() } else { character.escape_unicode().to_string() }
}
