//! Reports the compiler's diagnostics as errors and warnings of Rust.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use solera_language::diagnostic::{Diagnostic, Severity};
use solera_language::render::render;

use crate::source::Source;

/// Reports the diagnostics of tokens in a file of Rust, each at its tokens.
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

/// Reports one diagnostic at a range of tokens, which `at` gives by its first and last token.
pub(crate) fn at_place(one: &Diagnostic, at: (Span, Span), file: &str, text: &str) -> TokenStream {
    let message = render(std::slice::from_ref(one), file, text, false);
    match one.severity {
        Severity::Error => error(message.strip_prefix("error").unwrap_or(&message).trim_end(), at),
        Severity::Warning => {
            warning(message.strip_prefix("warning").unwrap_or(&message).trim_end(), at.0)
        }
    }
}

/// Returns an error of Rust.
pub(crate) fn error(message: &str, (first, last): (Span, Span)) -> TokenStream {
    // Rust marks the text between the first token of the call and the last one.
    let path = quote_spanned!(first=> ::core::compile_error!);
    let message = quote_spanned!(last=> { #message });
    quote!(#path #message)
}

/// Returns a warning of Rust. Macros cannot warn, but Rust reports the use of a deprecated item at
/// any token.
fn warning(message: &str, at: Span) -> TokenStream {
    let name = Ident::new("warning", at);
    let used = quote_spanned!(at=> const _: () = #name;);
    quote! {
        const _: () = {
            #[deprecated(note = #message)]
            #[allow(non_upper_case_globals)]
            const #name: () = ();
            #used
        };
    }
}
