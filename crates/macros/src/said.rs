//! What the compiler says, as errors and warnings of Rust.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use solera_language::diagnostic::{Diagnostic, Severity};
use solera_language::render::render;

use crate::source::Source;

/// Says what the compiler says of tokens in a file of Rust, each at its tokens.
pub(crate) fn at_tokens<'d>(
    diagnostics: impl IntoIterator<Item = &'d Diagnostic>,
    source: &Source,
    file: &str,
) -> TokenStream {
    let one = |one: &Diagnostic| {
        let at = source.tokens_at(one.primary.span.range());
        at_place(one, at, file, source.text())
    };
    diagnostics.into_iter().map(one).collect()
}

/// Says one thing at a place: from one token to another.
pub(crate) fn at_place(one: &Diagnostic, at: (Span, Span), file: &str, text: &str) -> TokenStream {
    let told = render(std::slice::from_ref(one), file, text, false);
    match one.severity {
        Severity::Error => error(told.strip_prefix("error").unwrap_or(&told).trim_end(), at),
        Severity::Warning => {
            warning(told.strip_prefix("warning").unwrap_or(&told).trim_end(), at.0)
        }
    }
}

/// An error of Rust.
pub(crate) fn error(told: &str, (first, last): (Span, Span)) -> TokenStream {
    // Rust marks what is between the first token of the call and its last one.
    let path = quote_spanned!(first=> ::core::compile_error!);
    let message = quote_spanned!(last=> { #told });
    quote!(#path #message)
}

/// A warning of Rust. Macros have no warnings of their own, but what is deprecated may say so at
/// any token.
fn warning(told: &str, at: Span) -> TokenStream {
    let name = Ident::new("warning", at);
    let used = quote_spanned!(at=> const _: () = #name;);
    quote! {
        const _: () = {
            #[deprecated(note = #told)]
            #[allow(non_upper_case_globals)]
            const #name: () = ();
            #used
        };
    }
}
