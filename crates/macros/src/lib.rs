//! Compiles MixT programs into Rust functions at compile time.
//!
//! These macros implement `solera_mixt::mixt!` and `solera_mixt::mixt_file!`, which pass the path
//! to `solera_mixt` first, as tokens in brackets. `source` lays tokens out as a source text,
//! `report` attaches the compiler's diagnostics to tokens, and `items` and `inline` generate Rust.

mod file;
mod inline;
mod items;
mod names;
mod quoted;
mod report;
mod source;
mod types;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use solera_language::compile::compile;

use source::Source;

/// Generates the items of a program between the macro's braces.
#[proc_macro]
pub fn mixt(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    let first = tokens.clone().into_iter().next();
    let file = first.map_or_else(Span::call_site, |token| token.span()).file();
    let source = Source::of(tokens);
    let compiled = compile(source.text());
    let mut reports = report::at_tokens(&compiled.diagnostics, &source, &file);
    reports.extend(items::all(&compiled, &items::Text::Written(source.dedented()), &paths));
    reports.into()
}

/// Generates the items of a program in a file.
#[proc_macro]
pub fn mixt_file(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    file::all(tokens, folder.as_ref(), &paths).into()
}

/// Generates a transaction among Rust code, with the declarations of a program.
#[proc_macro]
pub fn mixt_inline(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    inline::expression(tokens, &paths).into()
}

/// Separates the path to `solera_mixt`, in brackets at the beginning, from the rest.
fn from_where(input: TokenStream) -> (TokenStream, TokenStream) {
    let mut tokens = input.into_iter();
    match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            (group.stream(), tokens.collect())
        }
        // Only a direct call of the inner macro has no path.
        other => (quote::quote!(::solera_mixt), other.into_iter().chain(tokens).collect()),
    }
}
