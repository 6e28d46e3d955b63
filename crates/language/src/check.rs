//! From a tree to the flattened language: names, types, and the order of evaluation.

mod calls;
mod declarations;
mod exits;
mod expressions;
mod leaving;
mod lower;
mod operators;
mod places;
mod statements;

pub use declarations::{Declarations, StoreInfo, StructInfo};
pub use lower::lower;
use solera_program::span::Span;
use solera_program::types::Type;

use crate::flat::Body;

/// A module whose names and types are in order, as far as its diagnostics do not say otherwise.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Levels, stores, structs and signatures.
    pub declarations: Declarations,
    /// The functions, in the order of their declaration.
    pub functions: Vec<Checkable>,
    /// The transactions, in the order of their declaration.
    pub transactions: Vec<Checkable>,
}

/// A function or transaction.
#[derive(Clone, Debug)]
pub struct Checkable {
    /// Its name.
    pub name: String,
    /// The names and types of its parameters.
    pub params: Vec<(String, Type)>,
    /// What it returns.
    pub result: Type,
    /// The level that the type of its result states.
    pub stated: Option<(solera_levels::Label, Span)>,
    /// From its keyword to the type of its result.
    pub head: Span,
    /// What it does.
    pub body: Body,
}
