//! Names of programs as names of Rust.

use proc_macro2::{Ident, Span};

/// Reserved words that Rust allows as `r#…`. A program may use them as names.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Words that Rust allows as names in no form.
const RESERVED: &[&str] = &["Self", "crate", "self", "super", "_"];

/// Returns a name of a program for Rust: `type` becomes `r#type`, and `self` becomes `self_`.
pub(crate) fn name(text: &str) -> Ident {
    let span = Span::call_site();
    if KEYWORDS.contains(&text) {
        Ident::new_raw(text, span)
    } else if RESERVED.contains(&text) {
        Ident::new(&format!("{text}_"), span)
    } else {
        Ident::new(text, span)
    }
}
