//! Compiles programs of the MixT language while Rust compiles, into functions of Rust.
//!
//! These macros are behind `solera_mixt::mixt!` and `solera_mixt::mixt_file!`, which tell them
//! first where what they generate finds its names, as tokens in brackets. `source` lays tokens out
//! as a source text, `said` brings what the compiler says back to the tokens, and `items` and
//! `inline` write Rust.

mod file;
mod inline;
mod items;
mod names;
mod quoted;
mod said;
mod source;
mod types;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use solera_language::compile::compile;

use source::Source;

/// Items for a program that stands between the macro's braces.
#[proc_macro]
pub fn mixt(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    let first = tokens.clone().into_iter().next();
    let file = first.map_or_else(Span::call_site, |token| token.span()).file();
    let source = Source::of(tokens);
    let compiled = compile(source.text());
    let mut said = said::at_tokens(&compiled.diagnostics, &source, &file);
    said.extend(items::all(&compiled, &items::Text::Written(source.dedented()), &paths));
    said.into()
}

/// Items for a program in a file.
#[proc_macro]
pub fn mixt_file(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    file::all(tokens, folder.as_ref(), &paths).into()
}

/// A transaction among Rust code, with the declarations of a program.
#[proc_macro]
pub fn mixt_inline(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let (paths, tokens) = from_where(input.into());
    inline::expression(tokens, &paths).into()
}

/// What stands in brackets at the beginning: the path to `solera_mixt`. And the rest.
fn from_where(input: TokenStream) -> (TokenStream, TokenStream) {
    let mut tokens = input.into_iter();
    match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            (group.stream(), tokens.collect())
        }
        // Only who calls the macro around the one that is meant to be called.
        other => (quote::quote!(::solera_mixt), other.into_iter().chain(tokens).collect()),
    }
}
