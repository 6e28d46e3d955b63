//! From a source text to a tree.

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

/// The longest source that is read, in bytes.
pub const MAX_SOURCE: usize = 1 << 20;

/// How deep blocks, expressions and types may stand within one another.
pub const MAX_NESTING: usize = 128;

/// How many operators may follow one another in an expression, and how many `else if` and arms of a
/// `match` a statement may come after. Each link of such a chain becomes a branch within the one
/// before it, and all that comes after the parser walks through branches recursively: what is
/// allowed here must fit on a stack of 2 MiB.
pub const MAX_CHAIN: usize = 256;

/// How many errors of one source are told.
pub const MAX_ERRORS: usize = 100;

/// What became of a source.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The tree: of everything that could be read.
    pub module: Module,
    /// What is wrong, in the order of the text. Empty if all could be read.
    pub diagnostics: Vec<Diagnostic>,
}

/// Bytes that are not a text in UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// The first byte that belongs to no character.
    pub byte: usize,
    /// Where it stands.
    pub position: Position,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotUtf8 { byte, position } = self;
        write!(f, "the source is not UTF-8: byte {byte}, at {position}, belongs to no character")
    }
}

impl std::error::Error for NotUtf8 {}

/// Reads a source. Whatever it is, the answer comes in time linear in its length, without a panic;
/// its trees, and the branches that they are made into, are no deeper than [`MAX_NESTING`] and
/// [`MAX_CHAIN`] allow, so that they may be walked recursively.
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

/// Reads a source of which it is not known whether it is a text.
pub fn parse_bytes(source: &[u8]) -> Result<Parsed, NotUtf8> {
    if source.len() > MAX_SOURCE {
        return Ok(too_large(source.len()));
    }
    text(source).map(parse)
}

/// Bytes as a text, if they are one.
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
