//! Programs in files.

use std::path::Path;

use proc_macro2::{Span, TokenStream, TokenTree};
use solera_language::compile::compile;
use solera_language::syntax;

use crate::items::{self, Text};
use crate::report::{at_place, error};

/// Returns the items of the program in a file, whose path from `folder` the tokens contain; or
/// errors.
pub(crate) fn all(tokens: TokenStream, folder: &Path, paths: &TokenStream) -> TokenStream {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let at = |token: Option<&TokenTree>| token.map_or_else(Span::call_site, TokenTree::span);
    let place = (at(tokens.first()), at(tokens.last()));
    let Some(name) = literal(&tokens) else {
        return error("expected the path of a file, as in mixt_file!(\"groups.mixt\")", place);
    };
    let path = folder.join(&name);
    let read = match std::fs::read(&path) {
        Ok(read) => read,
        Err(why) => return error(&format!("{} cannot be read: {why}", path.display()), place),
    };
    let text = match syntax::text(&read) {
        Ok(text) => text,
        Err(why) => return error(&format!("{name}: {why}"), place),
    };
    let Some(path) = path.to_str() else {
        return error(&format!("{} has a name that is not UTF-8", path.display()), place);
    };
    let compiled = compile(text);
    let reports = compiled.diagnostics.iter().map(|one| at_place(one, place, &name, text));
    let mut reports: TokenStream = reports.collect();
    reports.extend(items::all(&compiled, &Text::File(path.to_owned(), text.to_owned()), paths));
    reports
}

/// Returns the text of a string literal without escapes. Does not expand `concat!` and the like.
fn literal(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Literal(literal)] => {
            let written = literal.to_string();
            let inner = written.strip_prefix('"')?.strip_suffix('"')?;
            (!inner.contains('\\')).then(|| inner.to_owned())
        }
        // Another macro may have passed it on in a group.
        [TokenTree::Group(group)] => literal(&group.stream().into_iter().collect::<Vec<_>>()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(tokens: &str) -> String {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        all(tokens.parse().unwrap(), &examples, &quote::quote!(here)).to_string()
    }

    #[test]
    fn a_program_becomes_items_that_include_its_file() {
        let items = expanded("\"message_groups.mixt\"");
        assert!(items.contains("include_str !"), "{items}");
        assert!(items.contains("pub async fn post"), "{items}");
    }

    #[test]
    fn errors_contain_the_place_in_the_file() {
        let items = expanded("\"contest_rejected.mixt\"");
        assert!(items.contains("compile_error"), "{items}");
        assert!(items.contains("[E0101]: a causal value decides"), "{items}");
        assert!(items.contains("contest_rejected.mixt:"), "{items}");
    }

    #[test]
    fn other_tokens_than_a_path_are_rejected() {
        for (tokens, message) in [
            ("", "expected the path of a file"),
            ("groups", "expected the path of a file"),
            ("\"a\\\\b\"", "expected the path of a file"),
            ("\"none.mixt\"", "none.mixt cannot be read"),
        ] {
            let items = expanded(tokens);
            assert!(items.contains(message), "{tokens}: {items}");
        }
    }
}
