//! Translates types of programs into types of Rust.

use proc_macro2::TokenStream;
use quote::quote;
use solera_program::ir::Program;
use solera_program::types::{Object, Type};

/// Names of a program's types in Rust.
pub(crate) struct Types<'p> {
    pub(crate) program: &'p Program,
    /// The path to `solera_mixt`.
    pub(crate) paths: &'p TokenStream,
    /// The structs, by number.
    pub(crate) structs: Vec<TokenStream>,
    /// The types of stores, by number.
    pub(crate) stores: Vec<TokenStream>,
}

impl Types<'_> {
    /// Returns the type of an owned value.
    pub(crate) fn owned(&self, ty: &Type) -> TokenStream {
        let paths = self.paths;
        match ty {
            // A program without errors has no value of an unknown type.
            Type::Unit | Type::Unknown => quote!(()),
            Type::Bool => quote!(::core::primitive::bool),
            Type::Int => quote!(::core::primitive::i64),
            Type::Float => quote!(::core::primitive::f64),
            Type::String => quote!(::std::string::String),
            Type::Bytes => quote!(::std::vec::Vec<::core::primitive::u8>),
            Type::Option(of) => {
                let of = self.owned(of);
                quote!(::core::option::Option<#of>)
            }
            Type::List(of) => {
                let of = self.owned(of);
                quote!(::std::vec::Vec<#of>)
            }
            Type::Set(of) => {
                let of = self.owned(of);
                quote!(::std::collections::BTreeSet<#of>)
            }
            Type::Map(key, value) => {
                let (key, value) = (self.owned(key), self.owned(value));
                quote!(::std::collections::BTreeMap<#key, #value>)
            }
            Type::Struct(id) => self.structs[usize::from(id.0)].clone(),
            Type::Handle(object, store) => {
                let (object, store) = (self.object(object), &self.stores[usize::from(store.0)]);
                quote!(#paths::typed::Handle<#object, #store>)
            }
        }
    }

    /// Returns the type of an argument.
    pub(crate) fn borrowed(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::Bool | Type::Int | Type::Float => self.owned(ty),
            Type::String => quote!(&::core::primitive::str),
            Type::Bytes => quote!(&[::core::primitive::u8]),
            Type::List(of) => {
                let of = self.owned(of);
                quote!(&[#of])
            }
            other => {
                let owned = self.owned(other);
                quote!(&#owned)
            }
        }
    }

    /// Returns whether arguments of the type are borrowed.
    pub(crate) fn is_borrowed(ty: &Type) -> bool {
        !matches!(ty, Type::Bool | Type::Int | Type::Float)
    }

    /// Returns the type of a struct's field. A struct that contains itself behind an option does so
    /// in a box.
    pub(crate) fn field(&self, holder: usize, ty: &Type) -> TokenStream {
        match ty {
            Type::Option(of) => {
                let inner = self.field(holder, of);
                match **of {
                    Type::Struct(id) if self.holds(usize::from(id.0), holder) => {
                        quote!(::core::option::Option<::std::boxed::Box<#inner>>)
                    }
                    _ => quote!(::core::option::Option<#inner>),
                }
            }
            other => self.owned(other),
        }
    }

    /// Returns whether a struct contains another one in memory, directly or behind options.
    fn holds(&self, outer: usize, inner: usize) -> bool {
        let mut seen = vec![false; self.program.structs.len()];
        let mut next = vec![outer];
        while let Some(id) = next.pop() {
            if id == inner {
                return true;
            }
            if std::mem::replace(&mut seen[id], true) {
                continue;
            }
            for (_, ty) in &self.program.structs[id].fields {
                let mut ty = ty;
                while let Type::Option(of) = ty {
                    ty = of;
                }
                if let Type::Struct(id) = ty {
                    next.push(usize::from(id.0));
                }
            }
        }
        false
    }

    /// Returns whether values of the type are ordered, because they contain no floats.
    pub(crate) fn is_ordered(&self, ty: &Type) -> bool {
        let mut seen = vec![false; self.program.structs.len()];
        let mut next = vec![ty];
        while let Some(ty) = next.pop() {
            match ty {
                Type::Float => return false,
                Type::Option(of) | Type::List(of) | Type::Set(of) => next.push(of),
                Type::Map(key, value) => next.extend([&**key, &**value]),
                Type::Struct(id) => {
                    let id = usize::from(id.0);
                    if !std::mem::replace(&mut seen[id], true) {
                        next.extend(self.program.structs[id].fields.iter().map(|(_, ty)| ty));
                    }
                }
                _ => {}
            }
        }
        true
    }

    /// Returns whether the type contains a struct, not only behind a handle.
    pub(crate) fn has_struct(ty: &Type) -> bool {
        match ty {
            Type::Option(of) | Type::List(of) | Type::Set(of) => Types::has_struct(of),
            Type::Map(key, value) => Types::has_struct(key) || Types::has_struct(value),
            other => matches!(other, Type::Struct(_)),
        }
    }

    /// Returns the type of the object to which a handle leads.
    fn object(&self, object: &Object) -> TokenStream {
        let paths = self.paths;
        let of = |ty: &Type| self.owned(ty);
        let (kind, of) = match object {
            Object::Struct(id) => return self.structs[usize::from(id.0)].clone(),
            Object::Counter => return quote!(#paths::typed::Counter),
            Object::Register(ty) => (quote!(Register), of(ty)),
            Object::Set(ty) => (quote!(Set), of(ty)),
            Object::Map(key, value) => {
                let (key, value) = (of(key), of(value));
                (quote!(Map), quote!(#key, #value))
            }
            Object::List(ty) => (quote!(List), of(ty)),
            Object::Log(ty) => (quote!(Log), of(ty)),
            Object::RemoteList(ty) => (quote!(RemoteList), of(ty)),
        };
        quote!(#paths::typed::#kind<#of>)
    }
}
