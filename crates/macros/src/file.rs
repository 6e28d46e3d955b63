//! Programs in files.

use std::path::Path;

use proc_macro2::{Span, TokenStream, TokenTree};
use solera_language::compile::compile;
use solera_language::syntax;

use crate::items::{self, Text};
use crate::said::{at_place, error};

/// The items of the program in the file that the tokens name, from a folder; or errors.
pub(crate) fn all(tokens: TokenStream, folder: &Path, paths: &TokenStream) -> TokenStream {
    let tokens: Vec<_> = tokens.into_iter().collect();
    let at = |token: Option<&TokenTree>| token.map_or_else(Span::call_site, TokenTree::span);
    let place = (at(tokens.first()), at(tokens.last()));
    let Some(name) = literal(&tokens) else {
        return error("the path of a file is needed, as in mixt_file!(\"groups.mixt\")", place);
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
    let said = compiled.diagnostics.iter().map(|one| at_place(one, place, &name, text));
    let mut said: TokenStream = said.collect();
    said.extend(items::all(&compiled, &Text::File(path.to_owned(), text.to_owned()), paths));
    said
}

/// A text as it is meant, if it is one without escapes. `concat!` and the like are not read here.
fn literal(tokens: &[TokenTree]) -> Option<String> {
    match tokens {
        [TokenTree::Literal(literal)] => {
            let written = literal.to_string();
            let inner = written.strip_prefix('"')?.strip_suffix('"')?;
            (!inner.contains('\\')).then(|| inner.to_owned())
        }
        // As another macro may hand it on.
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
    fn errors_say_where_in_the_file_they_are() {
        let items = expanded("\"contest_rejected.mixt\"");
        assert!(items.contains("compile_error"), "{items}");
        assert!(items.contains("[E0101]: a causal value decides"), "{items}");
        assert!(items.contains("contest_rejected.mixt:"), "{items}");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for (tokens, told) in [
            ("", "the path of a file is needed"),
            ("groups", "the path of a file is needed"),
            ("\"a\\\\b\"", "the path of a file is needed"),
            ("\"none.mixt\"", "none.mixt cannot be read"),
        ] {
            let items = expanded(tokens);
            assert!(items.contains(told), "{tokens}: {items}");
        }
    }
}
