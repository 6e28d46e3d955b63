//! Generates the items of Rust for a program.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use solera_language::compile::{Compiled, Explained};
use solera_program::ir::{Program, Struct, Transaction};
use solera_program::run::spell;
use solera_program::types::Type;

use crate::names::name;
use crate::quoted::quoted;
use crate::types::Types;

/// Source of a program.
pub(crate) enum Text {
    /// Text between braces.
    Written(String),
    /// Path and text of a file.
    File(String, String),
}

/// Returns the items of a program; none if it has errors.
pub(crate) fn all(compiled: &Compiled, text: &Text, paths: &TokenStream) -> TokenStream {
    let Some(program) = &compiled.program else { return TokenStream::new() };
    let types = Types {
        program,
        paths,
        structs: program.structs.iter().map(|one| name(&one.name).into_token_stream()).collect(),
        stores: program.stores.iter().map(|one| store_type(&one.name)).collect(),
    };
    let structs = (0..program.structs.len()).map(|index| structure(index, &types));
    let (stores, source) = (stores(&types), source(text, &types));
    let transactions = program.transactions.iter().zip(&compiled.transactions).enumerate();
    let transactions = transactions
        .map(|(index, (one, known))| transaction((index, one), known, compiled, &types));
    quote! {
        #source
        #stores
        #(#structs)*
        #(#transactions)*
    }
}

fn store_type(store: &str) -> TokenStream {
    let store = name(store);
    quote!(stores::#store)
}

/// Returns the program itself, and the macro for inline transactions.
fn source(text: &Text, types: &Types<'_>) -> TokenStream {
    let paths = types.paths;
    let (source, written) = match text {
        Text::Written(text) => (quote!(#text), text),
        // With `include_str!`, the compiler compiles the crate again when the file changes.
        Text::File(path, text) => (quote!(::core::include_str!(#path)), text),
    };
    let implementation = program_for(&quote!(Program), &source, paths);
    let declarations = quoted(written);
    let structs = types.structs.iter().enumerate().map(|(index, one)| {
        quote! {
            impl #paths::typed::StructAt<#index> for Program {
                type Rust = #one;
            }
        }
    });
    let stores = types.stores.iter().enumerate().map(|(index, one)| {
        quote! {
            impl #paths::typed::StoreAt<#index> for Program {
                type Store = #one;
            }
        }
    });
    quote! {
        /// The program from which these items were generated.
        #[allow(dead_code, unreachable_pub)]
        #[derive(Debug)]
        pub enum Program {}

        #implementation
        #(#structs)*
        #(#stores)*

        #[allow(unused_macros)]
        macro_rules! __transaction {
            ($($tokens:tt)*) => {
                #paths::__macros::mixt_inline! { [#paths] #declarations $($tokens)* }
            };
        }
        #[allow(unused_imports)]
        pub(crate) use __transaction as transaction;
    }
}

/// Implements `Program` for a type.
pub(crate) fn program_for(
    of: &TokenStream,
    source: &TokenStream,
    paths: &TokenStream,
) -> TokenStream {
    quote! {
        impl #paths::typed::Program for #of {
            const SOURCE: &'static ::core::primitive::str = #source;

            fn compiled() -> &'static ::std::sync::Arc<#paths::__macros::ir::Program> {
                static COMPILED: ::std::sync::LazyLock<
                    ::std::sync::Arc<#paths::__macros::ir::Program>,
                > = ::std::sync::LazyLock::new(|| {
                    #paths::typed::compile(<#of as #paths::typed::Program>::SOURCE)
                });
                &COMPILED
            }
        }
    }
}

/// Returns the stores as types, and the struct that binds them.
fn stores(types: &Types<'_>) -> TokenStream {
    let paths = types.paths;
    let names: Vec<_> = types.program.stores.iter().map(|store| name(&store.name)).collect();
    let texts: Vec<_> = types.program.stores.iter().map(|store| &*store.name).collect();
    let documentation: Vec<_> = types
        .program
        .stores
        .iter()
        .map(|store| format!("`store {} : {};`", store.name, store.level))
        .collect();
    quote! {
        /// The stores of the program, as types.
        #[allow(dead_code, non_camel_case_types, unreachable_pub)]
        pub mod stores {
            #(
                #[doc = #documentation]
                #[derive(Debug)]
                pub enum #names {}

                impl #paths::typed::Store for #names {
                    const NAME: &'static ::core::primitive::str = #texts;
                }
            )*
        }

        /// The spaces to which the stores of the program are bound.
        #[allow(dead_code, non_snake_case, unreachable_pub)]
        #[derive(Clone, Debug)]
        pub struct Stores {
            #(
                #[doc = #documentation]
                pub #names: #paths::typed::Space,
            )*
        }

        #[allow(dead_code, unreachable_pub)]
        impl Stores {
            /// Binds each store to the space of its name in one database.
            pub fn within(
                database: &(impl #paths::store::Database + ::core::clone::Clone + 'static),
            ) -> Stores {
                let _ = database;
                Stores { #(#names: #paths::typed::Space::new(database, #texts),)* }
            }

            /// Creates a session that runs transactions.
            ///
            /// # Errors
            /// If a space is missing, or weaker than its store.
            pub fn bind(
                self,
                host: impl #paths::typed::Host + 'static,
            ) -> ::core::result::Result<
                #paths::typed::TypedSession<Program>,
                #paths::binding::BindError,
            > {
                #paths::typed::TypedSession::bind(::std::vec![#(self.#names),*], host)
            }
        }
    }
}

fn structure(index: usize, types: &Types<'_>) -> TokenStream {
    let paths = types.paths;
    let Struct { name: text, fields } = &types.program.structs[index];
    let of = name(text);
    let names: Vec<_> = fields.iter().map(|(field, _)| name(field)).collect();
    let field_docs = fields.iter().map(|(_, ty)| format!("`{}`", spell(types.program, ty)));
    let rust = fields.iter().map(|(_, ty)| types.field(index, ty));
    let places: Vec<_> = (0..fields.len()).map(|place| format_ident!("field_{place}")).collect();
    let ordered = fields.iter().all(|(_, ty)| types.is_ordered(ty));
    let order = ordered.then(|| quote!(, Eq, PartialOrd, Ord, Hash));
    let documentation = format!("`struct {text}` of the program, as a value.");
    quote! {
        #[doc = #documentation]
        #[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_pub)]
        #[derive(Clone, Debug, PartialEq #order)]
        pub struct #of {
            #(
                #[doc = #field_docs]
                pub #names: #rust,
            )*
        }

        impl #paths::typed::ToValue for #of {
            fn to_value(&self) -> #paths::__macros::Value {
                #paths::typed::structure(
                    ::std::vec![#(#paths::typed::ToValue::to_value(&self.#names)),*],
                )
            }
        }

        impl #paths::typed::FromValue for #of {
            fn from_value(
                value: &#paths::__macros::Value,
            ) -> ::core::option::Option<Self> {
                match #paths::typed::fields(value)? {
                    [#(#places),*] => ::core::option::Option::Some(#of {
                        #(#names: #paths::typed::FromValue::from_value(#places)?,)*
                    }),
                    _ => ::core::option::Option::None,
                }
            }
        }
    }
}

fn transaction(
    (index, transaction): (usize, &Transaction),
    known: &Explained,
    compiled: &Compiled,
    types: &Types<'_>,
) -> TokenStream {
    let paths = types.paths;
    let function = name(&transaction.name);
    let names: Vec<_> = transaction.params.iter().map(|(param, _)| name(param)).collect();
    let borrowed = transaction.params.iter().map(|(_, ty)| types.borrowed(ty));
    let arguments = arguments(&names, &transaction.params, paths);
    let result = types.owned(&transaction.result);
    // With this hygiene, the name differs from those of all parameters, even of a parameter `on`.
    let on = Ident::new("on", Span::mixed_site());
    let documentation = documentation(transaction, known, compiled, types.program);
    quote! {
        #(#[doc = #documentation])*
        #[allow(
            clippy::all, dead_code, non_snake_case, unreachable_pub
        )]
        pub async fn #function(
            #on: &mut #paths::typed::TypedSession<Program>,
            #(#names: #borrowed,)*
        ) -> ::core::result::Result<#result, #paths::typed::Error> {
            #on.call(#index, #arguments).await
        }
    }
}

/// Returns the arguments as values.
pub(crate) fn arguments(
    names: &[Ident],
    params: &[(std::sync::Arc<str>, Type)],
    paths: &TokenStream,
) -> TokenStream {
    let one = names.iter().zip(params).map(|(name, (_, ty))| {
        let reference = (!Types::is_borrowed(ty)).then(|| quote!(&));
        quote!(#paths::typed::ToValue::to_value(#reference #name))
    });
    quote!(::std::vec![#(#one),*])
}

/// Returns the documentation of a transaction: its declaration, the level of its result, and the
/// stores of its phases.
fn documentation(
    transaction: &Transaction,
    known: &Explained,
    compiled: &Compiled,
    program: &Program,
) -> Vec<String> {
    let params = transaction.params.iter();
    let params: Vec<_> =
        params.map(|(name, ty)| format!("{name}: {}", spell(program, ty))).collect();
    let declarations = &compiled.declarations;
    let stated = known.checkable.stated.map(|(level, _)| declarations.level_name(level));
    let result = match &transaction.result {
        Type::Unit => String::new(),
        ty => {
            let stated = stated.map(|level| format!(" @ {level}")).unwrap_or_default();
            format!(" -> {}{stated}", spell(program, ty))
        }
    };
    let mut documentation = vec![
        format!("`transaction {}({}){result}`", transaction.name, params.join(", ")),
        String::new(),
    ];
    if let Some(result) = known.checkable.body.result {
        let level = declarations.level_name(known.flows.labels[result.0 as usize].level);
        documentation.push(format!("Its result is {level}."));
    }
    let phases = transaction.phases.iter().filter_map(|phase| {
        let store = &program.stores[usize::from(phase.store?.0)];
        Some(format!("`{}` ({})", store.name, store.level))
    });
    let phases: Vec<_> = phases.collect();
    if !phases.is_empty() {
        documentation.push(format!("It uses, one after another: {}.", phases.join(", ")));
    }
    documentation
        .extend(["", "# Errors", "Fails if the transaction was aborted, without an effect, or if a phase has committed and a later \
         one has not."].map(Into::into));
    documentation
}
