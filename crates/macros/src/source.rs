//! Lays tokens of Rust out as a source text of the language.

use std::ops::Range;

use proc_macro2::{Delimiter, Group, LineColumn, Spacing, Span, TokenStream, TokenTree};

/// A source text, with the token of each of its words.
///
/// The tokens have the same lines and columns in the text as in their file, so diagnostics of the
/// text apply to the file. The text before the first token consists of white space, and the text
/// has no comments.
#[derive(Debug, Default)]
pub(crate) struct Source {
    text: String,
    /// Ranges of words with their tokens, in the order of the text.
    words: Vec<(Range<usize>, Span)>,
    /// Position in the file that the text has reached. `None` where the tokens are not in order,
    /// because other macros have assembled them: then only spaces separate them.
    at: Option<LineColumn>,
    /// Whether the next token belongs to the last one, as in `->`.
    joint: bool,
}

impl Source {
    /// Creates the source of tokens.
    pub(crate) fn of(tokens: TokenStream) -> Source {
        let mut source = Source::beginning("");
        source.tokens(tokens);
        source
    }

    /// Creates a source from a text without tokens. The text must not contain line breaks, which
    /// would move the following lines.
    pub(crate) fn beginning(text: &str) -> Source {
        let at = Some(LineColumn { line: 1, column: text.chars().count() });
        Source { text: text.to_owned(), at, ..Source::default() }
    }

    /// Appends tokens.
    pub(crate) fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                // `/// …` is a comment of the language.
                TokenTree::Punct(sign)
                    if sign.as_char() == '#' && tokens.peek().is_some_and(is_documentation) =>
                {
                    tokens.next();
                }
                TokenTree::Group(group) => self.group(&group),
                TokenTree::Punct(sign) => {
                    self.word(&sign.as_char().to_string(), sign.span());
                    self.joint = sign.spacing() == Spacing::Joint;
                }
                other => self.word(&other.to_string(), other.span()),
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            // Another macro has assembled this group.
            Delimiter::None => return self.tokens(group.stream()),
        };
        self.word(open, group.span_open());
        self.tokens(group.stream());
        self.word(close, group.span_close());
    }

    /// Appends the word of a token.
    pub(crate) fn word(&mut self, word: &str, span: Span) {
        // A token without a length has no position.
        self.at = self.at.filter(|_| span.start() != span.end());
        self.move_to(span.start());
        let start = self.text.len();
        self.text.push_str(word);
        self.words.push((start..self.text.len(), span));
        self.at = self.at.map(|_| span.end());
        self.joint = false;
    }

    /// Appends a text without tokens. The words after it have no position.
    pub(crate) fn text_after(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
        self.at = None;
    }

    fn move_to(&mut self, start: LineColumn) {
        match self.at {
            Some(at) if start.line > at.line => {
                self.text.extend(std::iter::repeat_n('\n', start.line - at.line));
                self.text.extend(std::iter::repeat_n(' ', start.column));
            }
            Some(at) if start.line == at.line && start.column >= at.column => {
                self.text.extend(std::iter::repeat_n(' ', start.column - at.column));
            }
            _ => {
                self.at = None;
                if !self.joint && !self.text.is_empty() {
                    self.text.push(' ');
                }
            }
        }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text without leading empty lines, moved to the left, so that it does not depend
    /// on the position of the tokens.
    pub(crate) fn dedented(&self) -> String {
        let lines = || self.text.lines().skip_while(|line| line.trim().is_empty());
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        // The first line begins after the macro's brace, if it is on the same line.
        let full = lines().skip(1).filter(|line| !line.trim().is_empty());
        let least = full.map(indent).min().unwrap_or(usize::MAX);
        let moved = lines().map(|line| &line[indent(line).min(least)..]);
        moved.collect::<Vec<_>>().join("\n")
    }

    /// Returns the first and the last token of a range of the text; after all tokens, the last one.
    pub(crate) fn tokens_at(&self, stretch: Range<usize>) -> (Span, Span) {
        let first = self.words.partition_point(|(word, _)| word.end <= stretch.start);
        let after = self.words.partition_point(|(word, _)| word.start < stretch.end);
        let place = |index: usize| {
            let last = self.words.len().saturating_sub(1);
            self.words.get(index.min(last)).map_or_else(Span::call_site, |(_, span)| *span)
        };
        (place(first), place(after.saturating_sub(1).max(first)))
    }
}

/// Returns whether the token is `[doc = …]`.
fn is_documentation(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of(text.parse().unwrap())
    }

    #[test]
    fn tokens_keep_their_places() {
        let text = "store a : causal;\n\n  transaction t(x: list<list<int>>) -> int {\n    if a && b { \"ö\\n\" }\n  }";
        assert_eq!(source(text).text(), text);
    }

    #[test]
    fn comments_and_documentation_are_left_out() {
        let source = source("// one\na /* two */ b\n/// three\nc");
        assert_eq!(source.text(), "\na           b\n\nc");
        assert_eq!(source.dedented(), "a           b\n\nc");
    }

    #[test]
    fn the_text_of_moved_tokens_is_the_same() {
        let moved = source("\n\n   a {\n     b;\n   }");
        assert_eq!(moved.dedented(), source("a {\n  b;\n}").dedented());
    }

    #[test]
    fn tokens_without_places_are_kept_apart() {
        let here = |token: TokenStream| {
            token.into_iter().map(|mut token| {
                token.set_span(Span::call_site());
                token
            })
        };
        let flat: TokenStream = here("a -> b && 1 . 5 <= c".parse().unwrap()).collect();
        // The first token is at the beginning of the text, and all others are at one place.
        assert_eq!(Source::of(flat).text().trim(), "a -> b && 1 . 5 <= c");
    }

    #[test]
    fn stretches_are_found_again() {
        let source = source("one two\nthree");
        let found = |stretch| {
            let (first, last) = source.tokens_at(stretch);
            (first.source_text().unwrap(), last.source_text().unwrap())
        };
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(found(0..3), both("one", "one"));
        assert_eq!(found(1..6), both("one", "two"));
        assert_eq!(found(4..13), both("two", "three"));
        // Between two tokens, and after all of them.
        assert_eq!(found(3..3), both("two", "two"));
        assert_eq!(found(13..13), both("three", "three"));
    }
}
