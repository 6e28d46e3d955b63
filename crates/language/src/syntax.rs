//! Parses a source text to a syntax tree.

pub mod ast;
mod codes;
mod escape;
mod lexer;
mod parser;
mod print;
mod token;

use std::fmt;

use solera_program::span::{Position, Span};

use crate::diagnostic::Diagnostic;
use ast::Module;
pub use print::print;

/// Maximum length of a source, in bytes.
pub const MAX_SOURCE: usize = 1 << 20;

/// Maximum nesting depth of blocks, expressions and types.
pub const MAX_NESTING: usize = 128;

/// Maximum number of consecutive operators in an expression, and of `else if` and `match` arms
/// before a statement. Each link of such a chain becomes a branch nested in the previous one, and
/// later stages visit branches recursively: the maximum must not overflow a stack of 2 MiB.
pub const MAX_CHAIN: usize = 256;

/// Maximum number of errors reported for one source.
pub const MAX_ERRORS: usize = 100;

/// Result of parsing a source.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Tree of everything that could be parsed.
    pub module: Module,
    /// Errors, in the order of the text. Empty if parsing succeeded.
    pub diagnostics: Vec<Diagnostic>,
}

/// Error: the source is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// Offset of the first byte that belongs to no character.
    pub byte: usize,
    /// Line and column of that byte.
    pub position: Position,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotUtf8 { byte, position } = self;
        write!(f, "the source is not UTF-8: byte {byte}, at {position}, belongs to no character")
    }
}

impl std::error::Error for NotUtf8 {}

/// Parses a source. For any input it takes time linear in its length and does not panic. The depth
/// of the tree, and of the branches that it is lowered to, is bounded by [`MAX_NESTING`] and
/// [`MAX_CHAIN`], so that they can be visited recursively.
pub fn parse(source: &str) -> Parsed {
    if source.len() > MAX_SOURCE {
        return too_large(source.len());
    }
    let lexed = lexer::lex(source);
    let (module, wrong) = parser::parse(source, lexed.tokens);
    let mut diagnostics = lexed.diagnostics;
    diagnostics.extend(wrong);
    diagnostics.sort_by_key(|diagnostic| diagnostic.primary.span.start);
    if diagnostics.len() > MAX_ERRORS {
        let more = diagnostics.len() - MAX_ERRORS;
        diagnostics.truncate(MAX_ERRORS);
        if let Some(last) = diagnostics.last_mut() {
            last.notes.push(format!("there are {more} more errors after this one"));
        }
    }
    Parsed { module, diagnostics }
}

/// Parses a source that may not be UTF-8.
pub fn parse_bytes(source: &[u8]) -> Result<Parsed, NotUtf8> {
    if source.len() > MAX_SOURCE {
        return Ok(too_large(source.len()));
    }
    text(source).map(parse)
}

/// Converts a source to text.
pub fn text(source: &[u8]) -> Result<&str, NotUtf8> {
    std::str::from_utf8(source).map_err(|error| {
        let byte = error.valid_up_to();
        let before = std::str::from_utf8(&source[..byte]).unwrap_or_default();
        NotUtf8 { byte, position: Position::of(before, Span::new(byte, byte).start) }
    })
}

fn too_large(length: usize) -> Parsed {
    let message = format!("the source is too large: {length} bytes of at most {MAX_SOURCE}");
    let error = Diagnostic::error(codes::TOO_LARGE, Span::new(0, 0), message)
        .help("split it into several modules");
    Parsed { module: Module::default(), diagnostics: vec![error] }
}
