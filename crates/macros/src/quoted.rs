//! Quotes texts as tokens, to pass the declarations of a program to its inline transactions.

use proc_macro2::TokenStream;
use quote::quote;

/// Quotes a text as a token that [`unquote`] reads, without escapes.
pub(crate) fn quoted(text: &str) -> TokenStream {
    let text = text.replace("\r\n", "\n");
    let longest = text.split('"').map(|part| part.len() - part.trim_start_matches('#').len());
    let signs = "#".repeat(longest.max().unwrap_or(0) + 1);
    let parsed = format!("r{signs}\"{text}\"{signs}").parse();
    // If a text cannot be a literal, Rust reports that when it compiles the transaction.
    parsed.unwrap_or_else(|_| quote!(r""))
}

/// Returns the text of such a token.
pub(crate) fn unquote(token: &str) -> String {
    let inner = token.trim_start_matches('r').trim_matches('#');
    let inner = inner.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back() {
        for text in ["", "a \"b\" \\n", "\"# \"## \u{e9}", "two\nlines#"] {
            assert_eq!(unquote(&quoted(text).to_string()), text);
        }
    }
}
