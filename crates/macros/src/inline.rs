//! An inline transaction among Rust code.
//!
//! `transaction!(on, |group: handle<Group> in directory = &tea, text: string| -> int { … })` has an
//! expression for the session, the parameters, the type of the result, and the body. Each parameter
//! has an expression for its argument; without one, the argument is the variable of that name.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use solera_language::compile::compile;

use crate::items::{arguments, program_for};
use crate::quoted::unquote;
use crate::report::{at_tokens, error};
use crate::source::Source;
use crate::types::Types;

/// Name of the transaction in records and messages.
const NAME: &str = "inline_transaction";

/// Returns an expression of a future of the result; or errors.
#[expect(clippy::too_many_lines, reason = "the pieces of one template")]
pub(crate) fn expression(tokens: TokenStream, paths: &TokenStream) -> TokenStream {
    let read = match Written::read(tokens) {
        Ok(read) => read,
        Err((message, at)) => {
            let error = error(message, (at, at));
            return quote!({ #error });
        }
    };
    let mut source = read.source();
    let length = source.text().len();
    source.text_after(&read.declarations);
    let compiled = compile(source.text());
    // The macro that generated the declarations has reported their errors already.
    let here = compiled.diagnostics.iter().filter(|one| one.primary.span.range().start <= length);
    let reports = at_tokens(here, &source, &read.open.file());
    let Some(program) = &compiled.program else { return quote!({ #reports }) };
    let transaction = &program.transactions[0];
    let (structs, stores) = (0..program.structs.len(), 0..program.stores.len());
    let types = Types {
        program,
        paths,
        structs: structs
            .clone()
            .map(|index| quote!(<P as #paths::typed::StructAt<#index>>::Rust))
            .collect(),
        stores: stores
            .clone()
            .map(|index| quote!(<P as #paths::typed::StoreAt<#index>>::Store))
            .collect(),
    };
    let names: Vec<Ident> =
        (0..transaction.params.len()).map(|index| format_ident!("argument_{index}")).collect();
    let borrowed = transaction.params.iter().map(|(_, ty)| types.borrowed(ty));
    let needed =
        transaction.params.iter().filter(|(_, ty)| Types::has_struct(ty)).map(|(_, ty)| {
            let owned = types.owned(ty);
            quote!(#owned: #paths::typed::ToValue,)
        });
    let result = types.owned(&transaction.result);
    let given =
        Types::has_struct(&transaction.result).then(|| quote!(#result: #paths::typed::FromValue,));
    let values = arguments(&names, &transaction.params, paths);
    let captured = read.params.iter().zip(&transaction.params).map(|(param, (_, ty))| {
        let value = &param.value;
        let at = value.clone().into_iter().next().map_or(read.open, |token| token.span());
        // Rust reports an argument of the wrong type at this span.
        match Types::is_borrowed(ty) {
            true => quote_spanned!(at=> &(#value)),
            false => quote_spanned!(at=> (#value)),
        }
    });
    let text = source.dedented();
    let implementation = program_for(&quote!(Inline), &quote!(#text), paths);
    let on = &read.on;
    quote! {{
        #reports
        enum Inline {}
        #implementation
        // The arguments are converted before the function returns, so they may be temporary.
        fn run<'session, P>(
            on: &'session mut #paths::typed::TypedSession<P>,
            #(#names: #borrowed,)*
        ) -> impl ::core::future::Future<
            Output = ::core::result::Result<#result, #paths::typed::Error>,
        > + use<'session, P>
        where
            P: #paths::typed::Program
                #(+ #paths::typed::StructAt<#structs>)*
                #(+ #paths::typed::StoreAt<#stores>)*,
            #(#needed)*
            #given
        {
            let values = #values;
            async move { on.inline::<Inline, _>(values).await }
        }
        run(#on, #(#captured),*)
    }}
}

/// Input of the macro.
struct Written {
    /// Declarations of the program to which the transaction belongs.
    declarations: String,
    /// The session that runs it.
    on: TokenStream,
    /// The bars around the parameters.
    open: Span,
    close: Span,
    params: Vec<Param>,
    /// `->` and the type of the result, if there is one.
    result: TokenStream,
    body: Group,
}

struct Param {
    /// Its name and type.
    declared: TokenStream,
    /// The argument.
    value: TokenStream,
    /// The comma after it.
    comma: Option<Span>,
}

/// Description and place of a missing part.
type Missing = (&'static str, Span);

impl Written {
    fn read(tokens: TokenStream) -> Result<Written, Missing> {
        let mut tokens = Tokens { rest: tokens.into_iter(), last: Span::call_site() };
        let declarations = match tokens.next() {
            Some(TokenTree::Literal(literal)) => unquote(&literal.to_string()),
            _ => {
                return Err((
                    "this macro is internal: only other macros call it",
                    Span::call_site(),
                ));
            }
        };
        let (on, _) = tokens.up_to(",");
        if on.is_empty() {
            return Err((
                "expected the session that runs the transaction, then a comma",
                tokens.last,
            ));
        }
        let open = match tokens.next() {
            Some(TokenTree::Punct(bar)) if bar.as_char() == '|' => bar.span(),
            _ => return Err(("expected parameters between `|` and `|`", tokens.last)),
        };
        let mut params = Vec::new();
        let close = loop {
            let (declared, mut ended) = tokens.up_to("=,|");
            let mut value = declared.clone().into_iter().take(1).collect();
            if ended == Some('=') {
                (value, ended) = tokens.up_to(",|");
                if value.is_empty() {
                    return Err(("an argument is missing after `=`", tokens.last));
                }
            }
            if !declared.is_empty() {
                let comma = (ended == Some(',')).then_some(tokens.last);
                params.push(Param { declared, comma, value });
            }
            match ended {
                Some('|') => break tokens.last,
                Some(_) => {}
                None => return Err(("expected `|` after the parameters", tokens.last)),
            }
        };
        let mut rest: Vec<_> = tokens.rest.collect();
        let last = rest.last().map_or(close, TokenTree::span);
        match rest.pop() {
            Some(TokenTree::Group(body)) if body.delimiter() == Delimiter::Brace => {
                let result = rest.into_iter().collect();
                Ok(Written { declarations, on, open, close, params, result, body })
            }
            _ => Err(("expected the body of the transaction in braces, at the end", last)),
        }
    }

    /// Returns the transaction in the language, at the places of its tokens.
    fn source(&self) -> Source {
        let mut source = Source::beginning(&format!("transaction {NAME}"));
        source.word("(", self.open);
        for param in &self.params {
            source.tokens(param.declared.clone());
            if let Some(comma) = param.comma {
                source.word(",", comma);
            }
        }
        source.word(")", self.close);
        source.tokens(self.result.clone());
        source.tokens(self.body.to_token_stream());
        source
    }
}

/// Tokens, read one after another.
struct Tokens {
    rest: proc_macro2::token_stream::IntoIter,
    /// Place of the last one.
    last: Span,
}

impl Tokens {
    fn next(&mut self) -> Option<TokenTree> {
        let next = self.rest.next()?;
        self.last = next.span();
        Some(next)
    }

    /// Returns the tokens before the next of some signs, and that sign.
    fn up_to(&mut self, signs: &str) -> (TokenStream, Option<char>) {
        let mut before = TokenStream::new();
        // Commas within `<…>` do not count.
        let mut open = 0_usize;
        while let Some(token) = self.next() {
            if let TokenTree::Punct(sign) = &token {
                match sign.as_char() {
                    '<' => open += 1,
                    '>' => open = open.saturating_sub(1),
                    found if open == 0 && signs.contains(found) => return (before, Some(found)),
                    _ => {}
                }
            }
            before.extend([token]);
        }
        (before, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quoted::quoted;

    fn expanded(tokens: &str) -> String {
        let mut all = quoted("store a : causal; store b : linearizable;");
        all.extend(tokens.parse::<TokenStream>().unwrap());
        expression(all, &quote!(here)).to_string()
    }

    #[test]
    fn arguments_are_variables_unless_they_are_given() {
        let expanded =
            expanded("&mut on, |n: map<int, string>, m: int = 1 + 2| -> int { return m; }");
        assert!(expanded.contains("run (& mut on , & (n) , (1 + 2))"), "{expanded}");
    }

    #[test]
    fn missing_parts_are_reported() {
        for (tokens, message) in [
            ("", "expected the session"),
            ("on", "expected parameters between"),
            ("on, { }", "expected parameters between"),
            ("on, |a: int", "after the parameters"),
            ("on, |a: int = | { }", "an argument is missing"),
            ("on, || -> int", "in braces"),
            ("on, |a: wrong| { }", "no type 'wrong'"),
            (
                "on, |x: handle<counter> in a, y: handle<counter> in b| { y.add(x.value()); }",
                "[E0101]",
            ),
        ] {
            let expanded = expanded(tokens);
            assert!(expanded.contains("compile_error") && expanded.contains(message), "{expanded}");
        }
    }
}
